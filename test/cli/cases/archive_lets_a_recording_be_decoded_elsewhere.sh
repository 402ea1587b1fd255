# Symbols, lines and instructions are what they were, of a program whose debug file is another one.
. "$CASES/program.inc"
mkdir here
printf 'int main(void)\n{\n    return 0;\n}\n' >main.c
gcc -g -o here/program main.c
objcopy --only-keep-debug here/program here/program.debug
strip here/program
objcopy --add-gnu-debuglink=here/program.debug here/program
touch -d 2001-02-03 here/program
"$COFI" record -q -- here/program
"$COFI" flow >before 2>&1
"$COFI" archive 2>said
echo "status $?"
sed 's/[0-9][0-9]* files, [0-9.]* MB/N files, N MB/' said
mv here there
"$COFI" flow --symfs=cofi.data.files 2>&1 | cmp - before && grep -o 'main  *main.c:[0-9]*' before | uniq
"$COFI" flow --format=ip 2>&1 >/dev/null | grep -o 'program: no such file' | uniq

# A file is the same as it was.
copy=cofi.data.files$PWD/here/program
cmp "$copy" there/program
stat -c '%a %Y' "$copy" there/program | uniq | wc -l
find cofi.data.files -name '.cofi*'

# By a pipe, and packed.
mv there here
"$COFI" archive -o piped - <cofi.data 2>/dev/null
echo "status $?"
diff -r cofi.data.files piped && echo the same
"$COFI" record -q -o packed.zst -- here/program
"$COFI" archive packed.zst 2>&1 | grep -o 'in .*'
diff -r cofi.data.files packed.zst.files && echo the same
