# A thread's name is the one that it gave itself, though it has ended before cofi could have asked for it.
for host in fast step; do
    "$COFI" record -q --host=$host -- perl -e '$0 = "by this name"; exit'
    "$COFI" stat | sed -n 's/^thread [0-9]* \((.*)\): .*/\1/p'
    "$COFI" calls --comm='by this*' --depth=1 | sed -n 's/^== thread [0-9]* //p'
done
