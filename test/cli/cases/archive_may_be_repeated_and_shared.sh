# Also of recordings of several programs; where no byte would change none is written.
. "$CASES/program.inc"
make_program one
make_program two 5
for program in one two; do "$COFI" record -q -o $program.data -- $program/program; done
for program in one one two; do
    "$COFI" archive -o files $program.data 2>&1 | sed 's/[0-9.]* MB/N MB/'
    [ $program = two ] || stat -c %i:%z files$PWD/one/program >>times
done
uniq times | wc -l
mv one gone
mv two gone
for program in one two; do "$COFI" check --symfs=files $program.data | grep -o '[0-9]* gaps'; done
chmod 4711 gone/program
mv gone one
rm -r files
"$COFI" archive -o files one.data 2>/dev/null
stat -c %a files$PWD/one/program
