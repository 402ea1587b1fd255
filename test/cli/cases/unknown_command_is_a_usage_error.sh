"$COFI" frobnicate
