# What comes by a pipe gives what the same file gives.
. "$CASES/raw.inc"
same() { # COMMAND...
    "$COFI" "$@" <trace >expected 2>&1
    echo "status $?" >>expected
    { { head -c 21 trace; sleep 0.05; tail -c +22 trace; } | "$COFI" "$@"; echo "status $?"; } >got 2>&1
    cmp expected got && echo "cofi $*: the same"
}
cp trace.pt trace
for command in check stat replay; do
    same $command --raw=/dev/stdin --image=code.bin@0x401000
    same $command --raw=/dev/stdin --image=code.bin@0x401000 --json
    same $command --raw=/dev/stdin --image=code.bin@0x401000 --to=@0x20
    same $command --raw=/dev/stdin # a gap
done
same stat --raw=/dev/stdin --no-flow
same stat --raw=/dev/stdin --no-flow --from=@1
same dump --raw=/dev/stdin
: >trace # nothing
same check --raw=/dev/stdin
same stat --raw=/dev/stdin

# RTIT: whether there are cycle counts is found out.
printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000, CCP 5\nTNT T T NT T T T, CCP 10\nTIP 0: 1234, CCP 3f\nMTC 1, 22, CCP 40\n' | "$COFI" asm >trace
same stat --raw=/dev/stdin --gen=rtit --no-flow
same dump --raw=/dev/stdin --gen=rtit
same stat --raw=/dev/stdin --gen=rtit --msr=768=2
same stat --raw=/dev/stdin --gen=rtit --msr=768=2,772=8
