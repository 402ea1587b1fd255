/* SPDX-License-Identifier: MIT
 * Signals of faults that are ignored, blocked and pending for each of several threads, while the first one runs code in thousands of pages that it may
 * write. Says for how many threads they are pending once `let` is there. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 8000 };
static pthread_barrier_t ready;
static volatile char let;

static void *keep(void *p)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGBUS);
    pthread_barrier_wait(&ready);
    while (!let)
        usleep(3000);
    sigpending(&set);
    return (void *)(long)sigismember(&set, SIGBUS);
}

int main(void)
{
    pthread_t t[4];
    void *one;
    long n = 0;
    char *code = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < PAGES; i += 2)
        code[i * 4096] = (char)0xc3; /* RET */
    signal(SIGBUS, SIG_IGN);
    pthread_barrier_init(&ready, NULL, 5);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, keep, NULL);
    pthread_barrier_wait(&ready);
    for (fclose(fopen("keeping", "w")); access("let", F_OK); usleep(20000))
        for (long i = 0; i < PAGES; i += 2)
            ((void (*)(void))(code + i * 4096))();
    let = 1;
    for (int i = 0; i < 4; i++, n += (long)one)
        pthread_join(t[i], &one);
    printf("%ld\n", n);
    return 0;
}
