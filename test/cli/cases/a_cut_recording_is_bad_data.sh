# All commands that decode: a file that is cut off is status 1, and each says so once.
"$COFI" record -q -o whole.data -- true
head -c $(($(stat -c %s whole.data) - 2000)) whole.data >cut.data
for command in check flow calls stat replay; do
    "$COFI" $command whole.data >/dev/null 2>said
    echo "$command: $? $(wc -l <said)"
    "$COFI" $command cut.data >/dev/null 2>said
    echo "$command, cut: $? $(sort said | uniq -d | wc -l)"
done
