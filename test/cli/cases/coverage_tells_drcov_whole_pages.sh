# A module's row reaches from the page that its file begins on to the end of the page that it ends on, as loaders map it.
printf '.globl _start\n_start: mov $60, %%eax\nxor %%edi, %%edi\nsyscall\n.fill 0x1800, 1, 0x90\n' >p.s
gcc -static -nostdlib -no-pie -Wl,--build-id=none -o p p.s
"$COFI" record -q -o p.data ./p
"$COFI" coverage --format=drcov --module=p -o out.drcov p.data
grep -a -A1 '^Columns' out.drcov | sed 's, /.*/, PATH/,'
