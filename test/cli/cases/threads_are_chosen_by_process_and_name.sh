# --pid, --comm and --tid: what all of them are of. In streams of threads, and of processors, where threads take turns.
"$COFI" record -q --host=fast -- sh -c '/bin/true; /bin/echo >/dev/null; /bin/true'
names() { sed -n 's/^thread [0-9]* (\(.*\)): .*/\1/p'; }
first=$("$COFI" check | sed -n 's/^thread \([0-9]*\) .*/\1/p' | head -n 1)
for option in --comm=true --comm='[te]*' --comm=sh --pid=$first; do
    echo "$(echo $option | sed "s/$first/FIRST/"):" $("$COFI" check $option | names)
    "$COFI" calls $option --format=folded | sed 's/;.*//' | sort -u
done
"$COFI" flow --comm=true --format=ip >one.ip
"$COFI" stat --comm=true --json | sed -n 's/.*"instructions":\([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n }' | grep -qx "$(wc -l <one.ip)" || echo "stat counts others"
"$COFI" coverage --comm=echo --by=module | grep -o '/[a-z]*$' | grep -cx '/echo\|/true'
for option in "--comm=true --pid=$first" --comm=nobody --pid=1 "--comm=true --tid=$first"; do "$COFI" flow $option; echo "status $?"; done
"$COFI" flow --pid=0; "$COFI" check --comm=sh --truth=x
: >trace
"$COFI" flow --raw=trace --comm=sh; "$COFI" flow --raw=trace --pid=1

"$PERCPU" p.data >/dev/null
for option in --comm=one --pid=10 --comm=two --comm=none; do
    echo "$option: $("$COFI" flow --no-events $option p.data | grep -c '^0') instructions, $("$COFI" calls $option p.data | grep '^==')"
done
for view in flow calls coverage stat check "flow --by-time"; do "$COFI" $view --comm=none p.data >out; echo "$view: $?"; done
