# By every command, its help, and where standard output is closed.
printf 'psb\n' | "$COFI" asm >t.bin
printf 'unit pt\n' >t.cofi
for arguments in --help --version 'caps --list' 'sim t.cofi' 'check --raw t.bin' 'flow --help' 'replay --raw t.bin' 'record --help' 'dump t.bin'; do
    "$COFI" $arguments 2>&1 >/dev/full
    echo $?
    "$COFI" $arguments 2>&1 >&-
    echo $?
done
