# Before the program runs, whichever host and output.
mkdir dir
for host in fast step; do
    for option in -onodir/x --raw=nodir/x --also=rtit:nodir/x --truth=nodir/x --raw=dir --raw=dir/ --raw=dir/x/y --also=pt:dir/x/; do
        [ $host$option = fast--truth=nodir/x ] && continue
        "$COFI" record -q --host=$host $option -- sh -c 'echo ran' 2>&1
        echo "status $?"
    done
done
ls
"$COFI" record -q -o cofi.data --host=fast --raw=/dev/null -- true
echo "status $?"
