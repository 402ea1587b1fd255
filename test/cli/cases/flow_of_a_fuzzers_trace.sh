# As kAFL and libxdc have them: what precedes the first PSB is packets, and 55 ends them.
perl -e 'my $head = "\x99\x01\x71\0\x10\x40\0\0\0"; print "$head\x06\x01" . "\x02\x82" x 8 . "\x02\x23$head\x06\x01\x55"' >t.pt
printf 'u\0\17\5' >code
"$COFI" flow --raw=t.pt --image=code@0x401000
"$COFI" flow --raw=- --image=code@0x401000 --format=ip <t.pt
"$COFI" check --raw=t.pt --image=code@0x401000
"$COFI" stat --raw=t.pt --image=code@0x401000 | head -1
"$COFI" dump --no-sync t.pt >text && "$COFI" asm text | cmp - t.pt && tail -1 text
echo cut inside of the first address
tail -c +6 t.pt >cut.pt
"$COFI" check --raw=cut.pt --image=code@0x401000
