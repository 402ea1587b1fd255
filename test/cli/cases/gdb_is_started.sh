# By becoming it, with what it needs to connect, and its own options behind. Here it is a script.
"$PERCPU" p.data
mkdir bin symfs
printf '%s\n' '#!/bin/sh' 'for word; do echo "$word" | sed "s,/cofi-gdb-......,/cofi-gdb-,"; done' 'exit 7' >bin/gdb
chmod +x bin/gdb
PATH=$PWD/bin:$PATH TMPDIR=$PWD
export PATH TMPDIR
"$COFI" gdb p.data -- -q -ex 'info threads' | sed "s,$PWD,HERE,"
"$COFI" gdb --symfs=symfs p.data | sed -n 2p
"$COFI" gdb p.data >out
echo "status $?"
# What would answer is gone soon after it, and its folder.
for i in 1 2 3 4 5 6 7 8 9 10; do ls -d cofi-gdb-* >out 2>&1 || break; sleep 0.3; done
ls -d cofi-gdb-* 2>&1 | sed 's/.*No such/No such/'
