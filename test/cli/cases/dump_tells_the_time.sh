# Of a stepped run, whose clock is one cycle an instruction: as the flow has it. Its branches are those of 27's 111 steps to 1.
printf '.globl _start\n_start: mov $27, %%eax\nagain: test $1, %%al\njz even\nlea 1(%%rax, %%rax, 2), %%eax\njmp on\neven: shr %%eax\non: cmp $1, %%eax\njnz again
xor %%edi, %%edi\nmov $60, %%eax\nsyscall\n' | gcc -xassembler -nostdlib -static -o steps -
"$COFI" record -q --host=step --limit=400 --also=rtit:rtit.data:cycle_acc=1,mtc_en=1 --config=cyc_en=1,mtc_en=1,mtc_freq=3 -o pt.data -- ./steps
for file in pt rtit; do
    echo "-- $file"
    "$COFI" dump --no-pad --no-offset --time $file.data | grep -iv 'pge\|#' | sed -n '1,17p'
    echo "-- $file, from one to the next"
    "$COFI" dump --no-pad --no-offset --time-delta $file.data | grep '  time' | sed -n '6,14p'
    "$COFI" dump --time $file.data | "$COFI" asm >with; "$COFI" dump $file.data | "$COFI" asm | cmp - with
    "$COFI" dump --time --json $file.data | sed -n 's/.*"offset":\([0-9]*\),.*,\("ticks.*\)}/\1 \2/p' >packets
    "$COFI" flow --json --time $file.data | sed -n 's/.*"event":"[^p][a-z]*","offset":\([0-9]*\),.*,\("ticks.*\)}/\1 \2/p' | sort -u >events
    echo "$(wc -l <events) times of the flow, $(grep -cxFf packets events) of them the packets'"
done
# A raw stream tells ticks, without a conversion; where nothing tells the time there is none.
. "$CASES/raw.inc"
printf 'tsc 1234\ntnt.8 !\ntsc 1250\n' | "$COFI" asm | cat trace.pt - >timed.pt
"$COFI" dump --time --raw timed.pt
"$COFI" dump --time-delta timed.pt | tail -n 1
printf 'psb\ntnt.8 !\npsbend\n' | "$COFI" asm | "$COFI" dump --time -
