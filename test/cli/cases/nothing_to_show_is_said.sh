# A time that lies before the recording, which has a clock of its own, and a recording of which nothing passed the filter.
"$COFI" record -q --host=step --limit=99 -- true
"$COFI" record -q --filter='filter 0x10/1' -o none.data -- true
for command in flow calls coverage stat check replay; do
    "$COFI" $command --to=0.5; echo "$command: $?"
    "$COFI" $command none.data >out; echo "$command: $?"
done
"$COFI" dump --tid=1; echo "dump: $?"
"$COFI" gdb none.data; echo "gdb: $?"
