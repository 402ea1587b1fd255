# Nothing was traced: said of a file and of a pipe alike, and so is what is no trace.
: >code.bin
same() { # COMMAND...
    "$COFI" "$@" --image=code.bin@0 <trace 2>expected >out
    echo "status $?" >>expected
    { { cat trace; sleep 0.01; } | "$COFI" "$@" --image=code.bin@0 2>&1 >piped; echo "status $?"; } >got
    cmp expected got && cmp out piped && sed 's/^status/'"$1 &/" expected
}
: >trace
for command in check stat flow calls coverage replay; do
    same $command --raw=/dev/stdin
    same $command --raw=- --gen=rtit
done
printf '\037\213\010 and so on' >trace
same check --raw=/dev/stdin
{ printf 'PERFILE2'; yes | head -c 99999; } >trace
same check --raw=/dev/stdin
printf '\300\0\0\0\0\0\0\0\0\0' >trace
same check --raw=/dev/stdin
"$COFI" diff --raw trace /dev/null --gen=rtit --image=code.bin@0; echo "diff $?"
head -c 9999 /dev/zero >trace # a buffer that was never written
same check --raw=/dev/stdin
