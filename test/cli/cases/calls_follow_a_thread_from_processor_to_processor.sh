"$PERCPU" p.data
"$COFI" calls p.data
echo "perf record COMMAND: both processors' streams have the command's number"
"$PERCPU" p.data 10
"$COFI" calls p.data
"$COFI" flow --tid=12 --no-events --format=ip p.data | wc -l
