# A process that somebody traces already, to either host.
"$COFI" record -q --host=step -o stepped.data -- sh -c 'echo $$ >pid; exec sleep 4' &
while [ ! -s pid ]; do sleep 0.1; done
for host in fast step; do
    "$COFI" record --host=$host -p "$(cat pid)" 2>&1 | sed 's/process [0-9]*/process N/g'
done
kill "$(cat pid)"
wait
