# perf tells of each process that it finds who forked it; that one's program is another.
cp /bin/true program
cp /bin/false other
"$PERCPU" p.data found "$PWD/program" "$PWD/other"
for request in QStartNoAckMode 'qXfer:exec-file:read:a:0,400' D; do
    sum=$(printf %s "$request" | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { printf "%02x", sum % 256 }')
    printf '$%s#%s' "$request" "$sum"
done >requests
"$COFI" gdb --stdio p.data <requests | tr -d '\n' | sed "s/#[0-9a-f][0-9a-f]/\\n/g; s|$PWD/||"
