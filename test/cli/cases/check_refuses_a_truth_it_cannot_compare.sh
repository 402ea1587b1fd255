# A folder is no empty list, and a part of the trace is not what a whole list tells of.
printf 'psb\n' | "$COFI" asm >t.bin
echo '1 1000' >truth
for options in --truth=. '--truth=truth --from=@1' '--truth=truth --to=@9'; do
    "$COFI" check --raw t.bin $options 2>&1
    echo $?
done
