# A recording is no stream: '-' was a file of that name, and a pipe takes nothing back. Without /proc nothing would be seen of what is mapped.
for option in -o- --raw=- --also=rtit:- '--host=step --truth=-'; do
    "$COFI" record $option -- touch ran 2>&1
    echo "$? $(ls)"
done
"$COFI" record -q -o ./- -- true
ls && rm ./-
mkfifo pipe
"$COFI" record -o pipe -- touch ran 2>&1
echo "$? $(ls)" && rm pipe
told='cofi record: /proc is not mounted here, where the kernel tells what a process has mapped'
unshare -rm true 2>/dev/null || { echo "$told"; exit 0; }
unshare -rm sh -c 'mount -t tmpfs none /proc && "$COFI" record -- touch ran 2>&1' | grep '^cofi' # sanitizers miss /proc, too
ls
