# 40 targets without code behind a jump that has: the first ones are named, all are counted by reason.
{
    printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043\231\001\161\000\020\100\000\000\000\000'
    for i in $(seq 40); do printf '\055\000\120\055\000\020'; done
    printf '\001'
} >many.pt
printf '\377\340' >code
"$COFI" flow --raw=many.pt --image=code@0x401000 --format=ip | uniq -c | sed 's/^ *//'
