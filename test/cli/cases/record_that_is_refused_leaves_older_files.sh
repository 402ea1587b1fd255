# What is refused when the program is to begin has recorded nothing: no file is new, and what was there stays what it was.
printf '.globl _start\n_start: mov $1, %%eax\n xor %%ebx, %%ebx\n int $0x80\n' >exit.s
gcc -m32 -nostdlib -static -o exit exit.s
echo '#!/nowhere/interpreter' >script && chmod +x script
ls >"$PWD.before"
refused() {
    "$COFI" record "$@" 2>/dev/null && echo "this was recorded: $*"
    ls | cmp - "$PWD.before" || rm -f new* # nothing of its own
    for f in old.data old.zst also.data old.raw old.truth old.data.fast; do echo older >$f; done
    "$COFI" record "$@" 2>/dev/null
    for f in old.data old.zst also.data old.raw old.truth old.data.fast; do echo older | cmp - $f; done
    ls | grep -v '^old\.\|^also' | cmp - "$PWD.before"
    rm -f old.* also.*
}
for out in old.data old.zst; do
    refused --host=fast -o $out -- ./exit
    refused --host=fast --snapshot=1M -o $out -- ./exit
    refused --host=fast --filter=0x1000-0x2000 -o $out -- ./exit
    refused --host=fast -o $out --also=rtit:also.data -- ./exit
    for host in fast step; do
        refused --host=$host -o $out -- ./script
        refused --host=$host -o $out -- ./missing
        refused --host=$host -o $out --raw=old.raw --also=rtit:also.data -- ./script
        refused --host=$host -o $out --config=nothing=1 -- /bin/true
    done
    refused --truth=old.truth -o $out -- ./script
done
# Processes that the fast host does not take: one that is stopped, and one that somebody else holds, which no host takes.
sleep 60 &
kill -STOP $! && while ! grep -q 'State:.T' /proc/$!/status; do sleep 0.1; done
refused --host=fast -o old.data -p $!
kill -KILL $!
: >"$PWD.pid"
"$COFI" record -q --host=step -o /dev/null -- sh -c 'echo $$ >&3; exec sleep 60' 3>"$PWD.pid" &
while ! grep -q sleep "/proc/$(cat "$PWD.pid")/comm" 2>/dev/null; do sleep 0.1; done
refused --host=fast -o old.data -p "$(cat "$PWD.pid")"
refused --host=step -o old.data -p "$(cat "$PWD.pid")" --truth=old.truth
kill -KILL "$(cat "$PWD.pid")"
wait 2>/dev/null
rm -f "$PWD.pid" "$PWD.before"
