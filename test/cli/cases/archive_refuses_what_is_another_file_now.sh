. "$CASES/program.inc"
make_program here
"$COFI" record -q -- here/program
archive() {
    "$COFI" archive >out 2>&1
    echo "status $?"
    sed "s|$PWD|HERE|g; s/[0-9.]* MB/N MB/" out
}
mv here/program kept
archive                        # gone
make_program here 5
archive                        # another build id
printf '#!/bin/sh\n' >here/program
archive                        # no program
ls cofi.data.files 2>&1        # nothing was made for nothing
mv kept here/program
copy=cofi.data.files$PWD/here/program
mkdir -p "${copy%/*}"
echo mine >"$copy"
archive                        # what is there stays
cat "$copy"
cp here/program "$copy"
printf x | dd of="$copy" bs=1 seek=9000 conv=notrunc status=none
archive                        # also of the same size
rm "$copy"
ln -s "$PWD/elsewhere" "$copy"
archive                        # and no link is followed
rm -r "${copy%/*}"
mkdir elsewhere
ln -s "$PWD/elsewhere" "${copy%/*}"
archive
ls elsewhere
