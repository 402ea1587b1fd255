# What is no bundle of LLDB's is said with the place in it, and leaves no recording.
try() { printf '%s' "$1" >trace.json; "$COFI" import -o x.data trace.json; echo "status $?"; }
head='"type": "intel-pt", "cpuInfo": {"vendor": "GenuineIntel", "family": 6, "model": 79, "stepping": 1}'
try ''
try 'null'
try '{'
try '{"type": "intel-pt", }'
try '[1]'
try '{"type": "arm-etm"}'
try '{"type": 3}'
try "{$head, \"processes\": 7}"
try "{$head, \"processes\": [{\"threads\": []}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"threads\": [{\"tid\": -2}]}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"threads\": [{\"tid\": 1, \"iptTrace\": 5}]}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"threads\": [7]}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"modules\": [{\"systemPath\": \"x\", \"loadAddress\": \"there\"}]}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"modules\": [{\"loadAddress\": 1}]}]}"
try "{$head, \"cpus\": [{\"id\": 1}]}"
try "{$head, \"cpus\": [{\"id\": 1, \"iptTrace\": \"x\"}]}"
try "{$head, \"processes\": [{\"pid\": 1, \"threads\": [{\"tid\": 1, \"iptTrace\": \"x\"}]}], \"cpus\": [{\"id\": 1, \"iptTrace\": \"x\"}]}"
try "{$head, \"tscPerfZeroConversion\": {\"timeMult\": 1, \"timeShift\": 64, \"timeZero\": 0}}"
try "{\"type\": \"intel-pt\", \"cpuInfo\": {\"family\": 6.5}}"
try "{$head, \"processes\": []}"
printf x >short
try "{$head, \"processes\": [{\"pid\": 1, \"threads\": [{\"tid\": 1, \"iptTrace\": \"short\"}]}]}"
"$COFI" import nothing; echo "status $?"
mkdir folder; "$COFI" import folder; echo "status $?"
"$COFI" import; echo "status $?"
"$COFI" import a b; echo "status $?"
"$COFI" import -o no/x.data trace.json; echo "status $?"
ls
# Where a recording was expected.
try "{$head, \"processes\": [{\"pid\": 1}]}" 2>/dev/null
mkdir -p bundle && cp trace.json bundle && "$COFI" flow trace.json; echo "status $?"
"$COFI" check bundle; echo "status $?"
