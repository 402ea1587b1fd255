# LLDB's traces of processors: who ran tell perf's records of switches. Two threads take turns on two processors.
"$PERCPU" p.data >/dev/null
for cpu in 0 1; do
    "$COFI" dump p.data | awk -v cpu=$cpu '/^#/ { on = $NF == cpu; next } on' | "$COFI" asm >$cpu.trace
done
perl -e 'print ".globl _start\n_start: .byte ", join(",", map { "0x$_" } qw(b9 02 00 00 00 e8 0e 00 00 00 ff c9 75 f7 48 8d 05 05 00 00 00 ff e0 90 90 c3 b8 3c 00 00 00 31 ff 0f 05)), "\n"' |
    gcc -xassembler -nostdlib -static -Wl,-Ttext=0x401000 -o program -
# CPU TIME OUT TID: of the process 10. Between them a record of another kind.
switches() {
    perl -e 'binmode STDOUT; while (@ARGV) { my ($time, $out, $tid) = splice(@ARGV, 0, 3);
        print pack("LSS LLLL Q", 15, $out ? 1 << 13 : 0, 32, 0, 0, 10, $tid, $time), pack("LSS Q", 5, 0, 16, 1) }' "$@"
}
switches 8176 0 11 10240 1 11 12272 0 12 14336 1 12 >0.switches
switches 20464 0 12 22528 1 12 24560 0 11 26624 1 11 >1.switches
cat >trace.json <<EOT
{"type": "intel-pt", "cpuInfo": {"vendor": "GenuineIntel", "family": 6, "model": 78, "stepping": 3},
 "processes": [{"pid": 10, "threads": [{"tid": 11}, {"tid": 12}], "modules": [{"file": "program", "systemPath": "/tmp/x", "loadAddress": 4194304}]}],
 "cpus": [{"id": 0, "iptTrace": "0.trace", "contextSwitchTrace": "0.switches"}, {"id": 1, "iptTrace": "1.trace", "contextSwitchTrace": "1.switches"}],
 "tscPerfZeroConversion": {"timeMult": 1024, "timeShift": 10, "timeZero": "0x0"}}
EOT
"$COFI" import trace.json 2>&1
"$COFI" check
for tid in 11 12; do
    "$COFI" flow --format=ip --tid=$tid >i.ip
    "$COFI" flow --format=ip --tid=$tid p.data | cmp - i.ip && wc -l <i.ip
done
if command -v perf >/dev/null; then
    for file in p.data cofi.data; do perf script --itrace=i0ns -F tid,cpu,ip -i $file >$file.perf 2>&1; done
    cmp p.data.perf cofi.data.perf
    [ "$(wc -l <cofi.data.perf)" = 32 ] || cat cofi.data.perf
fi
"$COFI" flow --by-time --no-events --time | sed -n '1p;$p'
# LLDB 13 called it so.
sed 's/"cpus"/"cores"/; s/"id"/"coreId"/g; s/iptTrace/traceBuffer/g' trace.json >old.json
"$COFI" import -o old.data old.json 2>/dev/null
cmp old.data cofi.data
# The kernel alone: its file is told when it is looked at.
printf '.globl _text, f\n_text: f: dec %%ecx\njnz f\nret\n' | gcc -xassembler -nostdlib -static -Wl,-Ttext=0xffffffff81000000,-e,f -o vmlinux -
printf 'psb\ntsc 2000\npsbend\nmode.exec cs.l\ntip.pge 6: ffffffff81000000\ntnt.8 !!.\ntip.pgd 0: ????????????????\n' | "$COFI" asm >k.trace
cat >kernel.json <<EOT
{"type": "intel-pt", "cpuInfo": {"vendor": "GenuineIntel", "family": 6, "model": 78, "stepping": 3},
 "kernel": {"file": "vmlinux", "loadAddress": "0xffffffff81000000"}, "cpus": [{"id": 3, "iptTrace": "k.trace", "contextSwitchTrace": "0.switches"}],
 "tscPerfZeroConversion": {"timeMult": 1024, "timeShift": 10, "timeZero": "0x0"}}
EOT
"$COFI" import -o kernel.data kernel.json 2>&1
"$COFI" flow --vmlinux=vmlinux --no-events kernel.data
# Damaged: a record of no size, a record that is cut, no PSB; what is whole is there.
head -c 96 0.switches >cut && printf '\0\0\0\0\0\0\0\0' >>cut && cp cut 0.switches
head -c 20 1.switches >cut && cp cut 1.switches
"$COFI" import -o damaged.data trace.json 2>&1
echo "status $?"
"$COFI" flow --format=ip --tid=11 damaged.data | wc -l
printf x >1.trace
rm 0.switches
"$COFI" import -o damaged.data trace.json 2>&1
echo "status $?"
