S=$CASES/../../../examples/scenarios
cp "$S"/rtit-e1.cofi "$S"/rtit-e2.cofi .
"$COFI" sim --no-registers rtit-e1.cofi rtit-e2.cofi
"$COFI" sim --raw=out rtit-e1.cofi rtit-e2.cofi || echo "status $?"
"$COFI" sim --raw=nowhere/out rtit-e1.cofi >out || echo "status $?"
