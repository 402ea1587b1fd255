# A stream that ends before there is a PSB has nothing to show; the others do. Of one that is read in pieces, too.
. "$CASES/raw.inc"
status() { "$@" >out; echo "exit $?"; head -3 out; }
code="--image=code.bin@0x401000"
for command in flow calls check stat; do status "$COFI" $command --raw=trace.pt $code --from=@0x1; done
status "$COFI" check --raw=trace.pt $code --from=@0
head -c 5000000 /dev/zero | cat trace.pt - >long.pt
status "$COFI" check --raw=long.pt $code --from=@0x1
"$PERCPU" p.data >/dev/null
"$COFI" dump p.data | grep -c ' psb$'
status "$COFI" flow --no-source --no-events --from=@0x30 p.data
