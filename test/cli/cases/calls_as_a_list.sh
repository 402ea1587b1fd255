# Each call as it came: by what depth, and the line that it is in. Recursion is not folded, a tail call has no line.
cat >main.c <<'TEXT'
int last(int n) { __asm__(""); return n + 1; }
int tail(int n) { __asm__(""); return last(n); }
int down(int n) { if (!n) return 0; n = down(n - 1); __asm__ volatile("" : "+r"(n)); return n + 1; }
void _start(void)
{
    int n = down(2);
    n += tail(n);
    __asm__("syscall" : : "a"(60), "D"(n & 0) : "rcx", "r11", "memory");
}
TEXT
gcc -g -O1 -fno-inline -fno-ipa-cp -fno-ipa-icf -foptimize-sibling-calls -nostdlib -static -o program main.c
"$COFI" record -q -o p.data -- ./program
"$COFI" calls --format=list p.data | sed 's/thread [0-9]*/thread N/'
echo "-- no deeper"
"$COFI" calls --format=list --depth=2 --no-source p.data | sed 1d
echo "-- JSON"
"$COFI" calls --format=list --json p.data | sed 's/"tid":[0-9]*/"tid":N/; s/"0x[0-9a-f]*"/A/; s/"[^"]*main.c"/"main.c"/'
echo "-- threads of processors, a title where another one goes on"
"$PERCPU" p.data >/dev/null
"$COFI" calls --format=list p.data
echo "-- wrong"
"$COFI" calls --format=list --min=1 p.data
"$COFI" calls --no-source p.data
"$COFI" calls --format=list p.data >/dev/full
"$COFI" record -q -o p.data -- ./program
"$COFI" calls --format=list p.data | true
