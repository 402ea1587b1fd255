/* SPDX-License-Identifier: MIT
 * A restartable sequence of its own: runs to its commit, and is aborted by a signal handler. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/time.h>
#include <unistd.h>

static volatile long counter, aborts, ticks;
static void on_alarm(int s) { ticks += s == SIGALRM; }

static struct rseq *area(void)
{
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* counter++ as a restartable sequence, a loop inside. Returns 0 if it was aborted. */
static int __attribute__((noinline)) bump(struct rseq *rs, long rounds)
{
    int committed;
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
                     "7:\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
                     "lea 7b(%%rip), %%rax\n\t"
                     "movq %%rax, %[cs]\n"
                     "1:\n\tmov %[counter], %%rax\n\tadd $1, %%rax\n"
                     "5:\tdec %[rounds]\n\tjnz 5b\n\t"
                     "mov %%rax, %[counter]\n"
                     "2:\n\tmov $1, %[done]\n\tjmp 6f\n\t"
                     ".pushsection .text.abort, \"ax\"\n\t.long 0x53053053\n"
                     "4:\n\txor %[done], %[done]\n\tjmp 6f\n\t.popsection\n"
                     "6:\n"
                     : [cs] "+m"(rs->rseq_cs), [counter] "+m"(counter), [done] "=&r"(committed),
                       [rounds] "+r"(rounds)
                     :
                     : "rax", "memory", "cc");
    return committed;
}

int main(void)
{
    struct rseq *rs = area();
    if (!__rseq_size)
        return 77;
    for (int i = 0; i < 20; i++)
        while (!bump(rs, 3))
            aborts++;
    printf("%ld\n", counter);
    signal(SIGALRM, on_alarm);
    struct itimerval t = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &t, NULL);
    /* Long enough that a tick falls into it at any speed. */
    for (long rounds = 1000; !aborts; rounds *= 2)
        if (!bump(rs, rounds))
            aborts++;
    printf("%d\n", aborts > 0);
    return 0;
}
