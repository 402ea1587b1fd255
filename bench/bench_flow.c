/* SPDX-License-Identifier: MIT
 * Our views and libipt's decoders over the same traces, interleaved: medians, spreads, ratios. */
#include <assert.h>
#include <intel-pt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cofi/flow.h>
#include <cofi/insn.h>
#include <cofi/trace.h>

#include "../test/flow/prog.h"
#include "load.h"

enum { ROUNDS = 7, PASSES = 4, LONG = 24, SECTIONS = 4096, WINDOW = 8 << 20 };

/* One trace and its code: sections of files, as libipt wants them to be fast. */
struct section {
    char path[512];
    uint64_t offset, addr, len;
    int fd; /* 0: a file of its own */
};

struct job {
    const char *name;
    uint8_t *trace;
    size_t n;
    const struct cofi_image *image;
    struct cofi_flow_config config;
    struct section *sections;
    size_t sections_n;
    uint64_t insns, blocks, units; /* units: TNT bits and TIPs */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- ours ---- */

static const struct cofi_flow_block *blocks[4096];
static struct cofi_flow_event events[256];
static struct cofi_flow_insn insns[4096];

static uint64_t our_blocks(struct cofi_flow *flow)
{
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 4096, .events = events, .events_max = 256};
    uint64_t n = 0;
    while (cofi_flow_next(flow, &batch) > 0)
        n += batch.blocks_n;
    return n;
}

static uint64_t our_insns(struct cofi_flow *flow)
{
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 4096, .events = events, .events_max = 256};
    uint64_t n = 0;
    while (cofi_flow_next(flow, &batch) > 0) {
        struct cofi_flow_cursor cursor = {0};
        size_t got;
        while ((got = cofi_flow_insns(&batch, &cursor, batch.blocks_n, insns, 4096)) > 0)
            n += got;
    }
    return n;
}

static uint8_t map[1 << 16];
static uint64_t our_cover(struct cofi_flow *flow)
{
    struct cofi_flow_coverage coverage = {.map = map, .map_size = sizeof map};
    cofi_flow_cover(flow, &coverage);
    return coverage.insns;
}

typedef uint64_t (*our_view)(struct cofi_flow *);

/* The same trace again, code decoded before; several passes, so that the other decoder's data are out of the
 * caches for a part of the time only. */
static double ours_warm(struct cofi_flow *flow, our_view view)
{
    double t = now();
    for (int i = 0; i < PASSES; i++) {
        cofi_flow_seek(flow, 0);
        view(flow);
    }
    return (now() - t) / PASSES;
}

/* On the wall's clock: several threads. */
static int nothing(void *opaque, struct cofi_flow *flow, const struct cofi_flow_batch *batch)
{
    (void)flow;
    *(uint64_t *)opaque += batch->blocks_n;
    return 0;
}

