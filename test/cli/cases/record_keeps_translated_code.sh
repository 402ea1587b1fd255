# What programs translate is kept for later recordings: where COFI_CACHE says, unless it is not wanted. A file that is damaged is as none.
export COFI_CACHE=$PWD/kept
files() { ls kept 2>/dev/null | grep -c '^[0-9a-f]\{16\}-[0-9a-f]\{16\}\.cofi-code$'; }
show() { "$COFI" record -q -- sh -c 'echo "$1"; exit 3' sh "$1"; echo "$?, $("$COFI" check | grep -c '(sh): .* 0 gaps'), $(files) files"; }
"$COFI" record -q --no-cache -- true; echo "$?, $(files) files"
"$COFI" check -- --no-cache true | grep -c ' 0 gaps'; echo "$(files) files"
for i in 1 2 3 4; do show $i; done
stat -c '%a %F' kept; stat -c '%a %F' kept/*
head -c 5000 kept/* >cut; cat cut >"$(echo kept/*)"; show cut
chmod 777 kept; show "a folder of all"
COFI_CACHE= "$COFI" record -q -- sh -c 'exit 4'; echo "$?"
COFI_CACHE=$PWD/no/such/folder "$COFI" record -q -- sh -c 'exit 5'; echo "$?, $(ls)"
