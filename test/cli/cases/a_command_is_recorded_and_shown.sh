# What stands behind -- is recorded first, as `cofi record` does it, and nothing of that is left but what the program did.
mkdir tmp; export TMPDIR=$PWD/tmp
for view in "flow --last=1" "calls --depth=1" coverage stat check; do
    "$COFI" $view -- sh -c 'cat; echo "$1"; exit 7' sh 'two  words' <<'IN' >out; echo "$view: $?, $(sed -n '1,2p' out | paste -sd, -), $(ls tmp | wc -l) files, shown: $(grep -q 'sh' out && echo yes)"
its input
IN
done
echo "-- record's own options; a recording that is to stay; units"
"$COFI" check -- --host=step --limit=99 -o kept.data true | sed -n 's/thread [0-9]* \((true): [0-9]* instructions\).*/\1/p'
"$COFI" check kept.data | sed -n 's/thread [0-9]* \((true): [0-9]* instructions\).*/\1/p'
"$COFI" stat -- --host=fast --unit=rtit true | sed 1q | grep -c RTIT
"$COFI" flow --last=1 -- --also=rtit:$PWD/also.data --host=fast true | grep -c syscall; "$COFI" check also.data | grep -c ' 0 gaps'
echo "-- of a process"
sleep 9 & "$COFI" check -- -p $! sleep 0.1 | grep -c '(sleep): .* 0 gaps'; echo $?; kill $!
echo "-- ended by a signal; what the view finds wrong counts more"
"$COFI" stat -- sh -c 'kill -9 $$' >out; echo $?
"$COFI" flow --tid=1 -- sh -c 'exit 7'; echo $?
"$COFI" calls -- sh -c 'kill -INT $$' >out; echo $?
echo "-- what cannot be"
"$COFI" calls --; echo $?
"$COFI" calls file -- true; echo $?
"$COFI" calls --raw=file -- true; echo $?
"$COFI" calls --min=many -- touch ran; echo "$?, $(ls ran 2>&1)"
"$COFI" calls -- --host=none touch ran; echo $?
"$COFI" calls -- ./missing; echo $?
"$COFI" calls -- --help | sed 1q
TMPDIR=/dev/null "$COFI" calls -- true; echo $?
echo "-- who forgot the --"
"$COFI" calls sh; echo $?
printf '#!/bin/sh\n' >script; chmod +x script
"$COFI" coverage ./script; echo $?
"$COFI" diff sh sh; echo $?
"$COFI" calls nothing-of-this-name; echo $?
ls tmp