static double ours_threads(const struct cofi_flow_config *config, unsigned threads)
{
    struct timespec from, to;
    uint64_t n = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    cofi_flow_parallel(config, threads, 0, nothing, &n, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

static double ours_cold(const struct job *job)
{
    struct cofi_flow *flow;
    double t = now();
    if (cofi_flow_open(&flow, &job->config) < 0)
        exit(3);
    our_blocks(flow);
    t = now() - t;
    cofi_flow_close(flow);
    return t;
}

/* ---- libipt ---- */

static struct pt_image *ipt_image(const struct job *job, struct pt_image_section_cache *cache)
{
    struct pt_image *image = pt_image_alloc(NULL);
    for (size_t i = 0; i < job->sections_n; i++) {
        const struct section *s = &job->sections[i];
        int id = pt_iscache_add_file(cache, s->path, s->offset, s->len, s->addr);
        if (id > 0)
            pt_image_add_cached(image, cache, id, NULL);
    }
    return image;
}

static uint64_t ipt_blocks_pass(struct pt_block_decoder *decoder)
{
    uint64_t n = 0;
    int status = pt_blk_sync_forward(decoder);
    while (status >= 0) {
        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;
            status = pt_blk_event(decoder, &event, sizeof event);
        }
        if (status < 0 || status & pts_eos)
            break;
        struct pt_block block = {0};
        status = pt_blk_next(decoder, &block, sizeof block);
        n += block.ninsn;
        if (status < 0 && status != -pte_eos)
            status = pt_blk_sync_forward(decoder);
    }
    return n;
}

static uint64_t ipt_insns_pass(struct pt_insn_decoder *decoder)
{
    uint64_t n = 0;
    int status = pt_insn_sync_forward(decoder);
    while (status >= 0) {
        while (status >= 0 && status & pts_event_pending) {
            struct pt_event event;
            status = pt_insn_event(decoder, &event, sizeof event);
        }
        if (status < 0 || status & pts_eos)
            break;
        struct pt_insn insn;
        status = pt_insn_next(decoder, &insn, sizeof insn);
        n += status >= 0;
        if (status < 0 && status != -pte_eos)
            status = pt_insn_sync_forward(decoder);
    }
    return n;
}

static struct pt_config ipt_config(const struct job *job)
{
    struct pt_config config;
    pt_config_init(&config);
    config.begin = job->trace;
    config.end = job->trace + job->n;
    return config;
}

struct ipt {
    struct pt_image_section_cache *cache;
    struct pt_image *image;
    struct pt_block_decoder *blk;
    struct pt_insn_decoder *insn;
};

static void ipt_open(struct ipt *ipt, const struct job *job)
{
    struct pt_config config = ipt_config(job);
    ipt->cache = pt_iscache_alloc(NULL);
    ipt->image = ipt_image(job, ipt->cache);
    ipt->blk = pt_blk_alloc_decoder(&config);
    ipt->insn = pt_insn_alloc_decoder(&config);
    pt_blk_set_image(ipt->blk, ipt->image);
    pt_insn_set_image(ipt->insn, ipt->image);
}

static void ipt_close(struct ipt *ipt)
{
    pt_blk_free_decoder(ipt->blk);
    pt_insn_free_decoder(ipt->insn);
    pt_image_free(ipt->image);
    pt_iscache_free(ipt->cache);
}

/* Back to the beginning, code cache kept: a new decoder over the same image. */
static double ipt_blocks_warm(struct ipt *ipt, const struct job *job, uint64_t *count)
{
    struct pt_config config = ipt_config(job);
    double t = now();
    for (int i = 0; i < PASSES; i++) {
        struct pt_block_decoder *decoder = pt_blk_alloc_decoder(&config);
        pt_blk_set_image(decoder, ipt->image);
        *count = ipt_blocks_pass(decoder);
        pt_blk_free_decoder(decoder);
    }
    return (now() - t) / PASSES;
}

static double ipt_insns_warm(struct ipt *ipt, const struct job *job, uint64_t *count)
{
    struct pt_config config = ipt_config(job);
    double t = now();
    for (int i = 0; i < PASSES; i++) {
        struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
        pt_insn_set_image(decoder, ipt->image);
        *count = ipt_insns_pass(decoder);
        pt_insn_free_decoder(decoder);
    }
    return (now() - t) / PASSES;
}

static double ipt_blocks_cold(const struct job *job)
{
    struct ipt ipt;
    double t = now();
    ipt_open(&ipt, job);
    ipt_blocks_pass(ipt.blk);
    t = now() - t;
    ipt_close(&ipt);
    return t;
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, ROUNDS, sizeof *t, by_value);
    return t[ROUNDS / 2];
}

static void line(const struct job *job, const char *view, double *ours, double *theirs, const char *target)
{
    double o = median(ours), t = theirs ? median(theirs) : 0;
    printf("%-18s %-22s %8.3f ms  %6.2f ns/unit %8.1f M insns/s  +-%2.0f%%", job->name, view, o * 1e3,
           o * 1e9 / (double)job->units, (double)job->insns / o * 1e-6, (ours[ROUNDS - 2] - ours[1]) / o * 50);
    if (theirs)
        printf("  libipt %9.3f ms  %6.2f ns/unit  ratio %6.2f", t * 1e3, t * 1e9 / (double)job->units, t / o);
    printf("  %s\n", target);
}

