# A thread goes from processor to processor; each is compared with its like, wherever it ran.
"$PERCPU" p.data 10 >/dev/null
cp p.data q.data
"$COFI" diff --json p.data q.data
"$COFI" diff --tid=12,10 p.data q.data
