# Of thousands of threads, one after the other, each is compared as long as it lives. (To decode all for each would take minutes.)
"$PERCPU" p.data many 2000 >/dev/null
"$PERCPU" q.data many 1301 >/dev/null
"$COFI" diff p.data q.data
