# PWRE, CBR and MODE.Exec with a reserved bit, a long TNT of no outcome: each costs its own line, and the bytes come back.
# Behind one the BIPs of its block are bytes, too, for asm is in no block then.
cat >odd.txt <<'END'
psb
psbend
.bytes 02 22 08 20
tip.pge 3: 401000
.bytes 02 03 18 ff
.bytes 02 a3 01 00 00 00 00 00
.bytes 99 19
tnt.8 !!.
.bytes 02 63 45
.bytes 0c 63 9f 02 33 02 b3 d9 40
.bytes 02 33
bbp        5
bip        1: 1122334455667788
.bytes d9 84 84
.bytes 0c 63 9f 02 33 02 b3 d9 40
bep
END
$COFI asm odd.txt >odd.bin || exit
$COFI dump odd.bin >back.txt
echo "status $?"
cat back.txt
$COFI asm back.txt | cmp - odd.bin && echo same bytes
$COFI dump --json odd.bin 2>/dev/null | grep error
