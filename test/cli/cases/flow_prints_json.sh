. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --json | head -6
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --json --no-events | grep -c event
