"$COFI" flow --limit
