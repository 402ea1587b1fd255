# The fast host tells it piece by piece, and it has its names all the same.
cat >main.c <<'TEXT'
#include <time.h>
int main(void) { return time(NULL) == 0; }
TEXT
gcc -O1 -static -o program main.c
# What runs before main goes by where the stack lies.
fixed='setarch -R'
$fixed true 2>/dev/null || fixed=
$fixed "$COFI" record -q --host=step -o step.data -- ./program
$fixed "$COFI" record -q -o fast.data -- ./program
"$COFI" diff step.data fast.data | sed 's/([0-9]*/(N/'
for host in step fast; do "$COFI" flow --no-events $host.data | grep -cE '  (__vdso_)?time\+0x' | sed 's/^[1-9][0-9]*$/many/'; done
