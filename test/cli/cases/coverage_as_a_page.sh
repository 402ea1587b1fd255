# A page of HTML: what is put into it, with what is missing. What it does with it is in test/e2e/run-coverage.
. "$CASES/raw.inc"
printf '\xc7' >>trace.pt
cat trace.pt trace.pt >twice.pt
"$COFI" coverage --raw=twice.pt --image=code.bin@0x401000 --format=html >page.html; echo "exit $?"
sed -n '/id="data">/,/^<\/script>/ { s/.*id="data">//; p; }' page.html
