# What is wrong, and where the options are told: of every command in the same words.
for command in $("$COFI" --help | awk '/^  [a-z]/ { print $1 }'); do "$COFI" $command --nosuch; echo "$command: $?"; done
"$COFI" asm --gen=x; echo "status $?"
"$COFI" dump --gen=x; echo "status $?"
"$COFI" caps --unit=x; echo "status $?"
"$COFI" flow --raw=x --gen=x; echo "status $?"
"$COFI" record --unit=x; echo "status $?"
"$COFI" sim; echo "status $?"
$COFI asm --help | head -1
$COFI dump --help | head -1
