. "$CASES/raw.inc"
"$COFI" asm -o more.pt - <<'TEXT'
tsc f42464
tip.pge 1: ????????????1000
tnt.8 !
fup 1: ????????????100c
tip.pgd 0: ????????????????
ovf
fup 3: 0000000000401000
tnt.8 !!!
tnt.8 .
tip 1: ????????????101a
tip.pgd 0: ????????????????
tsc f424c8
TEXT
cat more.pt >>trace.pt
for format in tree folded chrome; do "$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=$format; done
echo "-- the first level, then what has 16 instructions"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=chrome --depth=1
for format in tree folded chrome; do "$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=$format --min-insns=16; done
echo "-- with the instructions of what is left out"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=folded --depth=1
for options in '--format=svg' '--format=folded --json' '--format=chrome --min=1' '--min-insns=few'; do
    "$COFI" calls --raw=trace.pt --image=code.bin@0x401000 $options; echo "exit $?"
done
echo "-- threads of processors: one that another follows does not run"
"$PERCPU" p.data >/dev/null
"$COFI" calls --format=chrome p.data
