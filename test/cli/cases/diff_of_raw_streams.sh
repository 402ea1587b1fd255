# Two inputs of a fuzzer, say.
. "$CASES/raw.inc"
"$COFI" asm -o other.pt - <<'TEXT'
psb
tsc f42400
cbr 18
psbend
mode.exec cs.l
tip.pge 3: 0000000000401000
tnt.8 !!!!!
tnt.8 .
tip 1: ????????????101a
tip.pgd 0: ????????????????
TEXT
"$COFI" diff --raw --image=code.bin@0x401000 trace.pt trace.pt
"$COFI" diff --raw --image=code.bin@0x401000 trace.pt other.pt
