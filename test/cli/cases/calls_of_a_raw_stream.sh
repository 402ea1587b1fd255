. "$CASES/raw.inc"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000
