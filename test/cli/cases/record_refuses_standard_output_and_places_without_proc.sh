# A recording is no stream: '-' was a file of that name. Without /proc nothing would be seen of what is mapped.
for option in -o- --raw=- --also=rtit:- '--host=step --truth=-'; do
    "$COFI" record $option -- touch ran 2>&1
    echo "$? $(ls)"
done
"$COFI" record -q -o ./- -- true
ls && rm ./-
unshare -rm true 2>/dev/null || { echo 'cofi record: /proc is not mounted here, where the kernel tells what a process has mapped' && echo '125 ' && exit 0; }
unshare -rm sh -c 'mount -t tmpfs none /proc && ASAN_OPTIONS=detect_leaks=0 "$COFI" record -- touch ran 2>&1; echo "$? $(ls)"' |
    grep -v 'reading executable name' # the address sanitizer's