/* In a process of its own, in which nothing of the job was decoded: files are read, and memory is new. */
static double in_child(double (*cold)(const struct job *), const struct job *job)
{
    int fds[2];
    double t = 0;
    fflush(stdout);
    pid_t pid = pipe(fds) ? -1 : fork();
    if (pid < 0)
        exit(3);
    if (!pid) {
        t = cold(job);
        _exit(write(fds[1], &t, sizeof t) != sizeof t);
    }
    close(fds[1]);
    bool ok = read(fds[0], &t, sizeof t) == sizeof t;
    close(fds[0]);
    waitpid(pid, NULL, 0);
    if (!ok)
        exit(3);
    return t;
}

static void measure(struct job *job)
{
    double blk[ROUNDS], blk_ipt[ROUNDS], insn[ROUNDS], insn_ipt[ROUNDS], cover[ROUNDS], cold[ROUNDS], cold_ipt[ROUNDS];
    double one[ROUNDS], two[ROUNDS];
    struct cofi_flow *flow;
    struct ipt ipt;
    struct cofi_flow_stats stats;
    uint64_t count = 0, count_insn = 0;
    bool pt = job->config.gen == COFI_PT && job->sections_n;
    for (int i = 0; i < ROUNDS; i++) {
        cold[i] = in_child(ours_cold, job);
        cold_ipt[i] = pt ? in_child(ipt_blocks_cold, job) : 0;
    }
    if (cofi_flow_open(&flow, &job->config) < 0)
        exit(3);
    job->blocks = our_blocks(flow);
    cofi_flow_stats(flow, &stats);
    job->insns = stats.insns;
    job->units = stats.tnt_bits + stats.tips;
    struct cofi_flow_config longer = job->config; /* the trace so many times: a long run's */
    struct cofi_flow *long_flow;
    uint8_t *bytes = malloc(job->n * LONG);
    for (int i = 0; i < LONG; i++)
        memcpy(bytes + (size_t)i * job->n, job->trace, job->n);
    longer.bytes = bytes;
    longer.n = job->n * LONG;
    if (cofi_flow_open(&long_flow, &longer) < 0)
        exit(3);
    if (pt)
        ipt_open(&ipt, job);
    for (int i = 0; i < ROUNDS; i++) {
        blk[i] = ours_warm(flow, our_blocks);
        blk_ipt[i] = pt ? ipt_blocks_warm(&ipt, job, &count) : 0;
        insn[i] = ours_warm(flow, our_insns);
        insn_ipt[i] = pt ? ipt_insns_warm(&ipt, job, &count_insn) : 0;
        one[i] = ours_threads(&longer, 1);
        two[i] = ours_threads(&longer, 2);
        cover[i] = ours_warm(long_flow, our_cover) / LONG;
    }
    cofi_flow_stats(flow, &stats);
    printf("%-18s %zu bytes, %lu insns (libipt: %lu by block, %lu), %lu blocks, %lu units, %lu gaps, %lu KiB, "
           "%lu runs, %lu blocks decoded, %lu misses\n", job->name, job->n, job->insns, count, count_insn,
           job->blocks, job->units, stats.gaps, stats.cache_bytes >> 10, stats.runs, stats.blocks_decoded, stats.run_misses);
    line(job, "blocks, warm", blk, pt ? blk_ipt : NULL, "(target 10 x, 3 ns)");
    line(job, "instructions, warm", insn, pt ? insn_ipt : NULL, "(target 20 x, 1 G/s)");
    line(job, "coverage, warm", cover, NULL, "(target 1 ns)");
    line(job, "blocks, cold", cold, pt ? cold_ipt : NULL, "(target 3 x)");
    double serial = median(one), parallel = median(two);
    printf("%-18s two threads, %2d times   %8.3f ms  one %8.3f ms  ratio %6.2f  (too short to gain: see bench-threads)\n", job->name,
           LONG, parallel * 1e3, serial * 1e3, serial / parallel);
    cofi_flow_close(flow);
    cofi_flow_close(long_flow);
    free(bytes);
    if (pt)
        ipt_close(&ipt);
}

/* ---- one pass over a long trace: its code is known, its packets are all new ---- */

