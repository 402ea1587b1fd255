# What helps is said; --json of a yes or no is refused.
. "$CASES/diff.inc"
make_program
cp program other
"$COFI" record -q -o 1.data -- ./program 3
"$COFI" record -q -o 2.data -- ./other 3
"$COFI" diff 1.data 2.data | sed 's/thread [0-9]*/thread N/'
"$COFI" diff -q --json 1.data 2.data
