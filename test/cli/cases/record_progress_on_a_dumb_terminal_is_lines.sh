# Without --progress there is none; asked for, no line is written over where that cannot be done.
for term in dumb xterm; do
    for progress in '' --progress; do
        TERM=$term script -qec "'$COFI' record $progress -- sleep 0.7" /dev/null </dev/null | tr '\r\033' ' E' >log
        echo "$term $progress: $(grep -q 'record: [0-9.]* MB' log && echo shown) $(grep -q 'E\[K' log && echo over)"
    done
done
