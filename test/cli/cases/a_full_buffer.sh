# perf's buffer was full: that a packet was cut there costs nothing of what follows, and all that decode say so.
status() { echo "status $?"; }
"$PERCPU" full.data full
"$COFI" dump full.data | sed -n '/^0000000000000054/,/^000000000000005a/p'; status
"$COFI" dump full.data >text; "$COFI" asm text -o again.pt; status
wc -c <again.pt
"$COFI" dump --json full.data 2>/dev/null | grep error
"$COFI" check full.data; status
"$COFI" flow --format=ip full.data; status
"$COFI" stat full.data | grep -o '[0-9]* bytes are no packets'
