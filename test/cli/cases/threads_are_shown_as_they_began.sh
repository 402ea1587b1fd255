# Not as their trace was written: of who ends first it is written first.
"$COFI" record -q -- sh -c 'cat /dev/null; head -c 1 /dev/null; sleep 0.3; :'
"$COFI" dump | grep "^# stream 0: .* sh$"
for command in check 'stat --no-flow' 'calls --depth=1' 'flow --limit=0'; do
    "$COFI" $command | sed -n 's/^\(== \)*thread [0-9]* (\([a-z]*\)).*/\2/p' | tr '\n' ' '
    echo
done
