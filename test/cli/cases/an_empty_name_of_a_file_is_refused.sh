# As of a variable that is not set.
for option in input output raw image symfs guestmount kcore vmlinux kallsyms truth; do
    "$COFI" check --$option=; echo "$option: $?"
done
"$COFI" gdb --core=; echo "core: $?"
"$COFI" import --raw=; echo "import: $?"
"$COFI" diff --raw --image= a b; echo "diff: $?"
