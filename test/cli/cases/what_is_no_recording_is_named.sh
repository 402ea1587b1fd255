# The file, also where its name is a part of what is wrong with it.
: >e
"$COFI" flow e 2>&1
echo "no recording at all" >data
"$COFI" flow data 2>&1
# Compressed; a raw trace.
printf '\037\213\010\0 and so on, and so on' >data
"$COFI" flow data 2>&1
printf '\2\202\2\202\2\202\2\202\2\202\2\202\2\202\2\202\2\043' >data
"$COFI" flow data 2>&1
# By zstd, which is read, but nothing comes of it.
printf '\050\265\057\375 and so on, and so on' >data
"$COFI" flow data 2>&1
# By others; a program; a machine without PT; RTIT.
for begin in 'BZh91AY&SY' 'PK\3\4' '\177ELF' '2ELIFREP' '\300\0\0\0\0\0\0\0\0'; do
    printf "$begin and so on, and so on" >data
    "$COFI" flow data 2>&1
done
