# The second part of a trace whose tracer was stopped and started again: no PSB in it.
. "$CASES/raw.inc"
dd if=trace.pt of=rest.pt bs=1 skip=32 2>/dev/null
"$COFI" flow --raw=rest.pt --image=code.bin@0x401000
