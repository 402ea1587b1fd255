# 40 PSBs; 401000 dec ecx; jnz 401000; 401004 dec edx; jnz 401000; syscall. Two packets are damaged.
perl -e 'binmode STDOUT; print "\xff\xc9\x75\xfc\xff\xca\x75\xf8\x0f\x05"' >code
perl -e 'binmode STDOUT;
    for my $i (0 .. 39) {
        print "\x02\x82" x 8, "\x7d\x00\x10\x40\x00\x00\x00\x99\x01\x02\x23";
        print "\x00" x 15, $_ % 16 == 15 ? "\xde" : $i == 17 && $_ == 100 ? "\x02\x01" : $i == 30 && $_ == 7 ? "\x3e" : "\xfe" for 0 .. 255;
    }' >trace
for command in "flow" "flow --json" "flow --from=@0x9000" "flow --from=@0x9000 --to=@0x12000 --format=ip" "flow --limit=50000" \
    "check" "check --json" "stat" "stat --json --to=@0x12000" "calls" \
    "coverage --by=insn" "coverage --by=insn --to=@0x12000" "coverage --by=insn --from=@0x9000"; do
    for n in 1 2 3 8; do
        "$COFI" $command --threads=$n --raw=trace --image=code@0x401000 >out.$n 2>&1
        echo "status $?" >>out.$n
        cmp out.1 out.$n
    done
    tail -n 1 out.1
done
"$COFI" coverage --format=afl --threads=1 --raw=trace --image=code@0x401000 >map 2>out.1
for n in 2 3 8; do "$COFI" coverage --format=afl --threads=$n --raw=trace --image=code@0x401000 2>out.2 | cmp - map; cmp out.1 out.2; done
for command in "flow" "check" "stat" "stat --no-flow"; do # by a pipe, too
    "$COFI" $command --threads=1 --raw=/dev/stdin --image=code@0x401000 <trace >out.1 2>err.1
    for n in 1 2 8; do
        cat trace | "$COFI" $command --threads=$n --raw=/dev/stdin --image=code@0x401000 >piped 2>err
        cmp out.1 piped
        cmp err.1 err
    done
done
