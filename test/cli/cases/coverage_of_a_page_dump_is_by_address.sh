. "$CASES/raw.inc"
{ cat code.bin; head -c 4096 /dev/zero; } | head -c 4096 >page
perl -e 'print pack("Q<*", 0x401000, 0x7000000)' >one.addr
perl -e 'print pack("Q<*", 0x7000000, 0x401000)' >two.addr
{ cat page; head -c 4096 /dev/zero; } >one.dump
{ head -c 4096 /dev/zero; cat page; } >two.dump
for name in one two; do
    "$COFI" coverage --raw=trace.pt --image=$name.addr --by=insn 2>&1 | sed "s/$name/X/" >$name.insn
    "$COFI" coverage --raw=trace.pt --image=$name.addr --format=afl >$name.afl
done
head -4 one.insn
cmp one.insn two.insn && cmp one.afl two.afl && echo "the order of pages changes nothing"
"$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 --format=afl | cmp - one.afl || echo "other places than raw code's"
"$COFI" flow --raw=trace.pt --image=one.addr | sed -n 2,3p
