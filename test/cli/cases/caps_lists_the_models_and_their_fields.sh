$COFI caps --list
$COFI caps -m skylake -r
$COFI caps -m broadwell --json
