# PWRE, CBR and MODE.Exec with a reserved bit, a long TNT of no outcome: each costs its own line, and the bytes come back.
cat >odd.txt <<'END'
psb
psbend
.bytes 02 22 08 20
tip.pge 3: 401000
.bytes 02 03 18 ff
.bytes 02 a3 01 00 00 00 00 00
.bytes 99 19
tnt.8 !!.
END
$COFI asm odd.txt >odd.bin || exit
$COFI dump odd.bin >back.txt
echo "status $?"
cat back.txt
$COFI asm back.txt | cmp - odd.bin && echo same bytes
$COFI dump --json odd.bin 2>/dev/null | grep error