/* Nanoseconds a unit over the second half of the window, behind the first. */
static double ours_steady(const struct cofi_flow_config *config, uint64_t *units)
{
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 4096, .events = events, .events_max = 256};
    struct cofi_flow_stats before, after;
    struct cofi_flow *flow;
    if (cofi_flow_open(&flow, config) < 0 || cofi_flow_seek(flow, 0) < 0)
        exit(3);
    while (cofi_flow_offset(flow) < config->n / 2 && cofi_flow_next(flow, &batch) > 0) {
    }
    cofi_flow_stats(flow, &before);
    double t = now();
    our_blocks(flow);
    t = now() - t;
    cofi_flow_stats(flow, &after);
    cofi_flow_close(flow);
    *units = after.tnt_bits + after.tips - before.tnt_bits - before.tips;
    return t * 1e9 / (double)*units;
}

/* Blocks until an offset is passed, looked at now and then. */
static void ipt_blocks_until(struct pt_block_decoder *decoder, uint64_t until)
{
    uint64_t offset = 0;
    int status = 0;
    for (unsigned i = 0; status >= 0 && offset < until && !(status & pts_eos); i++) {
        struct pt_event event;
        struct pt_block block = {0};
        while (status >= 0 && status & pts_event_pending)
            status = pt_blk_event(decoder, &event, sizeof event);
        status = status < 0 ? status : pt_blk_next(decoder, &block, sizeof block);
        if (status < 0 && status != -pte_eos)
            status = pt_blk_sync_forward(decoder);
        if (i % 1024 == 0)
            pt_blk_get_offset(decoder, &offset);
    }
}

static double ipt_steady(const struct job *job, uint64_t units)
{
    struct ipt ipt;
    ipt_open(&ipt, job);
    pt_blk_sync_forward(ipt.blk);
    ipt_blocks_until(ipt.blk, job->n / 2);
    double t = now();
    ipt_blocks_until(ipt.blk, UINT64_MAX);
    t = now() - t;
    ipt_close(&ipt);
    return t * 1e9 / (double)units;
}

static void steady(struct job *job)
{
    double ours[ROUNDS], theirs[ROUNDS];
    uint64_t units = 0;
    size_t n = job->n < 2 * WINDOW ? job->n : 2 * WINDOW, from = (job->n - n) / 2;
    job->trace += from;
    job->config.bytes += from;
    job->config.n = n;
    size_t whole = job->n;
    job->n = n;
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = ours_steady(&job->config, &units);
        theirs[i] = ipt_steady(job, units);
    }
    double o = median(ours), t = median(theirs);
    printf("%-18s blocks, one pass, the second of two %zu KiB: %6.2f ns/unit  libipt %6.2f ns/unit  ratio %6.2f  (target 10 x, 3 ns)\n",
           job->name, n >> 11, o, t, t / o);
    job->trace -= from;
    job->n = whole;
}

/* ---- traces ---- */

static struct prog prog;

static void section_of_bytes(struct job *job, uint64_t addr, const uint8_t *bytes, size_t n)
{
    struct section *s = &job->sections[job->sections_n++];
    int fd = memfd_create("code", 0); /* libipt wants a file to map */
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        exit(3);
    snprintf(s->path, sizeof s->path, "/proc/self/fd/%d", fd);
    s->fd = fd;
    s->addr = addr;
    s->offset = 0;
    s->len = n;
}

static void forget_sections(struct job *job)
{
    for (size_t i = 0; i < job->sections_n; i++)
        if (job->sections[i].fd)
            close(job->sections[i].fd);
    free(job->sections);
}

static void synthetic(const char *name, unsigned functions, uint64_t ctl, bool clock, unsigned interrupt)
{
    struct prog_run run = {.gen = COFI_PT, .ctl = ctl, .insns = 3000000, .interrupt = interrupt, .seed = 3, .clock = clock};
    struct cofi_image *image;
    struct job job = {.name = name};
    prog_make(&prog, 3, functions);
    prog_go(&prog, &run);
    cofi_image_open(&image);
    cofi_image_map_bytes(image, 0, PROG_BASE, prog.code, prog.size, "prog");
    job.trace = run.trace;
    job.n = run.n;
    job.image = image;
    cofi_flow_config_init(&job.config, COFI_PT);
    job.config.bytes = run.trace;
    job.config.n = run.n;
    job.config.image = image;
    job.sections = calloc(2, sizeof *job.sections);
    section_of_bytes(&job, PROG_BASE, prog.code, prog.size);
    measure(&job);
    forget_sections(&job);
    cofi_image_close(image);
    prog_free(&run);
}

