# With threads, and a trace of more than they decode at once: what was shown, not what was decoded for that.
. "$CASES/raw.inc"
{ cat trace.pt; perl -e 'print "\x71\0\x10\x40\0\0\0\x06\x31\x34\x12" x 20000'; } >long.pt
head -c 10 code.bin >head.bin
for threads in 1 2; do
    "$COFI" flow --raw=long.pt --image=head.bin@0x401000 --limit=3 --threads=$threads --format=ip --no-events
done
