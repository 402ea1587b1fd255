# What gdb asks for, without gdb: an answer a line.
"$PERCPU" p.data
packet() {
    sum=$(printf %s "$1" | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; i++) sum += $i } END { printf "%02x", sum % 256 }')
    printf '$%s#%s' "$1" "$sum"
}
for request in qSupported QStartNoAckMode 'qXfer:features:read:target.xml:0,400' 'qXfer:threads:read::0,400' '?' Hgc qC p10 p0 \
    m401018,10 m500000,4 'qXfer:btrace-conf:read::0,400' 'qXfer:btrace:read:all:0,400' 'qXfer:btrace:read:delta:0,400' \
    'qXfer:libraries-svr4:read::0,400' 'qXfer:nosuch:read::0,400' 'qXfer:exec-file:read:a:0,400' Hg99 'vCont;c' M401018,1:00 vFile:open D; do
    packet "$request"
done >requests
printf '+\003' | cat - requests >all
"$COFI" gdb --stdio p.data <all | tr -d '\n' | sed 's/#[0-9a-f][0-9a-f]/&\n/g'
"$COFI" gdb --stdio --pid=11 p.data <all
"$COFI" gdb --stdio p.data -- -batch
"$COFI" gdb --stdio - <p.data
