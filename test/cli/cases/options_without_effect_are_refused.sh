# An option that can only be a mistake with this input is named; what has an effect is taken.
. "$CASES/raw.inc"
"$COFI" record -q --host=step --limit=99 -- true
"$COFI" record -q --host=step --limit=99 --unit=rtit -o rtit.data -- true
say() {
    "$COFI" "$@" >out 2>err
    echo "$* -> $?$([ -s out ] && echo ', shown')"
    cat err
}
raw="--raw=trace.pt --image=code.bin@0x401000"
for option in --image=code.bin@0x401000 --gen=pt --msr=570=2000 --kcore=nothing --vmlinux=nothing --symfs=nothing --guestmount=nothing \
              --kcore=. --symfs=code.bin; do
    say flow $option
done
for option in --tid=1 --symfs=. --guestmount=. --kcore=code.bin --vmlinux=code.bin --from=0.5 --to=1; do
    say check $raw $option
done
say flow --json --format=ip
say flow --format=text --json
say stat $raw --gen=pt --cpu=6/94/3 --msr=570=2008
say stat --cpu=6/94/3 --symfs=/ cofi.data
say replay --msr=570=2d0a --json cofi.data
say replay rtit.data
say replay --gen=rtit --raw=trace.pt
say dump --tid=1 trace.pt
say dump --cyc trace.pt
say dump --cyc=0 cofi.data
say dump trace.pt:0x40-0x10
say dump --from=4 --to=3 cofi.data
say dump trace.pt:0x1000
say dump --from=0x100000 cofi.data
say caps --unit=rtit --model=skylake
say record --unit=pt --preset=app -- touch ran
say record --preset=app --unit=pt -- touch ran
say record --limit=0 -- touch ran
say record -q --host=step --limit=99 --preset=app --unit=rtit -- true
! [ -e ran ]
