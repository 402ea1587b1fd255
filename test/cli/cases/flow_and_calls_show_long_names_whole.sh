# A name longer than a line of most, as those of templates are: cut, no c++filt would know it.
. "$CASES/long.inc"
"$COFI" record -q -o p.data -- ./program
"$COFI" flow p.data >flow.text
grep -c "<$long>\$" flow.text
grep -c "  $long  *main.c:2 *push rbp\$" flow.text
grep -c "  $long+0x1  *main.c:2 *mov rbp, rsp\$" flow.text
"$COFI" flow --json p.data | grep -c "\"symbol\":\"$long\",.*\"insn\":\"push rbp\"}\$"
"$COFI" calls p.data | grep -c "  $long\$"
"$COFI" calls --json p.data | grep -c "\"function\":\"$long\",.*}\$"
