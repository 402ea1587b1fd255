for options in --model=skylake --registers --unit=rtit; do
    "$COFI" caps --list $options; echo "$options: $?"
done
"$COFI" caps --unit=rtit --model=skylake; echo "$?"
