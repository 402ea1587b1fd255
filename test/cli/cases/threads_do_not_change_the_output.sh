"$PERCPU" p.data
for command in "flow --no-source" "flow --json" "check" "stat" "stat --json" "calls" "flow --by-time" "coverage --by=insn" "coverage --format=drcov"; do
    for n in 1 2 3 8; do
        "$COFI" $command --threads=$n p.data >out.$n 2>&1
        echo "status $?" >>out.$n
        cmp out.1 out.$n
    done
done
"$COFI" check --threads=0 p.data
"$COFI" check p.data
