/* SPDX-License-Identifier: MIT
 * bench-record [ROUNDS [NAME…]]: programs natively and under recorders, interleaved; ratios to native. cpu is
 * the program's and the recorder's together. A row that did not run says why. COFI_BENCH_OURS=1 leaves valgrind and
 * qemu out. Kept code is that of three recordings before. At the end: what was aimed at, and what was measured.
 * bench-record --translate COMMAND…: translate only, which is one of the recorders. */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cofi/fast.h>

enum { ROUNDS_MAX = 32, ARGS = 12, NOT_RUN = 127 };

/* How a command is run; the words go in front of it. */
struct variant {
    const char *name;
    const char *words[ARGS];
    bool slow; /* once a session: only the first round */
    bool kept; /* with the code of recordings before: only of short programs */
};

static char self[PATH_MAX];

static const struct variant variants[] = {
    {"native", {NULL}, false, false},
    {"cofi flight recorder 1M", {COFI, "record", "-q", "-o", "bench.data", "--no-cache", "--snapshot=1M", "--", NULL}, false, false},
    {"cofi complete, to file", {COFI, "record", "-q", "-o", "bench.data", "--no-cache", "--", NULL}, false, false},
    {"cofi translation alone", {self, "--translate", NULL}, false, false},
    {"flight rec., kept code", {COFI, "record", "-q", "-o", "bench.data", "--snapshot=1M", "--", NULL}, false, true},
    {"valgrind none", {"valgrind", "-q", "--tool=none", NULL}, true, false},
    {"valgrind lackey", {"valgrind", "-q", "--tool=lackey", "--basic-counts=yes", NULL}, true, false},
    {"qemu-x86_64", {"qemu-x86_64", NULL}, true, false},
};
enum { VARIANTS = sizeof variants / sizeof variants[0], RECORDINGS_BEFORE = 3 };

enum { NATIVE, FLIGHT, COMPLETE, TRANSLATION, KEPT };

struct program {
    const char *name;
    const char *words[ARGS];
    bool is_long; /* its run is long against its translation: counts in the means */
    double most;  /* the flight recorder's target, wall against native; 0: none */
};

#define PYTHON "x=0\nfor i in range(10000000): x+=i&7\nprint(x)"
#define PERL "my %h; for (1..5000000) { $h{$_ % 1000} += $_ } print scalar keys %h"
#define SQL "with recursive c(i) as (select 1 union all select i+1 from c where i<3000000) select sum(i*i%7) from c"
#define NODE "let o={},s=0; for(let i=0;i<3e6;i++){o['k'+i%1000]=i; s+=i%7} console.log(s)"

static const struct program programs[] = {
    {"branchy C", {BRANCHY, "30", NULL}, true, 2.0},
    {"4 threads", {BRANCHY, "10", "4", NULL}, false, 0},
    {"gzip -9", {"gzip", "-9c", "bench.text", NULL}, true, 1.3},
    {"xz -1", {"xz", "-1c", "bench.text", NULL}, true, 1.3},
    {"sqlite3", {"sqlite3", ":memory:", SQL, NULL}, true, 2.0},
    {"perl", {"perl", "-e", PERL, NULL}, true, 2.0},
    {"python3", {"/usr/bin/python3", "-S", "-c", PYTHON, NULL}, true, 2.0},
    {"node", {"node", "-e", NODE, NULL}, false, 0},
    {"gcc -c small", {"gcc", "-O1", "-c", "-o", "bench.o", "bench_small.c", NULL}, false, 0},
    {"gcc -c large", {"gcc", "-O2", "-c", "-o", "bench.o", "bench_large.c", NULL}, false, 0},
    {"/bin/true", {"/bin/true", NULL}, false, 0},
    /* A build and scripts: later runs have the code that earlier ones translated. */
    {"20 times gcc -c small", {"sh", "-c", "i=0; while [ $i -lt 20 ]; do gcc -O1 -c -o bench.o bench_small.c; i=$((i + 1)); done", NULL}, false, 0},
    {"30 commands once", {"sh", "-c", "for c in ls cat head tail sort uniq wc od fold nl tac date id uname env df du md5sum sha1sum sha256sum cksum sum "
                                       "paste expand unexpand fmt pr tsort base64 base32; do $c </dev/null; done", NULL}, false, 0},
    {"200 times /bin/true", {"sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done", NULL}, false, 0},
};
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

