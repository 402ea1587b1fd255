"$PERCPU" p.data
"$COFI" flow --time --by-time --no-source p.data | head -12
"$COFI" flow --time --json --no-source p.data | sed -n '3,6p'
"$COFI" record -q --host=step --no-follow -o step.data -- /bin/true
# Between two times that packets told it is estimated, and never goes back.
"$COFI" flow --time --no-events --format=ip step.data | awk '
    { ticks = substr($0, 2, 21) + 0; told += /^ /; estimated += /^~/; back += ticks < last; last = ticks }
    END { print (told > 100) " told, " (estimated > 100) " estimated, " back + 0 " back" }'
"$COFI" flow --time --json step.data | grep '"event"' | grep -q '"interpolated":true' && echo events are marked
. "$CASES/raw.inc"
"$COFI" flow --time --raw=trace.pt --image=code.bin@0x401000 | head -4
