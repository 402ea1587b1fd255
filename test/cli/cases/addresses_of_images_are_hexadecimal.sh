# As they are printed; 0000000000401000 is no octal number, 401000 no decimal one.
. "$CASES/raw.inc"
for address in 0x401000 401000 0000000000401000 0X401000; do
    "$COFI" flow --raw=trace.pt --image=code.bin@$address --format=ip --no-events | tail -1
done
for address in "" 0x -1 +1 " 1" 10000000000000000 40100g; do
    "$COFI" check --raw=trace.pt --image="code.bin@$address" 2>&1
done
