# A CYC whose end an OVF wrote over, and a TMA with a byte too many: on the processors that write such, and on others.
cat >odd.txt <<'END'
psb
psbend
.bytes 0f 02 f3
fup        3: 401002
.bytes 02 73 12 34 ff 56 01 ff
tnt.8 !
END
$COFI asm odd.txt >odd.bin || exit
for cpu in 6/94 6/85/4 6/61; do
    echo "== $cpu"
    $COFI dump --cpu=$cpu odd.bin >back.txt
    tail -n +3 back.txt
    $COFI asm back.txt | cmp - odd.bin && echo same bytes
    $COFI stat --no-flow --cpu=$cpu --raw=odd.bin | grep -E ' (tnt.8|tma|cyc|ovf) '
done
$COFI dump --json --cpu=6/94 odd.bin 2>/dev/null | grep error
for cpu in 6 -6/94 4294967302/94 6/94/-3; do $COFI dump --cpu=$cpu odd.bin; done
$COFI dump --gen=rtit --cpu=6/94 odd.bin
true
