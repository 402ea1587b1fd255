# From a time to another there is what has these times by flow --time, no matter where PSBs are, nor by how many threads it was decoded.
"$COFI" record -q --host=step --config=mtc_en=1 -- true
"$COFI" flow --time --no-events >all
stamps() { sed 's/^~//' all | awk '{ print $1 }' | sort -un; }
between() { awk -v from="$1" -v to="$2" '{ t = $1 == "~" ? $2 : $1; sub("~", "", t) } t + 0 >= from + 0 && t + 0 <= to + 0' all; }
n=$(stamps | wc -l) from=$(stamps | sed -n "$((n / 3))p") to=$(stamps | sed -n "$((n / 2))p")
between "$from" "$to" >some
between "$from" 9 >late
[ -s some ] && [ "$(wc -l <some)" -lt "$(wc -l <late)" ] && [ "$(wc -l <late)" -lt "$(wc -l <all)" ] || echo "these times tell nothing: $from $to"
for threads in 1 3; do
    "$COFI" flow --time --no-events --from=$from --to=$to --threads=$threads | cmp - some
    "$COFI" flow --time --no-events --from=$from --threads=$threads | cmp - late
    "$COFI" flow --time --no-events --by-time --from=$from --to=$to --threads=$threads | grep -v '^==' | cmp - some
    "$COFI" coverage --by=module --json --from=$from --to=$to --threads=$threads | grep -o '"executed":[0-9]*' >modules
    "$COFI" coverage --by=module --json --from=$from --threads=$threads | grep -o '"executed":[0-9]*' >modules.late
    "$COFI" calls --from=$from --to=$to --threads=$threads --format=folded | awk '{ n += $NF } END { print n }' | grep -qx "$(wc -l <some)" || echo "calls counts others"
    awk -F: '{ n += $2 } END { print n }' modules | grep -qx "$(wc -l <some)" || echo "coverage counts $(cat modules)"
    awk -F: '{ n += $2 } END { print n }' modules.late | grep -qx "$(wc -l <late)" || echo "coverage counts $(cat modules.late)"
done
# Of processors: who ran is told where the first of it is shown.
"$PERCPU" p.data >/dev/null
"$COFI" flow --time --from=0.00001 --to=0.000015 p.data
"$COFI" flow --by-time --format=ip --from=0.00001 --to=0.00002 p.data
"$COFI" calls --from=0.00001 p.data
for command in flow "flow --by-time" calls coverage; do "$COFI" $command --from=1 p.data; echo "$command: $?"; done
