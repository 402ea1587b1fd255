# User code: nop, nop, syscall. The unit makes the first stream; in the second an address is not compressed, which is the
# same packet; in the third tracing is disabled at the second nop without a FUP before it, which no processor does.
psb='\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043'
printf '\220\220\017\005' >code
printf "$psb"'\231\001\121\000\020\100\000\001' >raw
$COFI replay --raw=raw --image=code@0x401000 | sed 's/  */ /g'
printf "$psb"'\231\001\161\000\020\100\000\000\000\001' >raw
$COFI replay --raw=raw --image=code@0x401000 | sed 's/  */ /g'
printf "$psb"'\231\001\121\000\020\100\000\041\001\020' >raw
$COFI replay --raw=raw --image=code@0x401000
