# No MODE.Exec before the first whole address, which an overflow left: the one in the next PSB+ tells that it is 32-bit code.
perl -e 'my $ip = "\0\x10\x40\0\0\0"; print "\x06\x7d${ip}\x06\x71$ip\x04" . "\x02\x82" x 8 . "\x99\x02\x7d\x03\x10\x40\0\0\0\x02\x23\x06\x01"' >t.pt
printf '@u\0@u\0\17\64' >code
"$COFI" flow --raw=t.pt --image=code@0x401000
"$COFI" flow --raw=- --image=code@0x401000 --format=ip <t.pt
