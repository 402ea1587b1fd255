. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt
