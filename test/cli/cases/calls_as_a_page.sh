# A page of HTML: what is put into it. What it does with it is in test/e2e/run-views.
. "$CASES/raw.inc"
data() { sed -n '/id="data">/,/^<\/script>/ { s/.*id="data">//; p; }' "$1"; }
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=html >page.html; echo "exit $?"
data page.html
echo "-- at most a level, and what has 16 instructions"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=html --depth=1 >page.html; data page.html
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=html --min-insns=16 >page.html; data page.html
echo "-- threads of processors"
"$PERCPU" p.data >/dev/null
"$COFI" calls --format=html p.data >page.html; data page.html
"$COFI" calls --format=html --json p.data; echo "exit $?"
