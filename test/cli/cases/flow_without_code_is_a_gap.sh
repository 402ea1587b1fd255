. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt
# Little is not nothing, and not quite all is not all.
head -c 5000000 /dev/zero | cat trace.pt - >long.pt
"$COFI" flow --raw=long.pt
"$COFI" check --raw=long.pt | tail -1
