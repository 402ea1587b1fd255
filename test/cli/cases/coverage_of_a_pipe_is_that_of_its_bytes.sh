. "$CASES/raw.inc"
for options in --by=insn "--by=insn --to=@0x2e" --format=drcov --format=afl; do
    "$COFI" coverage $options --raw=trace.pt --image=code.bin@0x401000 >expected 2>&1
    { head -c 21 trace.pt; sleep 0.05; tail -c +22 trace.pt; } | "$COFI" coverage $options --raw=- --image=code.bin@0x401000 >got 2>&1
    cmp expected got && echo "coverage $options: the same"
done
