# By an error, not by its end: what is a whole of its own is not ended, and a run that could not be read is not the same.
printf '\164\376' >code # 401000: jz 401000
printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043\231\001\161\000\020\100\000\000\000\376' >trace
cat >broken <<'PERL'
use Socket;
socketpair my $ours, my $theirs, AF_UNIX, SOCK_STREAM, 0 or die;
syswrite $ours, "not read"; # so that closing the other end is an error here
open my $trace, "<", "trace" or die;
read $trace, my $bytes, 1000;
syswrite $theirs, $bytes;
close $theirs;
open STDIN, "<&", $ours or die;
exec @ARGV;
PERL
shown() {
    perl broken "$COFI" "$@" --image=code@0x401000 --threads=1 >part 2>&1; echo "$*: $?"
    grep "reset\|failed\|the same (" part
}
for format in tree list folded html chrome sql; do
    shown calls --raw=- --format=$format
done
grep -c COMMIT part
for options in --format=ip --json --by-time --last=3; do
    shown flow --raw=- $options
done
shown coverage --raw=- --format=lcov
shown stat --raw=-
for options in "" --calls --json; do
    shown diff --raw trace - $options
done
# All the same where nobody asked for what follows.
shown flow --raw=- --format=ip --limit=2
echo kept >out
perl broken "$COFI" calls --raw=- --image=code@0x401000 --format=html -o out 2>&1; echo "-o: $?"
[ -e out ] || echo "none left"