struct cost {
    double wall, cpu, rss; /* seconds; bytes: the most that one process had in memory */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The runs of a program under a variant: costs of the good ones, and how one ended that was not. */
struct runs {
    struct cost costs[ROUNDS_MAX];
    int n;
    char why[80];
};

/* Returns whether a command ended well; if not, says in `why` how it ended. */
static bool ended_well(const char *command, int status, char why[80])
{
    if (WIFSIGNALED(status))
        snprintf(why, 80, "%s ended by signal %d", command, WTERMSIG(status));
    else if (WEXITSTATUS(status) == NOT_RUN)
        snprintf(why, 80, "%s cannot be run", command);
    else if (WEXITSTATUS(status))
        snprintf(why, 80, "%s ended with status %d", command, WEXITSTATUS(status));
    return status == 0;
}

/* A recording is a new file: to give an old one's memory back is not part of it. */
static void run(const struct variant *v, const struct program *p, struct runs *runs)
{
    unlink("bench.data");
    const char *argv[2 * ARGS];
    size_t n = 0;
    for (const char *const *w = v->words; *w; w++)
        argv[n++] = *w;
    for (const char *const *w = p->words; *w; w++)
        argv[n++] = *w;
    argv[n] = NULL;
    double start = now();
    pid_t pid = fork();
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(NOT_RUN);
    }
    int status;
    struct rusage use;
    if (wait4(pid, &status, 0, &use) != pid || !ended_well(argv[0], status, runs->why))
        return;
    struct cost *cost = &runs->costs[runs->n++];
    cost->wall = now() - start;
    cost->cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    cost->rss = (double)use.ru_maxrss * 1024;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Logarithms of the ratios of long programs, for geometric means. */
static struct { double cpu, wall; int n; } sums[VARIANTS];
/* Medians, 0 where nothing was measured; files: bytes of a recording as it was written, and as the PT unit makes it. */
static struct cost medians[PROGRAMS][VARIANTS];
static struct { double written, unit; } files[PROGRAMS];

static void report(const struct program *p, const struct runs runs[VARIANTS])
{
    double native_cpu = 0, native_wall = 0;
    printf("%s\n", p->name);
    for (size_t v = 0; v < VARIANTS; v++) {
        double cpu[ROUNDS_MAX], wall[ROUNDS_MAX], rss[ROUNDS_MAX];
        size_t n = (size_t)runs[v].n;
        for (size_t i = 0; i < n; i++)
            cpu[i] = runs[v].costs[i].cpu, wall[i] = runs[v].costs[i].wall, rss[i] = runs[v].costs[i].rss;
        if (!n) {
            printf("  %-24s - (%s)\n", variants[v].name, *runs[v].why ? runs[v].why : "left out");
            if (v == 0)
                return;
            continue;
        }
        double c = median(cpu, n), w = median(wall, n);
        medians[p - programs][v] = (struct cost){w, c, median(rss, n)};
        if (v == 0)
            native_cpu = c, native_wall = w;
        double cpu_ratio = c / (native_cpu > 0 ? native_cpu : 1e-4), wall_ratio = w / native_wall;
        printf("  %-24s wall %8.1f ms [%.1f..%.1f]  cpu %8.1f ms [%.1f..%.1f]  x%.2f wall  x%.2f cpu\n", variants[v].name,
               w * 1e3, wall[0] * 1e3, wall[n - 1] * 1e3, c * 1e3, cpu[0] * 1e3, cpu[n - 1] * 1e3, wall_ratio, cpu_ratio);
        if (p->is_long) {
            sums[v].cpu += log(cpu_ratio);
            sums[v].wall += log(wall_ratio);
            sums[v].n++;
        }
    }
    fflush(stdout);
}

/* Bytes a branch, from one complete recording. */
static void report_size(const struct program *p)
{
    struct cofi_fast_options o = {.size = sizeof o, .argv = (char *const *)(uintptr_t)p->words, .path = "bench.data"};
    struct cofi_fast_result r;
    int null = open("/dev/null", O_RDWR), out = dup(1);
    dup2(null, 1);
    int status = cofi_fast_record(&o, &r, NULL);
    dup2(out, 1);
    close(out);
    close(null);
    if (status >= 0 && r.branches)
        printf("  %.3f bytes a branch (%.1f MB, %.1f M branches and targets)\n", (double)r.bytes / (double)r.branches,
               (double)r.bytes / 1e6, (double)r.branches / 1e6);
    fflush(stdout);
    unlink("bench.data");
}

static double file_bytes(const struct program *p, const struct variant *v)
{
    struct runs runs = {0};
    struct stat st;
    run(v, p, &runs);
    double bytes = runs.n && !stat("bench.data", &st) ? (double)st.st_size : 0;
    unlink("bench.data");
    return bytes;
}

/* A complete recording, as the log's encoder writes it and as the PT unit does; a --config is what makes it do so. */
static void compare_with_unit(const struct program *p)
{
    static const struct variant unit = {"", {COFI, "record", "-q", "-o", "bench.data", "--host=fast", "--config=dis_retc=1", "--", NULL}, false, false};
    files[p - programs].written = file_bytes(p, &variants[COMPLETE]);
    files[p - programs].unit = file_bytes(p, &unit);
}

static double geometric_mean(int variant)
{
    return sums[variant].n ? exp(sums[variant].wall / sums[variant].n) : 0;
}

static void report_means(void)
{
    for (int v = 1; v < VARIANTS; v++)
        if (sums[v].n)
            printf("geometric mean of %d long runs: %-24s x%.2f wall  x%.2f cpu\n", sums[v].n, variants[v].name,
                   geometric_mean(v), exp(sums[v].cpu / sums[v].n));
}

/* ---- what was aimed at ---- */

static void target(const char *what, double measured, double most)
{
    if (measured > 0)
        printf("| %-58s | %8.2f | %6.2f | %s |\n", what, measured, most, measured <= most ? "met" : "missed");
}

static size_t program(const char *name)
{
    size_t i = 0;
    while (strcmp(programs[i].name, name))
        i++;
    return i;
}

static double wall_ratio(size_t p, int variant)
{
    return medians[p][NATIVE].wall > 0 ? medians[p][variant].wall / medians[p][NATIVE].wall : 0;
}

/* Beyond the program's own memory, where no log is kept. */
static double memory_mb(size_t p)
{
    return (medians[p][TRANSLATION].rss - medians[p][NATIVE].rss) / (1 << 20);
}

static void report_targets(void)
{
    char what[80];
    printf("\n| wall time against native, medians | measured | target | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < PROGRAMS; i++) {
        snprintf(what, sizeof what, "flight recorder, %s", programs[i].name);
        if (programs[i].most > 0)
            target(what, wall_ratio(i, FLIGHT), programs[i].most);
    }
    size_t one = program("branchy C"), four = program("4 threads"), start = program("/bin/true"), cc = program("gcc -c large");
    target("flight recorder, geometric mean of these", geometric_mean(FLIGHT), 1.8);
    target("translation alone, geometric mean", geometric_mean(TRANSLATION), 1.4);
    target("complete trace to a file, geometric mean", geometric_mean(COMPLETE), 2.5);
    target("cold: gcc -c of a small file, flight recorder", wall_ratio(program("gcc -c small"), FLIGHT), 5);
    target("the same with the code of recordings before", wall_ratio(program("gcc -c small"), KEPT), 5);
    target("start: /bin/true, flight recorder, ms more than native",
           (medians[start][FLIGHT].wall - medians[start][NATIVE].wall) * 1e3, 8);
    target("the same with the code of recordings before",
           (medians[start][KEPT].wall - medians[start][NATIVE].wall) * 1e3, 8);
    if (wall_ratio(one, FLIGHT) > 0)
        target("4 threads, ratio against that of one", wall_ratio(four, FLIGHT) / wall_ratio(one, FLIGHT), 1.1);
    for (size_t i = 0; i < PROGRAMS; i++) {
        snprintf(what, sizeof what, "bytes of %s against what the PT unit makes", programs[i].name);
        if (files[i].unit > 0)
            target(what, files[i].written / files[i].unit, 1.1);
    }
    target("memory beyond the program's, gcc -c large, MB", memory_mb(cc), 64 + 2);
}

/* The command as translated code that records nothing. */
static int translate_only(char **argv)
{
    struct cofi_fast_options o = {.size = sizeof o, .argv = argv, .no_trace = true};
    struct cofi_fast_result r;
    if (cofi_fast_record(&o, &r, NULL) < 0)
        return 125;
    return WIFEXITED(r.wait_status) ? WEXITSTATUS(r.wait_status) : 128;
}

/* Inputs: text that compresses a little, a small and a large C file. */
static bool make_inputs(void)
{
    FILE *text = fopen("bench.text", "w"), *small = fopen("bench_small.c", "w"), *large = fopen("bench_large.c", "w");
    if (!text || !small || !large)
        return false;
    uint64_t state = 1;
    for (int i = 0; i < 12000000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        fputc("etaoin shrdlu cmfwyp vbgkqjxz\n.,"[(state >> 59) & (state >> 40 & 1 ? 31 : 7)], text);
    }
    fprintf(small, "#include <stdio.h>\nint main(void) { for (int i = 0; i < 9; i++) printf(\"%%d\\n\", i * i); return 0; }\n");
    for (int i = 0; i < 600; i++)
        fprintf(large, "int f%d(int *p, int n) { int s = %d; for (int i = 0; i < n; i++) { if (p[i] > s) s += p[i] * %d; "
                "else s ^= p[i]; switch (s & 7) { case 1: s--; break; case 2: s *= 3; break; case 5: s = ~s; } } return s; }\n", i, i, i + 3);
    return !fclose(text) && !fclose(small) && !fclose(large);
}

/* Whether a variant has a row, and this round is one of it. */
static bool is_run(const struct variant *v, const struct program *p, int round)
{
    bool quick = getenv("COFI_BENCH_OURS") != NULL; /* without the others, which take minutes */
    return !(v->slow && (round || quick)) && !(v->kept && p->is_long);
}

static void run_all(const struct program *p, int rounds, struct runs runs[VARIANTS])
{
    struct runs before = {0};
    for (int i = 0; i < RECORDINGS_BEFORE && is_run(&variants[KEPT], p, 0); i++)
        run(&variants[KEPT], p, &before);
    for (int round = 0; round < rounds; round++)
        for (size_t v = 0; v < VARIANTS; v++)
            if (is_run(&variants[v], p, round))
                run(&variants[v], p, &runs[v]);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return remove(path);
}

static bool wanted(const struct program *p, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strstr(p->name, argv[i]))
            return true;
    return argc <= 2;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--translate"))
        return translate_only(argv + 2);
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    const char *tmp = getenv("TMPDIR");
    char dir[512];
    snprintf(dir, sizeof dir, "%s/cofi-bench-%d", tmp ? tmp : "/tmp", (int)getpid());
    if (!realpath("/proc/self/exe", self))
        return 3;
    if (rounds < 1 || rounds > ROUNDS_MAX || mkdir(dir, 0700) || chdir(dir) || !make_inputs() ||
        setenv("COFI_CACHE", "bench.cache", 1))
        return 3;
    for (size_t i = 0; i < PROGRAMS; i++) {
        struct runs runs[VARIANTS] = {0};
        if (!wanted(&programs[i], argc, argv))
            continue;
        run_all(&programs[i], rounds, runs);
        report(&programs[i], runs);
        report_size(&programs[i]);
        if (!strcmp(programs[i].name, "gzip -9") || !strcmp(programs[i].name, "perl"))
            compare_with_unit(&programs[i]);
    }
    report_means();
    report_targets();
    return chdir("/") || nftw(dir, remove_one, 4, FTW_DEPTH | FTW_PHYS);
}
