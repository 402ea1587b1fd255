printf 'psb\n' | $COFI asm >t.bin
$COFI dump t.bin >/dev/full; echo "status $?"
printf 'psb\n' | $COFI asm >/dev/full; echo "status $?"
printf 'psb\n' | $COFI asm -o nowhere/t.bin; echo "status $?"
