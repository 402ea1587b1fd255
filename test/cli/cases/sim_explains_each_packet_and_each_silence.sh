cat >s <<'E'
unit rtit
state ip=401000
set filter_event_id=7 tracestop_event_id=6 user=1 dest=1
set trace_en=1
set trace_active=1
events
    jcc ip=401000 next=401002 target=401010 taken
    jmp ip=401010 next=401012 target=401020
    far syscall ip=401020 next=401022 target=ffffffff81000000 : cpl=0
    ret ip=ffffffff81000000 next=ffffffff81000001 target=ffffffff81000005
    ovf
E
"$COFI" sim --explain s
