# The second part of a trace whose tracer was stopped and started again: no PSB in it. Cut between packets, and inside of one.
. "$CASES/raw.inc"
dd if=trace.pt of=rest.pt bs=1 skip=32 2>/dev/null
"$COFI" check --raw=rest.pt --image=code.bin@0x401000
(printf '\377\377'; cat rest.pt) >cut.pt
"$COFI" flow --raw=cut.pt --image=code.bin@0x401000
