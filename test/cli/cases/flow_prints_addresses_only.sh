. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --format=ip --limit=5
