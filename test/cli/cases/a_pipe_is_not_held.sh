# However long a raw stream is that comes by a pipe, memory stays as it is: it is decoded as it comes, or lies in an
# unnamed file where it is read again or from its end. By two threads 12 pieces of 1 MiB may wait (see cofi_flow_parallel), at first none.
. "$CASES/raw.inc"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=1"
{ cat trace.pt && i=0 && while [ $i -lt 512 ]; do printf '\031\000\044\364\000\000\000\000' && i=$((i + 1)); done; } >long.pt # TSCs
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat long.pt long.pt >twice.pt && mv twice.pt long.pt; done
mkfifo pipe

most() { sed -n 's/^VmHWM:[ \t]*\([0-9]*\) kB/\1/p' "/proc/$1/status"; }

# flat COMMAND...: the same 17 MB, and once more
flat() {
    "$COFI" "$@" --raw=pipe >out 2>err &
    exec 9>pipe
    cat long.pt >&9
    before=$(most $!)
    cat long.pt long.pt >&9
    after=$(most $!)
    kill $! && wait $! 2>/dev/null
    exec 9>&-
    [ $((after - before)) -lt 16000 ] && echo "cofi $1 is flat" || echo "cofi $*: $before kB, then $after"
}

flat flow --image=code.bin@0x401000
flat calls --image=code.bin@0x401000
flat check --image=code.bin@0x401000
flat stat --image=code.bin@0x401000
flat stat --no-flow
flat replay --image=code.bin@0x401000
flat flow --from=@0x1000 --image=code.bin@0x401000
flat dump --quiet
