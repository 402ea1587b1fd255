# Two outputs that are one file are refused before the command runs; a device may be both.
touch there && ln -s there link && mkdir sub
for options in '-o a --truth=./a' '--also=pt:sub/../cofi.data' '-o there --raw=link' '--also=pt:b --also=rtit:b'; do
    "$COFI" record $options -- touch ran 2>&1
    echo "$? $(ls | tr '\n' ' ')"
done
"$COFI" record -q --host=step --limit=99 -o /dev/null --truth=/dev/null true
echo $?
