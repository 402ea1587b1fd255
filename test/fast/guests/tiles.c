/* SPDX-License-Identifier: MIT
 * AMX: tiles in signals, calls, threads and children, and alternate stacks, which must have room for them. Where the processor or the kernel has
 * none, little of it runs. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

enum { GET_PERM = 0x1022, REQ_PERM = 0x1023, TILE_DATA = 18, TILES = 3 << 17, ROW = 64, TILE = 16 * ROW };

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_a_row[16];
    uint8_t rows[16];
};

static volatile sig_atomic_t came;

static void configure(void)
{
    struct tile_config c = {.palette = 1, .bytes_a_row = {ROW, ROW, ROW, ROW}, .rows = {16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
}

static void fill(uint8_t *tile, int seed)
{
    for (int i = 0; i < TILE; i++)
        tile[i] = (uint8_t)(i * 7 + seed * 31 + (i >> 5));
}

#define LOAD(n, from) __asm__ volatile("tileloadd (%0,%1), %%tmm" #n : : "r"(from), "r"((long)ROW) : "memory")
#define STORE(n, to) __asm__ volatile("tilestored %%tmm" #n ", (%0,%1)" : : "r"(to), "r"((long)ROW) : "memory")

static void load(int seed)
{
    uint8_t tile[2][TILE];
    fill(tile[0], seed);
    fill(tile[1], seed + 1);
    LOAD(0, tile[0]);
    LOAD(3, tile[1]);
}

static bool holds(int seed)
{
    uint8_t tile[2][TILE], want[2][TILE];
    fill(want[0], seed);
    fill(want[1], seed + 1);
    STORE(0, tile[0]);
    STORE(3, tile[1]);
    return !memcmp(tile, want, sizeof tile);
}

/* Which of the tiles' states a frame has. */
static void overwrite(int signo, siginfo_t *info, void *context)
{
    const char *fpu = (const char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    uint64_t has, may;
    (void)info;
    memcpy(&may, fpu + 464 + 8, sizeof may);
    memcpy(&has, fpu + 512, sizeof has);
    came++;
    if (signo == SIGUSR1)
        printf("frame: may have %lx, has %lx\n", (long)may & TILES, (long)has & TILES);
    configure();
    load(99);
    if (!holds(99))
        puts("a handler's tiles are lost");
}

static void stack_of(size_t bytes)
{
    stack_t s = {.ss_sp = malloc(bytes), .ss_size = bytes};
    errno = 0;
    int r = sigaltstack(&s, NULL);
    printf("stack of %zu: %d %d\n", bytes, r, errno);
}

static long ask(void)
{
    errno = 0;
    long r = syscall(SYS_arch_prctl, REQ_PERM, TILE_DATA);
    printf("asked: %ld %d\n", r, errno);
    return r;
}

static pthread_barrier_t both;

static void *with_small_stack(void *unused)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_of(4096);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    sigaltstack(&none, NULL); /* the kernel may know the thread for a while after it was joined */
    return unused;
}

/* Refused while any thread's alternate stack is too small. */
static void ask_beside_small_stack(void)
{
    pthread_t t;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&t, NULL, with_small_stack, NULL);
    pthread_barrier_wait(&both);
    ask();
    pthread_barrier_wait(&both);
    pthread_join(t, NULL);
    ask();
    fflush(stdout);
    _exit(0);
}

static void *keep_tiles(void *seed)
{
    long bad = 0;
    configure();
    load((int)(long)seed);
    for (int i = 0; i < 100; i++) {
        sched_yield();
        bad += !holds((int)(long)seed);
    }
    return (void *)bad;
}

static void keep_in_threads(void)
{
    pthread_t t[3];
    void *bad;
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, keep_tiles, (void *)(i * 10));
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &bad);
        printf("thread %d: %ld lost\n", i, (long)bad);
    }
}

static void keep_in_signals(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    long bad = 0;
    raise(SIGUSR1);
    printf("behind a signal %d\n", holds(1));
    setitimer(ITIMER_REAL, &often, NULL);
    for (came = 0; came < 20;)
        bad += !holds(1);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("in signals: %ld lost\n", bad);
}

static void keep_in_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        uint64_t may = 0;
        syscall(SYS_arch_prctl, GET_PERM, &may);
        printf("child: may have %lx\n", (long)may & TILES);
        configure();
        load(5);
        raise(SIGUSR1);
        printf("child %d\n", holds(5));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("parent %d\n", holds(1));
}

static void in_use(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    printf("in use: %x\n", low & TILES);
}

static void multiply(void)
{
    uint8_t product[TILE];
    unsigned sum = 0;
    __asm__ volatile("tilezero %%tmm1\n tdpbssd %%tmm3, %%tmm0, %%tmm1" : : :);
    STORE(1, product);
    for (int i = 0; i < TILE; i++)
        sum = sum * 31 + product[i];
    printf("product %x\n", sum);
}

static void in_child(void (*what)(void))
{
    fflush(stdout);
    if (!fork())
        what();
    wait(NULL);
}

int guest_tiles(void)
{
    struct sigaction a = {.sa_sigaction = overwrite, .sa_flags = SA_SIGINFO};
    in_child(ask_beside_small_stack);
    if (ask())
        return 0;
    stack_of(2048);
    stack_of(8192);
    stack_of(1 << 16);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGALRM, &a, NULL);
    configure();
    load(1);
    multiply();
    keep_in_signals();
    keep_in_threads();
    keep_in_child();
    a.sa_flags |= SA_ONSTACK;
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    printf("behind one on a stack of its own %d\n", holds(1));
    in_use();
    __asm__ volatile("tilerelease");
    in_use();
    return 0;
}
