# No input, one that is none, one that was cut, code that is not there, an output that cannot be written.
. "$CASES/raw.inc"
status() { echo "status $?"; }
"$COFI" coverage; status
"$COFI" coverage nothing.data; status
"$COFI" coverage code.bin; status
"$COFI" coverage --raw=trace.pt; status
"$COFI" coverage --raw=code.bin --image=code.bin@0x401000; status
"$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 --format=lcov; status
for arguments in --by=insn --json --format=drcov --format=afl; do
    "$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 $arguments >/dev/full; status
    "$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 $arguments -o nowhere/out; status
done
"$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 --format=afl -o /dev/full; status
"$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 --format=afl -o - | wc -c
echo kept >file
"$COFI" coverage -o file nothing.data; status
cat file
"$COFI" coverage --raw=trace.pt --image=code.bin@0x401000 -o file --by=module; status
cat file
"$PERCPU" p.data
"$COFI" coverage --by=module p.data nothing.data; status
head -c $(($(wc -c <p.data) - 100)) p.data >cut.data
"$COFI" coverage --by=module cut.data p.data 2>err; status; sed "s/(at 0x[0-9a-f]*)/(at …)/" err >&2 # the path to here is in it
