# A pipe, in pieces that come late, is decoded as it comes; a named one, too. What begins later (--from) or needs all of
# it reads it to its end first.
. "$CASES/raw.inc"
{ head -c 21 trace.pt; sleep 0.2; tail -c +22 trace.pt; } | "$COFI" flow --raw=- --image=code.bin@0x401000 --format=ip
mkfifo named && { cat trace.pt >named & }
"$COFI" flow --raw=named --image=code.bin@0x401000 --format=ip | tail -1
"$COFI" flow --raw=- --image=code.bin@0x401000 --format=ip --from=@0 <trace.pt | tail -1
cat trace.pt | "$COFI" calls --raw=- --image=code.bin@0x401000 >piped.calls
"$COFI" calls --raw=- --image=code.bin@0x401000 <trace.pt | cmp - piped.calls && echo "the same calls"
cat trace.pt | "$COFI" check --raw=- --image=code.bin@0x401000 >piped.check && echo checked
: | "$COFI" flow --raw=- --image=code.bin@0x401000
echo "status $?"
