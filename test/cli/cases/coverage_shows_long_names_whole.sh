# A name longer than a line of most.
. "$CASES/long.inc"
"$COFI" record -q -o p.data -- ./program
for by in function insn; do
    "$COFI" coverage --module=program --by=$by --json p.data | awk 'substr($0, 1, 7) != "{\"v\":1," || !/}$/ { print "cut: " $0 } length > 3000 { n++ } END { print (n > 0 ? "whole" : "cut") }'
    "$COFI" coverage --module=program --by=$by p.data | grep -q "  $long[ +]" && echo whole
done
"$COFI" coverage --module=program --format=lcov p.data | grep -c "^FN.*,$long\$"
