# perf's buffer was full: that a packet was cut there costs nothing of what follows, and all that decode say so.
# How long the path to here is shows in offsets.
somewhere() { sed "s/full.data+0x[0-9a-f]*/full.data+AT/"; }
status() { echo "status $?"; }
"$PERCPU" full.data full
"$COFI" dump full.data | sed -n '/^0000000000000054/,/^000000000000005a/p'; status
"$COFI" dump full.data >text; "$COFI" asm text -o again.pt; status
wc -c <again.pt
"$COFI" dump --json full.data 2>/dev/null | grep error
"$COFI" check full.data >told; status; somewhere <told
"$COFI" flow --format=ip full.data 2>err; status; somewhere <err >&2
"$COFI" stat full.data | grep -o '[0-9]* bytes are no packets'
