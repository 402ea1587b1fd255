. "$CASES/raw.inc"
"$COFI" diff
echo "status $?"
"$COFI" diff trace.pt
echo "status $?"
"$COFI" diff trace.pt trace.pt
echo "status $?"
"$COFI" diff --image=code.bin a b
echo "status $?"
"$COFI" diff --tid=x a b
echo "status $?"
"$COFI" diff --raw trace.pt nonesuch
echo "status $?: without code"
"$COFI" diff --raw trace.pt trace.pt
