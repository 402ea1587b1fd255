# Nothing is shown of it, a file that was there stays, and it is said once. A recording of nothing may be whole: check goes on.
: >empty
head -c 99 /dev/zero >zeros
"$COFI" record -q --filter='filter 0x10/1' -o none.data -- true
echo kept >out
for input in --raw=empty --raw=zeros none.data; do
    for command in flow calls coverage stat; do
        "$COFI" $command -o out $input 2>&1; echo "$command $input: $?"
    done
    "$COFI" check $input 2>&1; echo "check $input: $?"
    "$COFI" replay $input 2>&1; echo "replay $input: $?"
    "$COFI" gdb $input 2>&1; echo "gdb $input: $?"
done
cat out
echo "no perf.data" >bad.data
"$COFI" coverage --format=lcov -o out bad.data none.data 2>&1; echo "coverage: $?"
cat out
"$COFI" archive none.data >archived 2>&1; echo "archive: $?"
"$COFI" diff --raw empty zeros 2>&1; echo "diff: $?"
"$COFI" dump --raw empty 2>&1; echo "dump: $?"
for input in empty zeros; do
    "$COFI" import --raw=$input -o made.data 2>&1; echo "import $input: $?"
done
[ -e made.data ] || echo "none made"
