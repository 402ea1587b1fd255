# Outcomes left in RTIT_TNT_BUFF [RTIT 4.2.11], an overflow at the end [RTIT 4.2.5], a circular region [RTIT 2.3].
{
    echo "unit rtit"; echo "state ip=401000"
    echo "set filter_event_id=7 tracestop_event_id=6 user=1 dest=1 pkt_mask=0"
    echo "set trace_en=1"; echo "set trace_active=1"
    echo "code 401000"; echo "    74 fe ff e0 0f 05"
    echo events
    echo "    taken"; echo "    taken"; echo "    not-taken"
} >left.cofi
"$COFI" sim --raw left --no-registers left.cofi >/dev/null || exit
printf '\164\376\377\340\017\005' >code
echo "-- without"
"$COFI" flow --raw=left --gen=rtit --image=code@0x401000 --format=ip
echo "-- RTIT_TNT_BUFF"
"$COFI" flow --raw=left --gen=rtit --image=code@0x401000 --format=ip --msr=77d=e
echo "-- and Buffer_Overflow"
"$COFI" flow --raw=left --gen=rtit --image=code@0x401000 --msr=77d=e,769=f,768=200d | tail -2

{
    sed '/^events/,$d' left.cofi
    echo events
    seq 900 | sed 's/.*/    taken/'
    echo "    wrmsr 77c 800"; echo "    not-taken"; echo "    to 401000" # a PSB, then an address
    seq 600 | sed 's/.*/    taken/'
    echo "    not-taken"; echo "    to 401000"; echo "    not-taken"; echo "    to ffffffff81000000 : cpl=0"
} >long.cofi
"$COFI" sim --raw long --no-registers long.cofi >/dev/null || exit
n=$(wc -c <long)
offset=100 # of the newest 256 bytes, as they lie in a region of that size
tail -c $offset long >region && tail -c 256 long | head -c $((256 - offset)) >>region
echo "-- circular: $n bytes, the newest 256 at offset 64"
"$COFI" flow --raw=long --gen=rtit --image=code@0x401000 --format=ip --no-events | tail -n 602 >all
"$COFI" flow --raw=region --gen=rtit --image=code@0x401000 --format=ip --no-events --msr=772=64 2>errors | tail -n 602 >newest
cmp all newest && wc -l <newest && tail -2 newest && cat errors
for bad in 77d '' 77d=12345678901234567; do
    "$COFI" check --raw=left --gen=rtit --image=code@0x401000 --msr=$bad || echo "status $?"
done
