# TraceSTOP with Dest clear has an address of its own and counts in RTIT_OFFSET; the trace goes on behind it (docs/decisions/0210).
cat >s <<'E'
unit rtit
memory 0x4000 weak 4 3
state ip=100
wrmsr 770 1000
wrmsr 771 ff
set filter_event_id=7 tracestop_event_id=1 lip1=0x5000 lip3=0x5010 user=1 dest=0
set trace_en=1
set trace_active=1
events
    ret ip=100 next=101 target=123456789abc
    ret ip=123456789abc next=123456789abd target=5004
    insn ip=5004 next=5006
    set trace_active=1
    ret ip=5006 next=5007 target=123456780000
    ret ip=123456780000 next=123456780001 target=123456780000
E
"$COFI" sim --no-registers --raw raw s >/dev/null
"$COFI" dump --cyc=0 --gen rtit raw
# Software writes RTIT_OFFSET: a hole that no collector can fill is told.
sed 's/set trace_active=1$/&\n    wrmsr 772 80/' s >hole
"$COFI" sim --no-registers hole
