# With --also: the first recording's bytes, not those of all.
"$COFI" record --host=step --limit=99 --also=pt:more -- true 2>said
bytes=$("$COFI" check --json | sed 's/.*"bytes":\([0-9]*\),"lost.*/\1/')
grep -c ", $bytes bytes of trace in cofi.data" said
