# -o FILE of cofi asm, as of the other commands: '-' is standard output, what is read stays, what is no text makes no file and empties none.
printf 'tip 3: 401000\n' >text
"$COFI" asm text >bytes
"$COFI" asm -o - text | cmp - bytes && "$COFI" asm -o file <text && cmp file bytes
ln text link
for out in text link '' nowhere/file .; do
    "$COFI" asm -o "$out" text
    echo "status $?"
done
cat text
echo nonsense | "$COFI" asm -o file || cmp file bytes
echo nonsense | "$COFI" asm -o new || ls -x
"$COFI" asm -o /dev/full text
echo "status $?"
