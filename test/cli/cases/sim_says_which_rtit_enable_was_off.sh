cat >s <<'E'
unit rtit
state ip=1000
set filter_event_id=0 lip0=0x1000 lip2=0x2000 tracestop_event_id=6 user=1 dest=1 cmprs_ret=1
set trace_en=1
set trace_active=1
events
    insn ip=ff0 next=ff4
    jmp ip=ff4 next=ff9 target=1000
    clock tsc=1000 cycles=1
    freq ratio=8 effective=8 tsc=1000
    sleep size=1 tsc=1000
    wake tsc=1001
    set mtc_en=1 sts_en=1
    clock tsc=1002 cycles=2
    sleep size=1 tsc=1003
    clock tsc=9000
    wake tsc=9001
    mov-cr0 ip=1000 next=1003
    mov-cr3 ip=1003 next=1006 : cr3=5000
    set cr3_match=0x280
    set cr3_en=1
    mov-cr3 ip=1006 next=1009 : cr3=5000
    call ip=1009 next=100e target=1100
    ret ip=1100 next=1101 target=100e
    far syscall ip=100e next=1010 target=3000 : cpl=0
    mov-cr3 ip=3000 next=3003 : cr3=5000
    set less_pkts=1
    clock tsc=9900 cycles=9
    far sysret ip=3003 next=3006 target=2000 : cpl=3
    freq ratio=9 effective=9 tsc=10000
    set filter_event_id=6
    jmp* ip=2000 next=2002 target=1000
    ovf
    insn ip=1000 next=1001
    set trace_active=0
    clock tsc=20000 cycles=10
    insn ip=1001 next=1002
E
"$COFI" sim --explain --no-registers s
