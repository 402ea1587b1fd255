. "$CASES/raw.inc"
perl -e 'print pack("Q<*", 0x401000, 0x402000, 0x403000)' >cut.addr
{ cat code.bin; head -c 12000 /dev/zero; } | head -c 8200 >cut.dump
"$COFI" check --raw=trace.pt --image=cut.addr
printf '401000\n402000\n' >text.addr; cp cut.dump text.dump
"$COFI" check --raw=trace.pt --image=text.addr
"$COFI" flow --raw=trace.pt --image=cut.addr --limit=2 --format=ip --no-events
