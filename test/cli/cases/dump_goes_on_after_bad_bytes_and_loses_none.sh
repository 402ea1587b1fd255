# A reserved code, a packet cut short by a PSB, bytes before the first PSB, and an end inside a packet.
cat >good.txt <<'END'
.bytes 11 22 33
psb
psbend
tip.pge 3: 401000
.bytes ad 01 02 03
psb
psbend
tnt.8 !!.
.bytes cd 01 02
psb
psbend
tip.pge 3: 401010
.bytes 19 01
END
$COFI asm good.txt >bad.bin || exit
$COFI dump bad.bin >bad.txt
echo "status $?"
cat bad.txt
$COFI asm bad.txt | cmp - bad.bin && echo same bytes
