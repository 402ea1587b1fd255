"$COFI" --version
