for unit in pt rtit; do
    $COFI record -q --unit=$unit --limit=20000 -o $unit.data --raw=$unit.bin -- /bin/true || exit
    $COFI dump $unit.data | $COFI asm | cmp - $unit.bin || exit
    $COFI dump --no-offset $unit.bin 2>/dev/null >raw.txt
    $COFI dump --no-offset $unit.data | grep -v '^#' | cmp - raw.txt && echo $unit same
    $COFI dump --tid=1 $unit.data; echo "status $?"
done
