printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000, CCP 5\nTNT T T NT T T T, CCP 10\nTIP 0: 1234, CCP 3f\nMTC 1, 22, CCP 40\nFUP.FAR 0: 1240, CCP 1\nTIP 2: ffff81001000, CCP 123\n' | $COFI asm >with.bin || exit
printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000\nTNT T T NT T T T\nTIP 0: 1234\nMTC 1, 22\nFUP.FAR 0: 1240\nTIP 2: ffff81001000\n' | $COFI asm >without.bin || exit
$COFI dump --lastip with.bin
$COFI dump without.bin
$COFI dump --cyc=0 --quiet with.bin
echo "status $?"
