# A name longer than a line of most, as those of templates are: cut, no c++filt would know it.
long=$(printf 'f%.0s' $(seq 3000))
cat >main.c <<TEXT
int long_one(void) __asm__("$long");
int long_one(void) { return 0; }
int main(void) { return long_one(); }
TEXT
gcc -g -O0 -o program main.c
"$COFI" record -q -o p.data -- ./program
"$COFI" flow p.data >flow.text
grep -c "<$long>\$" flow.text
grep -c "  $long  *main.c:2 *push rbp\$" flow.text
grep -c "  $long+0x1  *main.c:2 *mov rbp, rsp\$" flow.text
"$COFI" flow --json p.data | grep -c "\"symbol\":\"$long\",.*\"insn\":\"push rbp\"}\$"
"$COFI" calls p.data | grep -c "  $long\$"
"$COFI" calls --json p.data | grep -c "\"function\":\"$long\",.*}\$"
