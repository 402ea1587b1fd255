# What cannot be written ends it, and is said; a file is there whole or not at all.
. "$CASES/program.inc"
make_program here
"$COFI" record -q -- here/program
said() { echo "status $?"; sed "s|$PWD|HERE|g; s/[0-9.]* MB/N MB/" out; }
(ulimit -f 9; "$COFI" archive 2>&1) >out
said
find cofi.data.files -type f
"$COFI" archive -o nodir/files >out 2>&1
said
echo x >file
"$COFI" archive -o file >out 2>&1
said
# Recordings that are none, and uses that are none.
"$COFI" archive nothing.data >out 2>&1
said
"$COFI" archive file >out 2>&1
said
"$COFI" archive - <cofi.data >out 2>&1
said
"$COFI" archive one two >out 2>&1
said
head -c 2000 cofi.data >cut.data
"$COFI" archive -o files cut.data >all 2>&1
echo "status $?"
sed -n '$s/[0-9.]* MB/N MB/p' all
