# A name longer than 511 bytes, as those of templates are.
long=$(printf 'f%.0s' $(seq 3000))
cat >main.c <<TEXT
int long_one(void) __asm__("$long");
int long_one(void) { return 0; }
int main(void) { return long_one(); }
TEXT
gcc -O0 -o program main.c
"$COFI" record -q --filter="filter $long" -- ./program
"$COFI" flow --no-events | grep -c 'f  *push rbp$'
"$COFI" record -q --snapshot=64K --trigger="$long" -- ./program
echo $?
"$COFI" record -q --filter='filter app::main' -- ./program 2>&1 | sed 's/ in .*;/ in PROGRAM;/'
