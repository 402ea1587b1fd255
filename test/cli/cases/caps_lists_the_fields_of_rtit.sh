# By the names that 'record --config' and scenarios take.
"$COFI" caps --unit=rtit --registers | sed -n '/^  /p'
"$COFI" caps --unit=rtit --registers --json | grep '"trace_en"'
