# Every shipped scenario gives what it says.
cd "$CASES/../../../examples/scenarios" && for f in *.cofi; do "$COFI" sim --check "$f" || exit; done
