# What comes by a pipe, or is compressed, is copied into an unnamed file: the message says where that has no room.
. "$CASES/mounts.inc"
"$PERCPU" p.data >/dev/null
head -c 100000 /dev/zero >>p.data
zstd -q p.data
mkdir full
unshare -rm sh -c 'mount -t tmpfs -o size=16k none full && export TMPDIR=$PWD/full &&
    { cat p.data | "$COFI" stat -i -; echo "status $?"; "$COFI" stat p.data.zst; echo "status $?"; } 2>&1' | sed "s|$PWD|.|"
