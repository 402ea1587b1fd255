# Functions are the same by name, whatever is in them; a part that a compiler put elsewhere is no function, a copy is the function.
. "$CASES/diff.inc"
mkdir before after slower
for dir in before after slower; do (cd $dir && make_program); done
cat >>after/main.s <<'TEXT'
    begins another
    ret
    ends another
    begins work.cold
    call another
    jmp .Lback
    ends work.cold
TEXT
sed -i 's/lea 1(%rdi), %eax/jmp work.cold\n.Lback: lea 1(%rdi), %eax/; s/\<rare\>/rare.constprop.0/' after/main.s
sed -i 's/movsbl/nop\n nop\n movsbl/' slower/main.s
for dir in after slower; do (cd $dir && gcc -g -nostdlib -static -o program main.s); done
for dir in before after slower; do "$COFI" record -q -o $dir.data -- $dir/program 7; done
"$COFI" diff --calls before.data after.data | show
echo "-- the same calls"
"$COFI" diff --calls before.data slower.data | show
"$COFI" diff --calls before.data slower.data >/dev/null
echo "-- status $?: objects"
"$COFI" diff --calls --json --limit=1 before.data after.data | show | sed 's/"module":"[^"]*"/"module":"program"/'
echo "-- one function"
"$COFI" diff --calls --function='r*' before.data after.data | show
