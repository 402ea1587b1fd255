# A name longer than 511 bytes, as those of templates are.
. "$CASES/long.inc"
"$COFI" record -q --filter="filter $long" -- ./program
"$COFI" flow --no-events --no-source | grep -c 'f  *push rbp$'
"$COFI" record -q --snapshot=64K --trigger="$long" -- ./program
echo $?
"$COFI" record -q --filter='filter app::main' -- ./program 2>&1 | sed 's/ in .*;/ in PROGRAM;/'
