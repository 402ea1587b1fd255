# inc %eax is one byte in 32-bit code, and a prefix in 64-bit code.
printf '.globl _start\n_start: inc %%eax\n jz 1f\n1: inc %%ecx\n int $0x80\n' >exit.s
gcc -m32 -nostdlib -static -Wl,-Ttext=0x8049000 -o exit exit.s
"$COFI" asm -o trace.pt - <<'TEXT'
psb
psbend
tip.pge 3: 0000000008049000
tnt.8 !
fup 1: ????????????9004
tip.pgd 0: ????????????????
TEXT
"$COFI" flow --raw=trace.pt --image=exit --no-source
# RTIT never tells it.
"$COFI" asm --gen=rtit -o trace.rtit - <<'TEXT'
PSB
FUP.PGE 1z: 000008049000
TNT !
FUP.PGD 1z: 000008049004
TEXT
"$COFI" flow --raw=trace.rtit --gen=rtit --image=exit --no-source
# Where packets tell it, it is that: here 64-bit code in a file of the other class, before and behind where tracing was off.
"$COFI" asm -o told.pt - <<'TEXT'
psb
psbend
mode.exec cs.l
tip.pge 3: 0000000008049000
tnt.8 !
fup 1: ????????????9003
tip.pgd 0: ????????????????
tip.pge 3: 0000000008049003
fup 1: ????????????9003
tip.pgd 0: ????????????????
TEXT
"$COFI" flow --raw=told.pt --image=exit --no-source
