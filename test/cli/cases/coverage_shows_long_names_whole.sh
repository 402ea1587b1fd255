# A name longer than a line of most.
long=$(printf 'f%.0s' $(seq 3000))
cat >main.c <<TEXT
int long_one(void) __asm__("$long");
int long_one(void) { return 0; }
int main(void) { return long_one(); }
TEXT
gcc -g -O0 -o program main.c
"$COFI" record -q -o p.data -- ./program
for by in function insn; do
    "$COFI" coverage --module=program --by=$by --json p.data | awk 'substr($0, 1, 7) != "{\"v\":1," || !/}$/ { print "cut: " $0 } length > 3000 { n++ } END { print (n > 0 ? "whole" : "cut") }'
    "$COFI" coverage --module=program --by=$by p.data | grep -q "  $long[ +]" && echo whole
done
"$COFI" coverage --module=program --format=lcov p.data | grep -c "^FN.*,$long\$"
