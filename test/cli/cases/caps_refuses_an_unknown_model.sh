$COFI caps --model=i486
