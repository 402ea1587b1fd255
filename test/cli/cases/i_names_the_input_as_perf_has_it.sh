# -i FILE is FILE, wherever it stands; not both, and not two where one is read.
. "$CASES/raw.inc"
"$PERCPU" a.data && cp a.data b.data
same() { # COMMAND... : with the operand at its end, and with it by -i
    "$COFI" "$@" a.data >expected 2>&1
    command=$1
    shift
    for way in "-i a.data" "-ia.data" "--input=a.data" "--input a.data"; do
        "$COFI" $command $way "$@" >got 2>&1
        cmp -s expected got || echo "cofi $command $way is another"
    done
    [ -s expected ] || echo "cofi $command shows nothing"
}
for command in flow calls coverage stat check dump replay; do same $command; done
same flow --format=ip
"$COFI" archive -o x -i a.data >got
"$COFI" archive -o y a.data | sed 's/y/x/g' | cmp - got
"$COFI" coverage a.data b.data | sed 's/b.data/a.data/' >expected
"$COFI" coverage -i a.data -i b.data | cmp - expected
"$COFI" diff -q -i a.data -i b.data && echo "diff: equal"
"$COFI" stat -i - <a.data | head -n 1
"$COFI" gdb -i nothing.data -- -batch

for command in flow calls gdb stat check dump replay archive; do
    "$COFI" $command -i a.data b.data || echo "status $?"
    "$COFI" $command -i a.data --input=b.data || echo "status $?"
done
"$COFI" coverage -i a.data b.data || echo "status $?"
"$COFI" diff -i a.data b.data || echo "status $?"
"$COFI" flow -i a.data --raw=trace.pt || echo "status $?"
"$COFI" dump -i a.data --raw trace.pt || echo "status $?"
"$COFI" flow -i || echo "status $?"
