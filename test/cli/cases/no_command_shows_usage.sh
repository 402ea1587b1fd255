"$COFI" >/dev/null 2>usage
status=$?
head -1 usage >&2
exit $status
