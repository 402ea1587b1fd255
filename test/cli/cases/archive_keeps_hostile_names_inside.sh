# A recording may name anything. What is no program is not opened, and nothing is put outside of the folder.
. "$CASES/program.inc"
make_program one/abcdef
make_program two
cp one/abcdef/program two/program
"$COFI" record -q -- one/abcdef/program
path=$PWD/one/abcdef/program
name() { # PATH, as long as the program's
    LC_ALL=C sed "s|$path|$1|g" cofi.data >x.data
    timeout 20 "$COFI" archive -o files x.data >out 2>&1
    echo "status $?"
    sed "s|$PWD|HERE|g; s|//*|/|g; s/[0-9.]* MB/N MB/" out
    rm -rf files
}
name "$PWD/one/../two/program"
name "$PWD/one/abcdef/.//gram" # not there
mkdir 'one/abc
ef'
cp two/program 'one/abc
ef'
name "$PWD/one/abc\\nef/program"
name "$PWD/one/abc\\nef/progra\\x1b"
mkfifo one/abcdef/pipe567
name "$PWD/one/abcdef/pipe567"
ln -s /dev/zero one/abcdef/zero567
name "$PWD/one/abcdef/zero567"
slashes=$(printf %s "$path" | cut -c16- | tr -c '\n' /)
head -c 99 /dev/zero | name "/proc/self/fd$slashes/0"
name "/proc/self/fd$slashes/0" <two/program
cp two/program one/abcdef/large67
truncate -s 1G one/abcdef/large67
LC_ALL=C sed "s|$path|$PWD/one/abcdef/large67|g" cofi.data >x.data
"$COFI" archive -o files x.data 2>&1
stat -c %s files$PWD/one/abcdef/large67
[ "$(du -k files | tail -1 | cut -f1)" -lt 1000 ] && echo small
# Where it has a hole, the copy has nothing else.
printf x | dd of=files$PWD/one/abcdef/large67 bs=1 seek=500000000 conv=notrunc status=none
"$COFI" archive -o files x.data 2>&1 | sed "s|$PWD|HERE|g"
