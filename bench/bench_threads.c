/* SPDX-License-Identifier: MIT
 * One long stream decoded by one thread and by several: wall time, processor time of each thread, ratios; and by as many
 * processes at once, each of them all of it: what the machine alone leaves of a speed-up (caches and memory are shared).
 * Before each: how long a cache line takes from one processor to the other. Where a virtual machine's two processors are moved
 * apart meanwhile, what one thread decodes reaches the other later. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "timing.h"

enum { ROUNDS = 5, THREADS_MOST = 64, VISITS = 256, PATIENCE = 1 << 24 /* looks for an answer */ };
#define LINES_TIME 5e-3
#define OVER (~0u)

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- from one processor to another ---- */

/* Odd: the other thread's turn. */
static _Alignas(128) atomic_uint turn;

static void *answer(void *opaque)
{
    (void)opaque;
    for (unsigned seen; (seen = atomic_load(&turn)) != OVER;)
        if (seen & 1)
            atomic_compare_exchange_strong(&turn, &seen, seen + 1);
    return NULL;
}

/* There and back. False: it is not answered, for both are on one processor, say. */
static bool is_answered(void)
{
    unsigned back = atomic_fetch_add(&turn, 1) + 2;
    for (unsigned i = 0; i < PATIENCE; i++)
        if (atomic_load(&turn) == back)
            return true;
    return false;
}

/* Nanoseconds that a cache line takes there; 0: not known. */
static double line_time(void)
{
    pthread_t other;
    double begin, took = 0;
    unsigned n = 0;
    atomic_store(&turn, 0);
    if (pthread_create(&other, NULL, answer, NULL))
        exit(3);
    bool good = is_answered(); /* it runs */
    begin = seconds(CLOCK_MONOTONIC);
    for (; good && took < LINES_TIME; took = seconds(CLOCK_MONOTONIC) - begin)
        for (unsigned i = 0; i < 64 && good; i++)
            n += good = is_answered();
    atomic_store(&turn, OVER);
    pthread_join(other, NULL);
    return good ? took / n / 2 * 1e9 : 0;
}

/* ---- decoding ---- */

/* One decode. The busiest thread's time is what wall time cannot be less than, however many processors there are. */
struct measure {
    double wall, cpu, busiest;
    uint64_t blocks, redone;
};

struct visits {
    uint64_t n, blocks;
    double busiest; /* of the other threads, when last looked at */
};

/* The processor time of the process's other threads, from the kernel. */
static double busiest_other(void)
{
    char path[64], name[384];
    double most = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)getpid());
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        unsigned long long ns = 0;
        snprintf(name, sizeof name, "%s/%s/schedstat", path, entry->d_name);
        int tid = atoi(entry->d_name);
        FILE *f = !tid || tid == (int)syscall(SYS_gettid) ? NULL : fopen(name, "r");
        if (f && fscanf(f, "%llu", &ns) == 1 && (double)ns * 1e-9 > most)
            most = (double)ns * 1e-9;
        if (f)
            fclose(f);
    }
    if (dir)
        closedir(dir);
    return most;
}

static int visit(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    struct visits *v = opaque;
    v->blocks += batch->blocks_n;
    if (v->n++ % VISITS == 0)
        v->busiest = busiest_other();
    return 0;
}

/* Which view. */
static bool counting;

static void count(void *opaque, const struct cofi_flow_block *block, uint64_t times) { *(uint64_t *)opaque += times * block->n; }

/* Coverage: blocks, and edges in AFL's map. */
static struct measure cover(const struct cofi_flow_config *config, unsigned threads)
{
    struct measure m = {0};
    struct cofi_flow_coverage coverage[THREADS_MOST] = {0};
    struct cofi_flow_stats stats;
    uint64_t insns[THREADS_MOST] = {0};
    static uint8_t maps[THREADS_MOST][1 << 16];
    for (unsigned i = 0; i < threads; i++)
        coverage[i] = (struct cofi_flow_coverage){.map = maps[i], .map_size = sizeof maps[i], .block = count, .opaque = &insns[i]};
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), own = seconds(CLOCK_THREAD_CPUTIME_ID);
    if (cofi_flow_cover_parallel(config, threads, 0, coverage, &stats, &m.redone) < 0)
        exit(3);
    m.wall = seconds(CLOCK_MONOTONIC) - wall;
    m.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    own = seconds(CLOCK_THREAD_CPUTIME_ID) - own;
    m.busiest = own > m.cpu - own ? own : m.cpu - own; /* of two */
    m.blocks = stats.blocks;
    return m;
}

