# The script for SQLite: what makes the tables, then a row a call where it ends. What it comes to is in test/e2e/run-calls.
. "$CASES/raw.inc"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=sql; echo "exit $?"
echo "-- what has 16 instructions, at most a level"
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=sql --min-insns=16 | grep 'INTO calls'
"$COFI" calls --raw=trace.pt --image=code.bin@0x401000 --format=sql --depth=1 | grep 'INTO calls'
echo "-- threads of processors"
"$PERCPU" p.data >/dev/null
"$COFI" calls --format=sql p.data | sqlite3 p.db
sqlite3 p.db 'select tid, command, symbol, insn_count, flags from calls_view order by tid, call_time' 'select thread_id, reason, count(*) from untraced group by 1, 2'
"$COFI" calls --format=sql --min=1 p.data; echo "exit $?"
