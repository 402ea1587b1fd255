/* SPDX-License-Identifier: MIT
 * Restartable sequences of the program's own: counters of processors, which threads and a signal handler count up. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "guests.h"

enum { THREADS = 4, ROUNDS = 1000, PROCESSORS = 1024 };
static long counters[PROCESSORS][8];
static volatile int ticks, threads_done, over;

/* One more for the processor that this runs on. False: it was aborted. */
static int __attribute__((noinline)) count_up(struct rseq *rs)
{
    int committed;
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
                     "7:\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
                     "lea 7b(%%rip), %%rax\n\t"
                     "movq %%rax, %[cs]\n"
                     "1:\n\tmov %[cpu], %%eax\n\tshl $6, %%rax\n\tadd %[counters], %%rax\n\tmov (%%rax), %%rcx\n\t"
                     "mov $5, %[done]\n5:\tpause\n\tpause\n\tdec %[done]\n\tjnz 5b\n\t"
                     "inc %%rcx\n\tmov %%rcx, (%%rax)\n"
                     "2:\n\tmov $1, %[done]\n\tjmp 6f\n\t"
                     ".pushsection .text.abort, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
                     "4:\n\txor %[done], %[done]\n\tjmp 6f\n\t.popsection\n"
                     "6:\n"
                     : [cs] "+m"(rs->rseq_cs), [done] "=&r"(committed)
                     : [cpu] "m"(rs->cpu_id), [counters] "r"(counters)
                     : "rax", "rcx", "memory", "cc");
    return committed;
}

static struct rseq *area(void)
{
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static void one_more(void)
{
    while (!count_up(area()))
        ;
}

/* So long behind the last one, however long that takes: an instruction in place takes 20 microseconds on some machines. */
static void next_tick(void)
{
    struct itimerval soon = {{0, 0}, {0, over ? 0 : 500}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_tick(int signo)
{
    one_more();
    __atomic_add_fetch(&ticks, signo == SIGALRM, __ATOMIC_SEQ_CST);
    next_tick();
}

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        one_more();
    __atomic_add_fetch(&threads_done, 1, __ATOMIC_SEQ_CST);
    return unused;
}

int guest_sections(void)
{
    pthread_t threads[THREADS];
    struct itimerval never = {{0, 0}, {0, 0}};
    long sum = 0;
    if (!__rseq_size) { /* code like any other */
        static struct rseq mine;
        puts(count_up(&mine) ? "0" : "aborted");
        return 0;
    }
    struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &a, NULL);
    next_tick();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, NULL);
    while (threads_done < THREADS || ticks < 50)
        one_more(), sum--;
    over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < PROCESSORS; i++)
        sum += counters[i][0];
    printf("%ld\n", sum - ticks);
    return 0;
}

/* Look twice at the processor that this runs on: 1; 0: it was aborted; 2: another one the second time, which no section sees. */
static int __attribute__((noinline)) look_twice(struct rseq *rs)
{
    int seen;
    __asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
                     "7:\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
                     "lea 7b(%%rip), %%rax\n\t"
                     "movq %%rax, %[cs]\n"
                     "1:\n\tmov %[cpu], %%eax\n\tmov $10, %[seen]\n5:\tpause\n\tdec %[seen]\n\tjnz 5b\n\t"
                     "cmp %[cpu], %%eax\n\tjne 8f\n\tmov $1, %[seen]\n"
                     "2:\n\tjmp 6f\n8:\n\tmov $2, %[seen]\n\tjmp 6f\n\t"
                     ".pushsection .text.abort, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
                     "4:\n\txor %[seen], %[seen]\n\tjmp 6f\n\t.popsection\n"
                     "6:\n"
                     : [cs] "+m"(rs->rseq_cs), [seen] "=&r"(seen)
                     : [cpu] "m"(rs->cpu_id)
                     : "rax", "memory", "cc");
    return seen;
}

static pid_t moved;

/* Move the first thread to and fro. */
static void *mover(void *unused)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; !over; cpu = (cpu + 1) % CPU_SETSIZE) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(moved, sizeof one, &one);
    }
    return unused;
}

int guest_sections_moved(void)
{
    pthread_t thread;
    static struct rseq mine;
    long seen[3] = {0};
    moved = (pid_t)syscall(SYS_gettid);
    pthread_create(&thread, NULL, mover, NULL);
    while (seen[1] < ROUNDS)
        seen[look_twice(__rseq_size ? area() : &mine)]++;
    over = 1;
    pthread_join(thread, NULL);
    printf("%ld %ld\n", seen[1], seen[2]);
    return 0;
}
