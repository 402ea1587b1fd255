# E3: counted by stat; E4: said of the overflow; E8: said of the gaps [RTIT Appendix E].
scenarios=$CASES/../../../examples/scenarios
for e in e4 e8; do
    "$COFI" sim --raw $e.rtit --no-registers "$scenarios/rtit-$e.cofi" >/dev/null || exit
done
for errata in "errata e3" ""; do
    {
        echo "unit rtit"; echo "$errata"
        echo "set filter_event_id=7 tracestop_event_id=6 user=1 dest=1 pkt_mask=0"
        echo "set trace_en=1"; echo "set trace_active=1"; echo events
        seq 2000 | sed 's/.*/    jmp* target=9/'
    } >e3.cofi
    "$COFI" sim --raw e3.rtit --no-registers e3.cofi >/dev/null || exit
    "$COFI" stat --no-flow --raw=e3.rtit --gen=rtit | head -1
done
printf '\377\340' >code
"$COFI" flow --raw=e4.rtit --gen=rtit --image=code@0x401000 --image=code@0x123400000000 --image=code@0x567800000000
printf '\377\340\164\000\377\340\017\005\220\377\340\220' >code
"$COFI" flow --raw=e8.rtit --gen=rtit --image=code@0x401000
