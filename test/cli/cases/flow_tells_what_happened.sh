# What happens between instructions is told in words: power, event trace, transactions, PTWRITE, blocks, triggers.
"$COFI" asm >raw <<'F'
psb
psbend
mode.exec cs.l
tip.pge 3: 401000
mwait 20, 1
pwre c3.1
exstop ip
fup 3: 401001
cbr 18
pwrx int: c3, c4
pwre c6.1, hw
exstop
pwrx st+hw: c0, c6
evd 0: dead000
cfe 1: e
fup 3: 401002
mode.exec cs.l
tip 3: 401010
cfe 3, ip
fup 3: 401011
cfe 1f, ip
fup 3: 401011
evd 2: 30
mode.tsx intx
fup 3: 401012
mode.tsx abrt
fup 3: 401013
tip 3: 401020
ptw 1: 0, ip
fup 3: 401021
bbp 4
bip 4: 0000000000001122
bep ip
fup 3: 401022
trig 1, icnt: 3
trig 2, mult, icnt: ffff
F
[ -s raw ] && perl -e 'print "\x90" x 64' >code && "$COFI" flow --raw=raw --image=code@0x401000 | grep '^\['
