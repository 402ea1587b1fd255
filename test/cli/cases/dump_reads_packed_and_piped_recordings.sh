# What the other commands take: a .zst, and a recording by standard input, of which --raw shows the bytes.
"$COFI" record -q --host=step --limit=99 -o x.data.zst -- true
zstd -dq x.data.zst
"$COFI" dump x.data >expected
sed -n '/psb/p' expected
same() { cmp - expected && echo "$1: the same"; }
"$COFI" dump x.data.zst | same packed
"$COFI" dump - <x.data | same "standard input"
cat x.data | "$COFI" dump - | same "a pipe"
cat x.data.zst | "$COFI" dump - | same "a packed pipe"
cat x.data | "$COFI" dump --raw - 2>err | head -1
