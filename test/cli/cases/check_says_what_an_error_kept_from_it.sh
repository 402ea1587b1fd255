# Input that breaks off by an error, not by its end: what came is counted, and all is not well.
printf '\164\376' >code # 401000: jz 401000
cat >broken <<'PERL'
use Socket;
socketpair my $ours, my $theirs, AF_UNIX, SOCK_STREAM, 0 or die;
syswrite $ours, "not read"; # so that closing the other end is an error here
syswrite $theirs, "\x02\x82" x 8 . "\x02\x23\x99\x01\x71\x00\x10\x40\x00\x00\x00\xfe";
close $theirs;
open STDIN, "<&", $ours or die;
exec @ARGV;
PERL
perl broken "$COFI" check --raw=- --image=code@0x401000
echo "status $?"
perl broken "$COFI" check --raw=- --image=code@0x401000 --json
echo "status $?"
