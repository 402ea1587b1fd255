# A filter, a trigger, a field: what is wrong with it, and where the right names are.
cp /bin/true program
say() { "$COFI" record "$@" -- ./program 2>&1 | sed "s,$PWD/,,g"; }
say --filter=foo
say '--filter=filter 0x10/1, foo'
say --snapshot=1M --trigger=nosuch
say --config=nosuch
say --unit=rtit --config=nosuch
