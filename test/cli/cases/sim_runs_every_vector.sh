# The units make of each vector what it says, also by way of a scenario's text.
"$COFI" sim --check "$CASES"/../../../vectors/*.cofi | sed "s,.*/,,"
