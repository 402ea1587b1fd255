# A page dump without pages, an image that is not there: said, and no more than that.
. "$CASES/raw.inc"
: >none.addr
: >none.dump
"$COFI" check --raw=trace.pt --image=none.addr
for image in nothere@401000 nothere nothere.addr none.dump none.dump@x; do
    "$COFI" check --raw=trace.pt --image=$image; echo "$image: $?"
done
