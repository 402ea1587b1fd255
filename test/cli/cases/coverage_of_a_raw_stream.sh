. "$CASES/raw.inc"
raw="--raw=trace.pt --image=code.bin@0x401000"
"$COFI" coverage $raw
"$COFI" coverage $raw --json
for by in module function line insn; do
    echo "-- $by"
    "$COFI" coverage $raw --by=$by
    "$COFI" coverage $raw --by=$by --json
done
echo "-- drcov"
"$COFI" coverage $raw --format=drcov -o out.drcov
head -6 out.drcov
tail -c +$(($(head -6 out.drcov | wc -c) + 1)) out.drcov | od -An -v -tx1 -w8
echo "-- afl"
"$COFI" coverage $raw --format=afl | od -An -v -tu1 -w1 | grep -n '[1-9]'
echo "-- to a place, and from it"
"$COFI" coverage $raw --by=insn --to=@0x2e
"$COFI" coverage $raw --by=insn --from=@0x2e
echo "status $?"
