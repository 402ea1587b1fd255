# A program may be called anything: a terminal shows its name and obeys nothing in it, and the name ends no line that others read.
. "$CASES/program.inc"
make_program .
name=$(printf 'a\nb;\033[31mc\302\233m')
mv program "$name"
"$COFI" record -q -- "./$name"
"$COFI" dump >text
grep '^# stream' text | cut -d, -f3-
"$COFI" asm text >/dev/null && echo "asm reads it"
"$COFI" calls --format=folded
"$COFI" stat | head -1 | cut -d: -f2-
for command in stat calls coverage 'coverage --by=module' dump; do
    script -qec "$COFI $command cofi.data" /dev/null </dev/null >shown
    LC_ALL=C tr -d '\n\r\t -~' <shown | od -An -c | sed "s/^/$command: /"
done
"$COFI" coverage --by=module | LC_ALL=C tr -d '\n\r\t -~' | od -An -c
for by in function module insn; do
    "$COFI" coverage --by=$by >shown
    echo "$by: $(grep -c '^b;' shown) lines begin with what ends the name"
done
