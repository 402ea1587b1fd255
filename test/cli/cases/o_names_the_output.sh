# What a command shows goes to a file, which is what it was where nothing comes of it.
"$COFI" record -q --host=step --limit=99 -- true
cp cofi.data kept
for view in flow calls stat check coverage; do
    "$COFI" $view >shown; echo "longer than that" >out; cat shown shown >>out
    "$COFI" $view -o out; echo "$view: $?"; cmp out shown
    "$COFI" $view --output=- | cmp - shown
    "$COFI" $view -o out missing; echo $?; cmp out shown
    "$COFI" $view -o cofi.data; echo $?; cmp cofi.data kept
    "$COFI" $view -o nowhere/out -- touch ran; echo "$?, $(ls ran 2>&1)"
    "$COFI" $view -o /dev/full; echo $?
    "$COFI" $view -o ''; echo $?
done
echo "-- apart from what the program writes that is recorded first"
"$COFI" calls --format=folded -o out -- echo said; echo $?; grep -c said out; grep -c '^echo' out | sed 's/[1-9][0-9]*/some/'
"$COFI" calls -o out -- -o out true; echo $?
. "$CASES/raw.inc"
cp trace.pt kept; "$COFI" check -o trace.pt --raw=trace.pt --image=code.bin@0x401000; echo $?; cmp kept trace.pt
