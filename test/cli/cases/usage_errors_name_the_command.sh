$COFI dump --nosuch; echo "status $?"
$COFI asm --gen=x; echo "status $?"
$COFI asm --help | head -1
$COFI dump --help | head -1
