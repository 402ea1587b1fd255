"$PERCPU" p.data
"$COFI" flow --by-time --no-source --no-events p.data
echo "-- one thread"
"$COFI" flow --by-time --tid=12 --json p.data | head -3
