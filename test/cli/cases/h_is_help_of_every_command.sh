"$COFI" --help >expected
"$COFI" -h | cmp - expected
for command in $("$COFI" --help | awk '/^  [a-z]/ { print $1 }'); do
    "$COFI" "$command" --help >expected || echo "$command: $?"
    "$COFI" "$command" -h | cmp - expected
    "$COFI" help "$command" | cmp - expected
    grep -q -- '^  -h, --help ' expected || echo "$command does not say so"
done
