printf 'psb\nmtc 100\n' | $COFI asm; echo "status $?"
printf 'tip 5: 1234\n' | $COFI asm; echo "status $?"
printf '0000000000000000  tnt.8 !!x\n' | $COFI asm; echo "status $?"
printf 'nonsense\n.word 3\nbip 0: 11223344\n' | $COFI asm; echo "status $?"
