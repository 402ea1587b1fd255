# The file, also where its name is a part of what is wrong with it.
: >e
"$COFI" flow e 2>&1
echo "no recording at all" >data
"$COFI" flow data 2>&1