/* Two nested loops of 15 and 100,000 rounds: 401000 dec ecx; jnz 401000; 401004 dec edx; jnz 401000; syscall. */
static void hot_loop(void)
{
    static const uint8_t code[] = {0xff, 0xc9, 0x75, 0xfc, 0xff, 0xca, 0x75, 0xf8, 0x0f, 0x05};
    static const uint8_t start[] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23,
                                    0x99, 1, 0x71, 0x00, 0x10, 0x40, 0, 0, 0};
    struct job job = {.name = "hot-loop", .trace = malloc(400000)};
    struct cofi_image *image;
    memcpy(job.trace, start, sizeof start);
    job.n = sizeof start;
    uint8_t bits = 1;
    for (unsigned i = 0; i < 1600000; i++) {
        bits = (uint8_t)(bits << 1 | (i % 16 != 14));
        if (bits & 64) {
            job.trace[job.n++] = (uint8_t)(bits << 1);
            bits = 1;
        }
    }
    cofi_image_open(&image);
    cofi_image_map_bytes(image, 0, PROG_BASE, code, sizeof code, "loop");
    job.image = image;
    cofi_flow_config_init(&job.config, COFI_PT);
    job.config.bytes = job.trace;
    job.config.n = job.n;
    job.config.image = image;
    job.sections = calloc(1, sizeof *job.sections);
    section_of_bytes(&job, PROG_BASE, code, sizeof code);
    measure(&job);
    forget_sections(&job);
    cofi_image_close(image);
    free(job.trace);
}

/* The executable mappings of a process, as files. */
static void sections_of(struct job *job, struct cofi_recording *recording, int32_t pid)
{
    const struct cofi_sideband *sb;
    job->sections = calloc(SECTIONS, sizeof *job->sections);
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)) && job->sections_n < SECTIONS; i++) {
        if (sb->kind == COFI_SB_MMAP && sb->pid == pid && sb->prot & 4 && sb->name[0] == '/') {
            struct section *s = &job->sections[job->sections_n++];
            snprintf(s->path, sizeof s->path, "%s", sb->name);
            s->addr = sb->addr;
            s->offset = sb->pgoff;
            s->len = sb->len;
        } else if (sb->kind == COFI_SB_CODE && sb->pid == pid) {
            section_of_bytes(job, sb->addr, sb->bytes, sb->len);
        }
    }
}

static void recorded(const char *path)
{
    struct bench_load load;
    bench_load(&load, path);
    struct job job = {.name = load.name, .trace = load.trace, .n = load.n, .config = load.config};
    /* As if without TSC packets: code is seen as it is at the recording's end, as libipt's sections are. Else going back to
     * the start would empty the caches wherever a mapping came later (docs/performance.md). */
    job.config.ctl &= ~(UINT64_C(1) << 10);
    sections_of(&job, load.recording, load.pid);
    if (job.n > WINDOW)
        steady(&job);
    else
        measure(&job);
    forget_sections(&job);
    bench_unload(&load);
}

/* In a process of its own: no memory is left of the one before. */
static void alone(void (*bench)(const char *path), const char *path)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        bench(path);
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
        exit(3);
}

int main(int argc, char **argv)
{
    enum { CYC = 2, USER = 8, MTC = 1 << 9, TSC = 1 << 10, DISRETC = 1 << 11, BRANCH = 1 << 13 };
    for (int i = 1; i < argc; i++)
        alone(recorded, argv[i]);
    if (argc > 1)
        return 0;
    synthetic("random", 40, USER | BRANCH, false, 0);
    synthetic("random-noretc", 40, USER | BRANCH | DISRETC, false, 0);
    synthetic("random-cyc-mtc", 40, USER | BRANCH | TSC | CYC | MTC | 3 << 14, true, 0);
    synthetic("coin-loop", 1, USER | BRANCH, false, 0);
    hot_loop();
    return 0;
}
