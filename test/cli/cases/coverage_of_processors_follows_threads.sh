# Two processors, between which two threads move; and two recordings, which add up.
"$PERCPU" p.data
"$COFI" coverage p.data
"$COFI" coverage --by=insn p.data
for n in 1 2 8; do "$COFI" coverage --by=insn --threads=$n p.data >out.$n; cmp out.1 out.$n; done
for tid in 11 12 13; do
    echo "-- thread $tid"
    "$COFI" coverage --tid=$tid --by=insn p.data
    echo "status $?"
done
"$COFI" coverage --format=afl p.data >whole
"$COFI" coverage --format=afl --tid=11 p.data | cmp -s - whole || echo "not all edges are one thread's"
cp p.data again.data
echo "-- two recordings"
"$COFI" coverage p.data again.data
