# All that the trace holds may be decoded, and much be missing: the last line says so, for one and for several.
printf '\220\220\353\374' >code # nop nop jmp back
for n in 1 2; do
    printf 'psb\npsbend\ntip.pge 3: 0x1000\nfup 3: 0x1002\ntip.pgd 0: ????????????????\n' >p.txt
    for i in $(seq $n); do printf 'ovf\n' >>p.txt; done
    "$COFI" asm -o t.bin p.txt
    "$COFI" check --raw=t.bin --mode=64 --image=code@0x1000
    echo "status $?"
done
