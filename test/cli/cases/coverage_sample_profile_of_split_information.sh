# Debug information that was split off is read where it lies; without it the lines that stay are no profile, which is said as it is.
printf 'int main(int n, char **v)\n{\n    for (int i = 0; i < 100000; i++)\n        n += n & 3 ? 1 : 2;\n    return n < 0;\n}\n' >p.c
gcc -O1 -g -gsplit-dwarf -o p p.c
"$COFI" record -q -o p.data ./p
"$COFI" coverage --format=afdo --module=p -o p.afdo p.data 2>log
echo "status $?"
grep -o 'profile has [^ ]*' log
grep -c '^main:' p.afdo
rm ./*.dwo
"$COFI" coverage --format=afdo --module=p -o p.afdo p.data 2>log
echo "status $?"
sed "s,$PWD/,," log
strip p
HOME=$PWD "$COFI" record -q -o p.data ./p
"$COFI" coverage --format=afdo --module=p -o p.afdo p.data 2>&1 | sed "s,$PWD/,,"
