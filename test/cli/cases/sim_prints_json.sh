printf 'unit rtit\nset filter_event_id=7 tracestop_event_id=6 user=1\nset trace_en=1\nset trace_active=1\n' >s
"$COFI" sim --json s
"$COFI" sim --json --explain --no-registers s