static struct measure decode(const struct cofi_flow_config *config, unsigned threads)
{
    if (counting)
        return cover(config, threads);
    struct measure m = {0};
    struct visits v = {0};
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), own = seconds(CLOCK_THREAD_CPUTIME_ID);
    if (cofi_flow_parallel(config, threads, 0, visit, &v, &m.redone) < 0)
        exit(3);
    m.wall = seconds(CLOCK_MONOTONIC) - wall;
    m.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    own = seconds(CLOCK_THREAD_CPUTIME_ID) - own;
    m.busiest = own > v.busiest ? own : v.busiest;
    m.blocks = v.blocks;
    return m;
}

/* The processor time of one of so many processes that decode all of it at the same time. */
static struct measure apart(const struct cofi_flow_config *config, unsigned processes)
{
    struct measure m = {0};
    int ends[2];
    double cpu;
    if (pipe(ends) < 0)
        exit(3);
    for (unsigned i = 0; i < processes; i++)
        if (!fork()) {
            cpu = decode(config, 1).cpu;
            _exit(write(ends[1], &cpu, sizeof cpu) != sizeof cpu);
        }
    close(ends[1]);
    for (unsigned i = 0; i < processes; i++)
        m.cpu += read(ends[0], &cpu, sizeof cpu) == sizeof cpu ? cpu / processes : 0;
    close(ends[0]);
    while (wait(NULL) > 0)
        ;
    return m;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct measure *m, double (*of)(const struct measure *))
{
    double t[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        t[i] = of(&m[i]);
    qsort(t, ROUNDS, sizeof *t, by_value);
    return t[ROUNDS / 2];
}

static double wall_of(const struct measure *m) { return m->wall; }
static double cpu_of(const struct measure *m) { return m->cpu; }
static double busiest_of(const struct measure *m) { return m->busiest; }

/* The machine's own processors may be busy with something else: processor time tells what wall time would be
 * were they not, as long as no thread waits for another. */
static void measure(const char *name, const struct cofi_flow_config *config, unsigned threads)
{
    struct measure one[ROUNDS], many[ROUNDS], each[ROUNDS];
    double line[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        line[i] = line_time();
        one[i] = decode(config, 1);
        many[i] = decode(config, threads);
        each[i] = apart(config, threads);
        if (one[i].blocks != many[i].blocks)
            exit(1);
    }
    double cpu = median(one, cpu_of), sum = median(many, cpu_of), busiest = median(many, busiest_of), alone = median(each, cpu_of);
    qsort(line, ROUNDS, sizeof *line, by_value);
    printf("%-20s %9zu bytes  a line there %3.0f ns  one %7.3f s  %u threads: processor %7.3f s, busiest %7.3f s, wall %7.3f s; "
           "by wall %4.2f x, by processor time %4.2f x, by the busiest %4.2f x; %lu redone  (target 1.9 x); "
           "%u separate decodes at once: %7.3f s each, so the machine allows %4.2f x, of which that is %3.0f %%\n",
           name, config->n, line[ROUNDS / 2], cpu, threads, sum, busiest, median(many, wall_of), median(one, wall_of) / median(many, wall_of),
           threads * cpu / sum, cpu / busiest, (unsigned long)many[0].redone, threads, alone, threads * cpu / alone, 100 * alone / sum);
}

static void recorded(const char *path, unsigned threads, bool timed)
{
    struct bench_load load;
    bench_load(&load, path);
    if (timed && !bench_add_timing(&load))
        exit(3);
    measure(load.name, &load.config, threads);
    bench_unload(&load);
}

/* bench-threads N [--timed] [--coverage] RECORDING... */
int main(int argc, char **argv)
{
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
    bool timed = false;
    if (threads < 2 || threads > THREADS_MOST)
        return 2;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--timed"))
            timed = true;
        else if (!strcmp(argv[i], "--coverage"))
            counting = true;
        else
            recorded(argv[i], threads, timed);
    }
    return 0;
}
