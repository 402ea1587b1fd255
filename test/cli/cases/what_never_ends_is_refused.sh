# A recording is told by its first bytes; raw bytes that do not fit into memory are not read from a device.
for file in /dev/zero -; do
    yes | timeout 30 "$COFI" check $file
    echo "status $?"
done
timeout 30 "$COFI" dump --raw /dev/zero
echo "status $?"
for command in flow calls stat check "stat --gen=rtit"; do
    timeout 30 "$COFI" $command --raw=/dev/zero --image=/dev/null@0
    echo "$command: status $?"
done
timeout 30 "$COFI" check --raw=- </dev/zero
echo "status $?"
