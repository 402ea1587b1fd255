# Who types what perf takes is told what does that here; who mistypes what is here is not.
try() { "$COFI" "$@"; echo "status $?"; }
try flow --itrace=i0ns
try flow -F ip,sym
try calls -i a.data -Fip
try flow --time=1,2
try check -jC 0
try coverage -p 3
try flow --insn-trace --xed
try calls --call-trace
try dump -D
try replay -o x
try gdb -p 3
try gdb --time 1,2 -- -batch
try archive -p 3
try record -e intel_pt//u -- true
try record --per-thread true
try record -a -- true
try record -S true
try record -i true

try flow --json --from # not -F
try flow --tid
try flow --fieldsx=1
try flow -q
