# The nearest place at which both are in the same function again ends a parting; calls that one of them makes meanwhile are in it.
. "$CASES/diff.inc"
make_program
for n in 5 7; do "$COFI" record -q -o $n.data -- ./program $n; done
"$COFI" record -q -o again.data -- ./program 5
"$COFI" diff 5.data 7.data | show
"$COFI" diff 5.data 7.data >out
echo "-- status $?: and the other way around"
"$COFI" diff 7.data 5.data | show
echo "-- places only"
"$COFI" diff --limit=0 --no-source 5.data 7.data | show
"$COFI" diff --min-insns=1000 5.data 7.data | show
echo "-- one function"
"$COFI" diff --function='r[au]*' 5.data 7.data | show
"$COFI" diff --module=other 5.data 7.data
echo "-- status $?: objects"
"$COFI" diff --json 5.data 7.data | show
echo "-- briefly"
"$COFI" diff --brief 5.data 7.data
echo "-- status $?: the same"
"$COFI" diff 5.data again.data
"$COFI" diff -q 5.data again.data
