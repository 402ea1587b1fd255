# Lines of 64 bytes leave in another order; a collector restores the stream, in a circular region too [RTIT 2.3.2].
for memory in "0x10000" "0x10000 weak 8 3"; do
    {
        echo "unit rtit"; echo "memory $memory"; echo "state ip=401000"
        echo "set filter_event_id=7 tracestop_event_id=6 user=1 dest=1 mask_value=15 base_phys_addr=0x100 offset=0x25"
        echo "set trace_en=1"; echo "set trace_active=1"; echo events
        seq 1000 1400 | sed 's/.*/    jmp* target=123400&0/; n; s/.*/    jmp* target=567800&0/'
    } >scenario
    "$COFI" sim --explain --raw raw.${#memory} --no-registers scenario | sed -n 's/^  write of 64 bytes at //p' >lines.${#memory}
done
cmp raw.7 raw.16 && echo "the same stream"
cmp -s lines.7 lines.16 || echo "but not in the same order"
sort lines.7 >a && sort lines.16 >b && cmp a b && echo "and the same lines"
printf 'unit rtit\nmemory 0x1000 weak 17\n' >bad
"$COFI" sim bad || echo "status $?"
