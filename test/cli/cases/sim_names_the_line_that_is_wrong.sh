try() { printf '%b' "$1" >s; "$COFI" sim s; echo "status $?"; }
try 'unit mips\n'
try '# a comment\nunit pt 80386\n'
try 'unit rtit skylake\n'
try 'set trace_en\n'
try 'set no_such_field=1\n'
try 'wrmsr 768 ffffffff\n'
try 'unit pt\nwrmsr 571 0 gp!\n'
try 'wrmsr 77d 11111111111111111\n'
try 'rdmsr x\n'
try 'rdmsr 768 2\n'
try 'code 100\n    zz\n'
try 'code xyz\n    90\n'
try 'code 100\nevents\n'
try 'events\n    jump ip=1\n'
try 'events\n    taken\n'
try 'code 100\n    e8\nstate ip=100\nevents\n    step\n'
try 'code 100\n    eb fe\nstate ip=100\nevents\n    taken\n'
try 'buffer x\n'
try 'errata e9\n'
printf 'asm 100\n    nop\n' >s; TMPDIR=nowhere "$COFI" sim --check s; echo "status $?"
"$COFI" sim nowhere
echo "status $?"
"$COFI" sim
{ printf 'unit rtit\nset'; seq -f ' lip0=%g' 200 | tr -d '\n'; echo; } >long; "$COFI" sim long
