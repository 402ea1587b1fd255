# Unasked there is none: the terminal is the command's. Asked for, no line is written over where that cannot be done.
for term in dumb xterm; do
    for progress in '' --progress; do
        TERM=$term script -qec "'$COFI' record $progress -- sleep 0.7" /dev/null </dev/null | tr '\r\033' 'E' >log
        echo "$term $progress: $(grep -q 'record: [0-9.]* MB' log && echo shown) $(grep -q 'E\[K' log && echo over)"
    done
done
# Of a process that is attached to.
sleep 60 &
for term in dumb xterm; do
    TERM=$term script -qec "timeout -s INT 1 '$COFI' record -p $!" /dev/null </dev/null | tr '\r\033' 'E' >log
    echo "$term: $(grep -q 'record: [0-9.]* MB' log && echo shown) $(grep -q 'E\[K' log && echo over)"
done
kill $!
