/* SPDX-License-Identifier: MIT
 * As many threads at once as it can have, of THREADS; while it has so many mappings that no more than about MAPPINGS are left to it. Prints how
 * many ran, and why not all. usage: crowd THREADS [MAPPINGS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int ran, rounds = 10000;

static void *wait_for_all(void *arg)
{
    for (volatile int i = 0; i < rounds; i++)
        ;
    pthread_mutex_lock(&gate);
    ran++;
    pthread_mutex_unlock(&gate);
    return arg;
}

/* Pages of different rights in turn are a mapping each. */
static void use_up_mappings(size_t left)
{
    size_t n = 200000, used = 0;
    char *pages = mmap(NULL, n * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    while (used < n && !mprotect(pages + used * 4096, 4096, PROT_READ))
        used += 2;
    for (size_t i = 0; i < left && used > 2; i += 2, used -= 2)
        mprotect(pages + (used - 2) * 4096, 4096, PROT_NONE);
}

int main(int argc, char **argv)
{
    size_t wanted = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, made = 0;
    pthread_t *threads = calloc(wanted, sizeof *threads);
    pthread_attr_t small;
    int error = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_mutex_lock(&gate);
    rounds = argc > 2 ? 1000000 : rounds; /* few threads: more than a small flight recorder's log holds */
    if (argc > 2)
        use_up_mappings(strtoul(argv[2], NULL, 0));
    while (made < wanted && !(error = pthread_create(&threads[made], &small, wait_for_all, NULL)))
        made++;
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    printf("%d%s%s\n", ran, error ? ": " : "", error ? strerror(error) : "");
    return (size_t)ran != made;
}
