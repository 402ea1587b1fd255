# What was ignored when cofi started is ignored in the command, and nothing else is.
for host in --host=fast "--host=step --limit=99"; do
    (trap '' PIPE XFSZ USR2; grep SigIgn /proc/self/status >native; "$COFI" record -q $host -- grep SigIgn /proc/self/status | cmp - native && echo same)
    (grep SigIgn /proc/self/status >native; "$COFI" record -q $host -- grep SigIgn /proc/self/status | cmp - native && echo same)
done
