# A byte that is none becomes U+FFFD, a character stays, a quote is escaped.
program=$(printf 'tr\377\342\202"\303\244ue')
cp /bin/true "$program"
"$COFI" record -q -- "./$program"
for command in flow calls; do
    "$COFI" $command --json >$command.json
    iconv -f UTF-8 -t UTF-8 $command.json | cmp - $command.json && echo "$command: $(grep -o 'tr[^+,/]*ue' $command.json | sort -u)"
done
