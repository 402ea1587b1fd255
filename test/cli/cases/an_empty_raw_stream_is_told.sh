# Nothing was traced: that is no trace of which all was decoded.
: >empty
"$COFI" check --raw=empty
"$COFI" flow --raw=empty --image=empty@0 || echo "status $?"
