# 300 threads, each a little earlier than the one before it; each stream begins inside a packet, and its gap is shown with it.
perl -e 'sub record { pack("Lss", $_[0], 0, 8 + length $_[1]) . $_[1] }
    print "PERFILE2", pack("Q", 16), record(70, pack("LLQ*", 1, 0, 8, 10, 1024, 0, 1, 0x400, 0x800, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0));
    for (1 .. 300) {
        my $trace = "\xff\xff" . "\x02\x82" x 8 . "\x19" . substr(pack("Q", 0x1000000 - $_ * 0x1000), 0, 7) . "\x02\x23\x99\x01\x71" .
            substr(pack("Q", 0x401000 + $_), 0, 6);
        $trace .= "\0" x (-length($trace) % 8);
        print record(71, pack("QQQLllL", length $trace, 0, 0x1000000, $_ - 1, $_, -1, 0)) . $trace;
    }' >p.data
"$COFI" flow --by-time p.data >out 2>err
grep '^==' out | sort -c -t' ' -k3,3nr && grep -c '^==' out
head -4 out
