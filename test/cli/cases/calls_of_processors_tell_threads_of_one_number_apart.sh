# Of 2000 threads, one after the other, 699 have the number of one that was there before; each has a tree of its own.
"$PERCPU" p.data many 1301 >/dev/null
"$COFI" calls p.data >all
grep -c '^== thread' all
grep -v '^==' all | sort | uniq -c
