# On a full disk, of every kind of writer: it is said, and the file is not there in part. Nor is one that nothing was to be written to.
. "$CASES/mounts.inc"
"$COFI" record -q -o r.data sh -c 'for i in 1 2 3 4 5 6 7 8; do echo; done' >out
for i in $(seq 5000); do echo psb; done >p.txt
ln -s full/target link
"$COFI" flow -o empty nothing.data 2>&1
echo "status $? $(ls empty 2>&1)"
mkdir full
unshare -rm sh -s <<'SCRIPT' 2>&1
mount -t tmpfs -o size=16k none full
tell() {
    echo "status $1, left: $(cd full && ls | tr '\n' ' ')"
    rm -f full/*
}
"$COFI" flow -o full/x r.data; tell $?
"$COFI" coverage --format=html --module='*' -o full/x r.data 2>&1 | grep -v 'source files'; tell 0
echo before >full/x
"$COFI" flow --json -o full/x r.data; tell $?
"$COFI" asm -o full/x p.txt; tell $?
"$COFI" flow -o link r.data; tell "$?, $(wc -c <full/target) bytes"
"$COFI" flow -o full/x -- sh -c 'exit 3'; tell $?
"$COFI" record -q --host=step --truth=full/x -o t.data true; tell $?
echo before >full/x
"$COFI" record -q --host=step --truth=full/x -o t.data true; tell $?
"$COFI" record -q --host=step --truth=link -o t.data true; tell "$?, $(wc -c <full/target) bytes"
SCRIPT
# What a command ends with is not taken for a failure of ours.
"$COFI" stat -o told -- sh -c 'exit 3' >out 2>&1
echo "status $? $(ls told)"
