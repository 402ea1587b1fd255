# A program of its own, with functions in and out of others, one that does not run, and code in a header.
cat >part.h <<'TEXT'
static inline int half(int n)
{
    return n / 2;
}
TEXT
cat >main.c <<'TEXT'
#include "./part.h"
int never(int n)
{
    return n + 1;
}
static int odd(int n)
{
    return n & 1;
}
static int count(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        if (odd(i))
            sum += half(i);
    return sum;
}
int main(void) { return count(20) == 45 ? 0 : never(1); }
TEXT
gcc -g -O0 -o program main.c
"$COFI" record -q -o p.data -- ./program || echo "status $?"
here=$(realpath .)
tell() { sed "s,$here/,HERE/,g"; }
"$COFI" coverage --format=lcov --module=program p.data | tell
echo "-- lines"
"$COFI" coverage --by=line --all --module=program --source=part.h p.data | tell
"$COFI" coverage --by=line --module=program --source='*/main.c' p.data | tell
echo "-- one function"
"$COFI" coverage --by=line --function=odd --module=program p.data | tell
"$COFI" coverage --format=lcov --function='o?d' --module="$here/program" p.data | tell
"$COFI" coverage --function=nothing p.data
echo "status $?"
echo "-- one that did not run"
"$COFI" coverage --function=never --all --json --module=program p.data | grep -o '"function.*' | sed "s,$here/,,; s/0x[0-9a-f]*/ADDRESS/; s/\"size\":[0-9]*/\"size\":N/"
"$COFI" coverage --function=never --format=lcov --module=program p.data | tell
echo "-- functions"
functions() { "$COFI" coverage --module=program --function='[a-z]*' "$@" p.data | grep 'main.c\|part.h' | sed 's/^ *//; s/ *[0-9.]*%//; s/  */ /g'; }
functions
echo "-- by name, with those that did not run"
functions --all --sort=name
echo "-- by how often"
functions --sort=entered
echo "-- by address"
functions --sort=address --all
echo "-- by share"
functions --sort=share | sort | cmp - - && functions --sort=share | wc -l
echo "-- of a source file"
"$COFI" coverage --source=part.h p.data | sed 's/.*: \([0-9]*\) instructions, /\1 /; s/ *[0-9.]*% [^,]*,//; s/  */ /g; s/ *[0-9.]*%//'
"$COFI" coverage --by=module --source=main.c p.data | tell | sed 1d | awk '{ print $1, $3, $4, $5, $6 }'
for by in function line branch; do
    "$COFI" coverage --by=$by --source=nothing.c p.data 2>&1
    echo "status $?"
done
echo "-- without lines"
"$COFI" coverage --module=program --function=odd --no-source p.data | sed '1,2d; s/ *[0-9.]*%//; s/  */ /g'
echo "-- a program without lines"
strip program
HOME=$PWD "$COFI" record -q -o s.data -- ./program
"$COFI" coverage --format=lcov --module=program s.data
echo "status $?"
echo "-- files, however they are named"
mkdir -p sub/inc
mv part.h sub/inc
sed 's,./part.h,../inc/./part.h,' main.c >sub/inc/more.c
mkdir sub/src
HOME=$PWD
for version in 4 5; do
    (cd sub/src && gcc -gdwarf-$version -O0 -o ../../again ../inc/more.c)
    "$COFI" record -q -o v.data -- ./again
    "$COFI" coverage --format=lcov --module=again v.data | grep -E '^(SF|LF|LH)' | tell
done
echo "-- a function that the linker left out"
printf 'int dropped(int n)\n{\n    return n;\n}\nint main(void)\n{\n    return 0;\n}\n' >drop.c
gcc -g -O0 -ffunction-sections -Wl,--gc-sections -o drop drop.c
"$COFI" record -q -o d.data -- ./drop
"$COFI" coverage --format=lcov --module=drop d.data | tell
