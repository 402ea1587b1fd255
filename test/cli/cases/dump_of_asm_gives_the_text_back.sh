# Every form that the text must carry: long CYC, uncompressed IPs, blocks, cycle counts.
cat >pt.txt <<'END'
psb
tsc        1001000
tma        1234, 64
cbr        18
psbend
mode.exec  cs.l
tip.pge    3: 0000000000401000
tip        6: 0000000000401005
cyc        5/3
tnt.8      !!.!
tnt.64     !.!.
bbp        4, 4-byte
bip        0: 11223344
bip        1f: 00000000
bep        ip
fup        1: ????????????1010
cfe        3, ip
evd        2: f00baa
trig       a1, ip, mult, icnt: 23
ptw        0: 90abcdef, ip
pwre       c3.1, hw
pad
stop
END
cat >rtit.txt <<'END'
.gen       rtit
PSB
FUP.PGE      1z: 000000401000, CCP 5
TNT          T T T T T T, CCP 10
TNT          T NT
TIP          2: 7fff00401234, CCP 3f/2
PIP          1, 7654321000, CCP 0
STS          1a, 1a, 504030201, CCP 3fffff
TRACESTOP
END
for f in pt rtit; do
    $COFI asm $f.txt >$f.bin || exit
    $COFI dump --no-offset $f.bin 2>/dev/null | sed 's|  *type .*||; s|  *cr3  .*||' | cmp - $f.txt || exit
    $COFI dump --bytes --lastip $f.bin 2>/dev/null | $COFI asm | cmp - $f.bin || exit
done
$COFI dump --lastip pt.bin
