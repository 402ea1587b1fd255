# The shell does not, for cofi exits. Not of the command that runs beside a process that is attached to.
for host in fast step; do
    for how in 'kill -TERM $$' 'kill -KILL $$' 'exit 3'; do
        "$COFI" record --host=$host -o s.data -- sh -c "$how" 2>&1 | sed 's/^.* bytes of trace/SUMMARY/'
        "$COFI" record --host=$host -q -o s.data -- sh -c "$how" 2>&1
        echo "$?"
    done
done
