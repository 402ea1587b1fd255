# 32-bit code, which as 64-bit code comes to a JNZ where a TIP stands; RTIT has no packet for the mode, this PT trace has none. The last one fits both.
printf '\241\000\020\100\000\111\165\370\377\340\373\165\000\017\005' >code.bin
printf '.gen rtit\nPSB\nFUP.PGE 1z: 401000\nTNT T T NT\nTIP 0: 1000\nTNT T T NT\nTIP 0: 1000\n' | "$COFI" asm >trace.rtit
printf 'psb\npsbend\ntip.pge 3: 0000000000401000\ntnt.8 !!.\ntip 1: ????????????1000\ntnt.8 !!.\ntip 1: ????????????1000\n' | "$COFI" asm >trace.pt
for gen in rtit pt; do
    for mode in "" --mode=64 --mode=32; do
        echo "== $gen $mode"
        "$COFI" flow --raw=trace.$gen --gen=$gen --image=code.bin@0x401000 $mode --format=ip 2>&1 | cut -c 9-
    done
done
"$COFI" flow --raw=- --gen=rtit --image=code.bin@0x401000 --format=ip <trace.rtit | tail -1
head -c 29 trace.pt | "$COFI" flow --raw=- --image=code.bin@0x401000 --mode=32 --format=ip
"$COFI" check --raw=trace.pt --mode=33 2>&1
"$COFI" check --mode=32 2>&1
printf '\165\376\377\340' >both.bin
"$COFI" check --raw=trace.pt --image=both.bin@0x401000
