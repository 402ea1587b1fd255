# Scenarios in one file, which share what stands before the first; names select; what differs is told by name.
cat >s <<'F'
unit pt
state ip=401000 cpl=3 cr3=5000
set user=1 branch_en=1
wrmsr 571 100000000     # as behind a PSB
set trace_en=1
scenario a jump         # one
events
    jmp* ip=401000 next=401002 target=402000
packets
    cbr
    mode.exec
    tip.pge 401000
    tip 402000
bytes
    02031800 9901 71001040000000
    2d 00 20
scenario a system call
scenario an empty one
events
scenario another jump, which is not as it says
events
    jmp* ip=401000 next=401002 target=402001
bytes
    02031800990171001040000000 2d0020
F
"$COFI" sim --check s || echo "status $?"
"$COFI" sim --check --scenario='a jump' s
"$COFI" sim --no-registers --scenario=an s
"$COFI" sim --json --no-registers --scenario='a jump' s
"$COFI" sim --scenario=nothing s || echo "status $?"
"$COFI" sim --raw=raw s || echo "status $?"
ls raw 2>/dev/null
"$COFI" sim --raw=s --scenario='a jump' s >/dev/null || echo "status $?"
"$COFI" sim --raw=raw --scenario='a jump' s >/dev/null && "$COFI" dump --no-sync --raw raw
sed '/^bytes/,$ s/0203/02g3/' s >bad; "$COFI" sim --check --scenario='a jump' bad || echo "status $?"
sed '/^bytes/,$ s/00 20$/00/' s >short; "$COFI" sim --check --scenario='a jump' short || echo "status $?"
sed '/^bytes/,$ s/00 20$/00 20 00/' s >long; "$COFI" sim --check --scenario='a jump' long || echo "status $?"
printf 'unit pt\nscenario\n' >nameless; "$COFI" sim nameless || echo "status $?"
