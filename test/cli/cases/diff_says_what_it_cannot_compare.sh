. "$CASES/raw.inc"
"$COFI" diff
echo "status $?"
"$COFI" diff trace.pt
echo "status $?"
"$COFI" diff trace.pt trace.pt
echo "status $?"
"$COFI" diff --image=code.bin a b
echo "status $?"
"$COFI" diff --tid=x a b
echo "status $?"
"$COFI" diff --raw trace.pt nonesuch
echo "status $?: without code"
"$COFI" diff --raw trace.pt trace.pt
"$COFI" diff - - <trace.pt
echo "status $?: programs of one name that share nothing; a recording without a trace"
. "$CASES/diff.inc"
mkdir c d
(cd c && make_program)
(cd d && printf '.globl other\n.type other, @function\nother: mov $60, %%eax\nsyscall\n.size other, . - other\n' |
    gcc -nostdlib -static -Wl,-e,other -o program -xassembler -)
for dir in c d; do "$COFI" record -q -o $dir.data -- $dir/program 5; done
"$COFI" diff -q c.data d.data
head -c 1200 c.data >none.data
"$COFI" diff -q c.data none.data 2>&1 | grep -c "no trace in it\|called as"
