. "$CASES/raw.inc"
"$COFI" flow --raw=trace.pt --image=code.bin@0x401000 --format=ip | sed 's/^/0 /' >truth
"$COFI" check --raw=trace.pt --image=code.bin@0x401000 --truth=truth || echo "status $?"
sed '7s/.*/0 0000000000401234/' truth >other
"$COFI" check --raw=trace.pt --image=code.bin@0x401000 --truth=other || echo "status $?"
sed '$d' truth >short
"$COFI" check --raw=trace.pt --image=code.bin@0x401000 --truth=short || echo "status $?"
(cat truth; echo '0 0000000000401023') >long
"$COFI" check --raw=trace.pt --image=code.bin@0x401000 --truth=long || echo "status $?"
echo 'what is this' >truth
"$COFI" check --raw=trace.pt --image=code.bin@0x401000 --truth=truth || echo "status $?"
