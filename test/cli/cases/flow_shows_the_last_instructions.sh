# As tail would, whatever the trace, where the PSBs are and where in a block they begin; each thread's.
compare() { # NUMBER, then what flow is given
    n=$1
    shift
    "$COFI" flow --no-events --no-source "$@" 2>&1 | tail -n "$n" >whole
    "$COFI" flow --no-events --no-source --last="$n" "$@" 2>&1 | cmp - whole || echo "last $n of $*"
}
"$COFI" record -q --host=fast --config=psb_freq=0 --also=rtit:rtit.data -o pt.data -- sh -c :
test "$("$COFI" dump pt.data | grep -cw psb)" -gt 3 || echo 'few PSBs'
for n in 1 2 3 4 5 6 999 30000 99999999; do
    compare $n pt.data
    compare $n rtit.data
    compare $n --format=ip pt.data
    compare $n --json --time pt.data
    compare $n --threads=3 --to=@9000 pt.data
    compare $n - <pt.data
done
"$COFI" flow --no-events --last=40 --limit=7 pt.data | wc -l
# With events: those behind the first one that is shown.
"$COFI" flow --last=1 pt.data | sed 's/^.*\(disabled\|  syscall$\).*/\1/'
"$COFI" flow --last=0 pt.data | wc -l
# A pipe of trace bytes; a stream in which nothing ran; gaps before are not told.
. "$CASES/raw.inc"
for n in 1 3; do
    "$COFI" flow --raw=trace.pt --image=code.bin@0x401000 | tail -n $((n + 1)) >whole
    "$COFI" flow --raw=- --image=code.bin@0x401000 --last=$n <trace.pt | cmp - whole
    { cat trace.pt; printf '\377\377\377'; cat trace.pt; } >gap.pt
    "$COFI" flow --raw=gap.pt --image=code.bin@0x401000 --last=$n | cmp - whole
done
# Each thread's, and by time.
"$PERCPU" threads.data >/dev/null
"$COFI" flow --last=2 threads.data
echo --
"$COFI" flow --last=2 --by-time threads.data
echo --
"$COFI" flow --last=2 --from=1 threads.data
"$COFI" flow --last=x threads.data
