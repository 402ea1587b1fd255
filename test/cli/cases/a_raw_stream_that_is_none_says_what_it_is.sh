# Compressed, a perf.data, of the other generation, without code, or the wrong one of a page dump's two files: said before all the gaps that come of it.
. "$CASES/raw.inc"
tell() { "$COFI" check "$@" --image=code.bin@0x401000 2>&1 >/dev/null | head -1; }
printf '\037\213\010 and so on' >a.gz && tell --raw=a.gz
printf '\050\265\057\375 and so on' >a.zst && tell --raw=a.zst
{ printf 'PERFILE2 and so on'; cat trace.pt; } >a.data && tell --raw=a.data
printf '\177ELF and so on' >a.elf && tell --raw=a.elf
tell --raw=trace.pt --gen=rtit
printf '\300\0\0\0\0\0\0\0\0\0' >a.rtit && tell --raw=a.rtit
"$COFI" check --raw=trace.pt 2>&1 >/dev/null | head -1
# dump, which says it of what it was not told that it is raw, too.
{ cat a.elf; cat trace.pt; } >b.elf
head -c 300 /dev/zero >zeros
for file in a.gz b.elf zeros; do "$COFI" dump $file 2>&1 >/dev/null | head -1; done
"$COFI" dump --raw a.data 2>&1 >/dev/null | head -1
: >code.dump && "$COFI" check --raw=trace.pt --image=code.dump
