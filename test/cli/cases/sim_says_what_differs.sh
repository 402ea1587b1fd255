cat >s <<'E'
unit rtit
set filter_event_id=7 tracestop_event_id=6 user=1
set trace_en=1
set trace_active=1
events
    jmp* ip=0 next=2 target=401000
packets
    psb
    fup.pge 0
    tip 401001
registers
    pkt_cnt=1 no_such=2 tracestop= user=1x os
E
"$COFI" sim --check s
