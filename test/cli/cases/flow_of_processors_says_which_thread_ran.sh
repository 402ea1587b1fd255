"$PERCPU" p.data
"$COFI" flow --no-source p.data
echo "-- one thread"
"$COFI" flow --tid=12 --format=ip p.data
