. "$CASES/raw.inc"
"$COFI" stat --raw=trace.pt --image=code.bin@0x401000
