"$PERCPU" p.data
"$COFI" calls p.data
