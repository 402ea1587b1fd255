# A thread's name is the one that it gave itself, though it has ended before cofi could have asked for it.
cat >main.c <<'END'
#include <sys/prctl.h>
int main(void) { return prctl(PR_SET_NAME, "by this name"); }
END
cc -static -o main main.c
for host in fast step; do
    "$COFI" record -q --host=$host -- ./main
    "$COFI" stat | sed -n 's/^thread [0-9]* \((.*)\): .*/\1/p'
    "$COFI" calls --comm='by this*' --depth=1 | sed -n 's/^== thread [0-9]* //p'
done
