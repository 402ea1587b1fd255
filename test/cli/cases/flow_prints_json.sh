. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --json | head -6
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --json --no-events | awk '/event/ { n++ } END { print n + 0 " events" }'
