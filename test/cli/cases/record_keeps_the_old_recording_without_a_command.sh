# A command that is none costs nothing that is there.
echo old >cofi.data
for host in fast step; do
    for command in nosuchcommand ./nosuchcommand . ./cofi.data; do
        "$COFI" record --host=$host -- $command 2>&1
        echo "$? $(cat cofi.data)"
    done
done
