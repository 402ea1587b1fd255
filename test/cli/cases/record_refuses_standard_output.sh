# A recording is no stream: '-' was a file of that name, and a pipe takes nothing back.
for option in -o- --raw=- --also=rtit:- '--host=step --truth=-'; do
    "$COFI" record $option -- touch ran 2>&1
    echo "$? $(ls)"
done
"$COFI" record -q -o ./- -- true
ls && rm ./-
mkfifo pipe
"$COFI" record -o pipe -- touch ran 2>&1
echo "$? $(ls)" && rm pipe
