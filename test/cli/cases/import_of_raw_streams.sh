# A raw stream with its code becomes a recording: all commands show it, as they show the raw stream.
perl -e 'binmode STDOUT; print "\xff\xc9\x75\xfc\xff\xca\x75\xf8\x0f\x05"' >code # 401000 dec ecx; jnz 401000; 401004 dec edx; jnz 401000; syscall
perl -e 'binmode STDOUT;
    for my $i (0 .. 3) {
        print "\x02\x82" x 8, "\x19", pack("Q", 0x1000 * ($i + 1)) =~ s/.\z//sr, "\x7d\x00\x10\x40\x00\x00\x00\x99\x01\x02\x23";
        print "\x00" x 15, $_ % 16 == 15 ? "\xde" : "\xfe" for 0 .. 255;
    }' >trace
same() { # RAW-OPTIONS…: the recording shows what the raw stream shows
    "$COFI" import -o i.data "$@" 2>&1
    "$COFI" flow --format=ip "$@" >raw.ip 2>raw.err
    "$COFI" flow --format=ip i.data >i.ip 2>i.err
    cmp raw.ip i.ip && wc -l <i.ip
}
same --raw=trace --image=code@0x401000
"$COFI" check i.data
"$COFI" stat i.data | sed -n 1,2p
mv i.data moved.data && rm code && "$COFI" flow --format=ip moved.data | cmp - raw.ip # the code is in it
if command -v perf >/dev/null; then
    mv moved.data i.data
    perf script --itrace=i0ns -F ip -i i.data 2>/dev/null | sed 's/^ *//' | awk '{ printf "%016s\n", $1 }' | tr ' ' 0 | cmp - raw.ip # where it was made
fi

# A page dump; what did not run of it is left out.
perl -e 'binmode STDOUT; print "\xff\xc9\x75\xfc\xff\xca\x75\xf8\x0f\x05", "\x90" x 4086, "\xcc" x 4096' >pages.dump
perl -e 'binmode STDOUT; print pack("QQ", 0x401000, 0x7000)' >pages.addr
same --raw=trace --image=pages.addr
# An ELF file is named, not copied: symbols and lines are there.
printf '.globl _start, f\n_start: f: dec %%ecx\njnz f\ng: dec %%edx\njnz f\nsyscall\n' | gcc -xassembler -nostdlib -static -Wl,-Ttext=0x401000,--build-id -o program -
same --raw=trace --image=program
"$COFI" flow --limit=3 --no-events i.data
"$COFI" import -o i.data --raw=- --image=program@0x10400000 <trace 2>&1 # elsewhere than the trace says: nothing ran there
"$COFI" coverage --by=function i.data 2>&1 | tail -n 1
# A program that was loaded elsewhere.
printf '.globl _start, f\n_start: f: dec %%ecx\njnz f\nsyscall\n' | gcc -xassembler -nostdlib -static-pie -Wl,-Ttext=0x1000 -o moved -
printf 'psb\npsbend\nmode.exec cs.l\ntip.pge 3: 0000000007001000\ntnt.8 !!.\ntip.pgd 0: ????????????????\n' | "$COFI" asm >elsewhere
same --raw=elsewhere --image=moved@0x7000000
"$COFI" flow --no-events --limit=1 i.data
# Its processor and registers; RTIT.
same --raw=trace --image=program --cpu=6/94/3 --msr=570=2509,580=401000,581=401003
"$COFI" stat i.data | sed -n 1p
printf '.globl _start\n_start: mov $99, %%ecx\nagain: loop again\nxor %%edi, %%edi\nmov $60, %%eax\nsyscall\n' | gcc -xassembler -nostdlib -static -o counts -
"$COFI" record -q --host=step --unit=rtit -- ./counts
"$COFI" dump | "$COFI" asm >rtit
same --gen=rtit --raw=rtit --image=counts | sed 's/[0-9][0-9]* bytes of trace/N bytes of trace/'
# Code of 32 bits, of which a packet tells the mode, or nothing does.
perl -e 'binmode STDOUT; print "\x40\x49\x75\xfc\xcd\x80"' >code32 # inc eax; dec ecx; jnz
stream() { printf "psb\ntsc 2000\npsbend\n$1tip.pge 3: 0000000000001000\ntnt.8 !!.\ntip.pgd 0: ????????????????\n" | "$COFI" asm >trace32; }
stream 'mode.exec cs.d\n'
same --raw=trace32 --image=code32@0x1000
stream ''
"$COFI" import -o i.data --raw=trace32 --image=code32@0x1000 --mode=32 2>&1
# What the packets say of what was enabled; a mark behind the stream, as libxdc has it, is not part of it; RTIT's last outcomes were in a register.
printf 'psb\ntsc 2000\npsbend\nmode.exec cs.l, if\ntip.pge 3: 0000000000401000\ncyc 3\nptw 0: 90abcdef\ncfe 3\ntnt.8 !!.\ntip.pgd 0: ????????????????\n' | "$COFI" asm >shows
printf U >>shows
same --raw=shows --image=program
"$COFI" stat i.data | sed -n 1p
same --gen=rtit --raw=rtit --image=counts --msr=768=2f09,77d=2 | sed 's/[0-9][0-9]* bytes of trace/N bytes of trace/'
"$COFI" stat i.data | sed -n 1p
"$COFI" dump i.data | tail -n 1 | sed 's/^[^ ]*//'
# Nothing, or not all of it.
printf x >short
"$COFI" import -o none.data --raw=short --image=program; echo "status $?"
"$COFI" import -o none.data --raw=gone --image=program; echo "status $?"
"$COFI" import -o trace --raw=trace --image=program; echo "status $?"
"$COFI" import -o none.data --raw=trace trace.json; echo "status $?"
"$COFI" import -o none.data --image=program; echo "status $?"
ls none.data 2>&1
"$COFI" import -o i.data --raw=trace 2>&1; "$COFI" check i.data | tail -n 1
