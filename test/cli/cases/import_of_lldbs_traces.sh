# What LLDB saves (trace save): a description in JSON, traces of threads or of processors as bytes, copies of the modules.
. "$CASES/program.inc"
make_program b/modules
"$COFI" record -q --host=step -- b/modules/program
"$COFI" dump | "$COFI" asm >b/1.trace
id=$(readelf -n b/modules/program | sed -n 's/.*Build ID: //p')
uuid=$(echo "$id" | tr a-f A-F | sed 's/\(.\{8\}\)\(.\{4\}\)\(.\{4\}\)\(.\{4\}\)\(.\{12\}\)/\1-\2-\3-\4-\5-/')
describe() { # MEMBER… of the module
    cat <<EOT
{"type": "intel-pt", "cpuInfo": {"vendor": "GenuineIntel", "family": 6, "model": 79, "stepping": 1},
 "processes": [{"pid": 7, "triple": "x86_64-*-linux", "threads": [{"tid": 8, "iptTrace": "1.trace"}],
   "modules": [{"systemPath": "/not/here", $1}]}],
 "tscPerfZeroConversion": {"timeMult": 1076264588, "timeShift": 31, "timeZero": 18433473881008870804}}
EOT
}
same() { "$COFI" flow --format=ip "$1" | cmp - ips && echo same; }
"$COFI" flow --format=ip >ips
describe "\"file\": \"modules/program\", \"loadAddress\": 4194304, \"uuid\": \"$uuid\"" >b/trace.json
"$COFI" import -o i.data b 2>&1
same i.data
"$COFI" check i.data
"$COFI" flow --limit=1 --time i.data | grep -o '_start .*'
cd b && "$COFI" import trace.json && same() { "$COFI" flow --format=ip | cmp - ../ips && echo same; } && same; cd .. # relative to the description
mv b/cofi.data c.data
# Another build's UUID; a checksum as such; an address as text; no copy.
describe "\"file\": \"modules/program\", \"loadAddress\": \"0x400000\", \"uuid\": \"00000000$(echo "$uuid" | cut -c9-)\"" >b/other.json
"$COFI" import -o other.data b/other.json 2>&1
"$COFI" check other.data | sed 's/, [0-9]* bytes.*//; s/other.data+0x[0-9a-f]*/other.data+AT/'
describe "\"file\": \"modules/program\", \"loadAddress\": \"0x400000\", \"uuid\": \"5B41261A\"" >b/sum.json
"$COFI" import -o sum.data b/sum.json 2>/dev/null && "$COFI" flow --format=ip sum.data | cmp - ips && echo same
describe '"loadAddress": "4194304"' >b/none.json
"$COFI" import -o none.data b/none.json 2>&1
echo "status $?"
# What is read is not written.
for file in b/none.json b/1.trace; do "$COFI" import -o $file b/none.json 2>&1; echo "status $?"; done
# LLDB 12's description.
cat >b/old.json <<EOT
{"trace": {"type": "intel-pt", "cpuInfo": {"vendor": "intel", "family": 6, "model": 79, "stepping": 1}},
 "processes": [{"pid": 7, "threads": [{"tid": 8, "traceFile": "1.trace"}], "modules": [{"file": "modules/program", "systemPath": "x", "loadAddress": "0x400000"}]}]}
EOT
"$COFI" import -o old.data b/old.json 2>/dev/null && "$COFI" flow --format=ip old.data | cmp - ips && echo same

# A real program with libraries, moved; its modules are those of its own maps that are ELF files. So the kernel's vDSO, which Debian 13's libc calls, is none.
"$COFI" record -q -- cat /proc/self/maps >maps
"$COFI" dump | "$COFI" asm >maps.trace
awk '$3 == "00000000" && $6 ~ "^/usr" { print $1, $6 }' maps | while read -r range file; do
    [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] && echo "{\"systemPath\": \"$file\", \"loadAddress\": \"0x${range%%-*}\"},"
done | sed '$s/,$//' >modules
echo "{\"type\": \"intel-pt\", \"cpuInfo\": {\"vendor\": \"unknown\", \"family\": 0, \"model\": 0, \"stepping\": 0},
  \"processes\": [{\"pid\": 9, \"threads\": [{\"tid\": 9, \"iptTrace\": \"$PWD/maps.trace\"}], \"modules\": [$(cat modules)]}]}" >maps.json
"$COFI" flow --format=ip | awk -v at="0000$(grep vdso maps)" '$0 < substr(at, 1, 16) || $0 >= "0000" substr(at, 18, 12)' >ips
"$COFI" import -o maps.data maps.json 2>&1 | sed 's/[0-9][0-9]* bytes/N bytes/'
"$COFI" flow --format=ip maps.data 2>/dev/null | cmp - ips && echo same
