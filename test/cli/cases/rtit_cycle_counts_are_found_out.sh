printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000, CCP 5\nTNT T T NT T T T, CCP 10\nTIP 0: 1234, CCP 3f\nMTC 1, 22, CCP 40\nFUP.FAR 0: 1240, CCP 1\nTIP 2: ffff81001000, CCP 123\n' | $COFI asm >with.bin || exit
printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000\nTNT T T NT T T T\nTIP 0: 1234\nMTC 1, 22\nFUP.FAR 0: 1240\nTIP 2: ffff81001000\n' | $COFI asm >without.bin || exit
$COFI dump --lastip with.bin
$COFI dump without.bin
$COFI dump --cyc=0 --quiet with.bin
echo "status $?"
# And by what follows the code: the same instructions as where RTIT_CTL is told, from a file and from a pipe.
{
    echo "unit rtit"; echo "state ip=401000"
    echo "set filter_event_id=7 tracestop_event_id=6 user=1 dest=1 pkt_mask=0 cycle_acc=1"
    echo "set trace_en=1"; echo "set trace_active=1"
    echo "code 401000"; echo "    74 fe ff e0 0f 05"
    echo events
    seq 300 | sed 's/.*/    taken/'
    echo "    not-taken"; echo "    to 401000"
    seq 300 | sed 's/.*/    taken/'
    echo "    not-taken"; echo "    to ffffffff81000000 : cpl=0"
} >cycles.cofi
"$COFI" sim --raw cycles --no-registers cycles.cofi >/dev/null || exit
printf '\164\376\377\340\017\005' >code
flow() { "$COFI" flow --gen=rtit --image=code@0x401000 --format=ip --no-events "$@"; }
flow --raw=cycles --msr=768=200f >told && flow --raw=cycles >found && cmp told found && wc -l <found
cat cycles | flow --raw=/dev/stdin >piped && cmp told piped && tail -1 piped
