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
# What follows --args is recorded first, and what stands between is gdb's.
"$COFI" gdb -- -q -x file --args --host=step --limit=99 sh -c 'echo said; exit 3' | sed "s,$PWD,HERE,"; ls -d cofi-?????? 2>/dev/null
"$COFI" gdb --args true >out; echo "status $?, $(grep -c args out)"
for wrong in "--args" "file --args true" "--stdio --args true" "--core=core --args true" "--raw=file --args true" "--args ./missing" "--args --none"; do
    "$COFI" gdb $wrong; echo "status $?"
done 2>&1
# What would answer is gone soon after it, and its folder.
for i in 1 2 3 4 5 6 7 8 9 10; do ls -d cofi-gdb-* >out 2>&1 || break; sleep 0.3; done
ls -d cofi-gdb-* 2>&1 | sed 's/.*No such/No such/'
