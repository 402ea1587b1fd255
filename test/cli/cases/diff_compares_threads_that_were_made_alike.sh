# By who made them and what they were called, in their order: numbers and times are others in each run.
cat >busy.c <<'TEXT'
#include <pthread.h>
#include <stdlib.h>
static int rounds;
static void *nothing(void *p) { return p; }
int main(int argc, char **argv)
{
    rounds = atoi(argv[1]);
    for (int i = 0; i < rounds; i++) {
        pthread_t t;
        pthread_create(&t, NULL, nothing, NULL);
        pthread_join(t, NULL);
    }
    return argc - argc;
}
TEXT
gcc -g -O1 -pthread -o busy busy.c
for n in 2 3; do "$COFI" record -q -o $n.data -- ./busy $n; done
"$COFI" diff --json --function=nothing 2.data 3.data | sed 's/"tids":\[[0-9]*,[0-9]*\]/"tids":[N,M]/; s/"tids":\[-1,[0-9]*\]/"tids":[-1,M]/'
echo "-- some of them"
tid() { "$COFI" stat --no-flow --json $1.data | sed -n "$2s/.*\"tid\":\([0-9]*\).*/\1/p"; }
"$COFI" diff --function=nothing --tid=$(tid 2 2),$(tid 3 4) 2.data 3.data
"$COFI" diff --function=nothing --tid=$(tid 2 2) 2.data 2.data
"$COFI" diff --tid=1 2.data 3.data
