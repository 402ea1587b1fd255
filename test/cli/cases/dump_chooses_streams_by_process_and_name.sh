# --pid and --comm as the other commands have them. A processor's packets are nobody's.
"$COFI" record -q --host=fast -- sh -c '/bin/true; /bin/echo >/dev/null'
first=$("$COFI" check | sed -n 's/^thread \([0-9]*\) .*/\1/p' | head -n 1)
for option in --comm=true --comm='[te]*' --pid=$first "--pid=$first --comm=sh --tid=$first"; do
    echo "$(echo $option | sed "s/$first/FIRST/g"):" $("$COFI" dump $option | sed -n 's/^# stream .*, //p')
done
for option in --comm=nobody --pid=1 "--comm=true --tid=$first" --pid=0; do "$COFI" dump $option; echo "status $?"; done
printf 'psb\n' | "$COFI" asm >trace
"$COFI" dump --raw trace --pid=1; "$COFI" dump --raw trace --comm=sh; echo "status $?"
"$PERCPU" p.data >/dev/null
"$COFI" dump --comm=one p.data; echo "status $?"
