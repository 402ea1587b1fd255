/* SPDX-License-Identifier: MIT
 * The command's life: start, wait, see its end. */
#include "host/fast/collect.h"
#include "host/fast/hold.h"
#include "host/fast/limits.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/error.h"
#include "base/sized.h"
#include "host/proc.h"
#include "host/target.h"

int cofi_fast_probe(struct cofi_error *error)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LAHF_LM))
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "the fast host needs a processor with LAHF in 64-bit mode");
    return 0;
}

/* Open perf's event that counts nothing. The first of a thread makes the kernel wait for all processors,
 * 10 ms [perf_event_open], so a processor's is asked for first, which takes a privilege. */
static int open_dummy(void)
{
    unsigned a, b, c = 0, d;
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_DUMMY,
                                   .exclude_kernel = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    bool guest = __get_cpuid(1, &a, &b, &c, &d) && c >> 31; /* its clock is the host's, so there is no conversion */
    return fd >= 0 || guest ? fd : (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* perf's own conversion, from such an event's page. */
static bool ask_perf(struct cofi_time_conv *conv)
{
    int fd = open_dummy();
    if (fd < 0)
        return false;
    const struct perf_event_mmap_page *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED)
        return false;
    bool good = page->cap_user_time && page->cap_user_time_zero && page->time_mult;
    if (good)
        *conv = (struct cofi_time_conv){.zero = page->time_zero, .mult = page->time_mult, .shift = page->time_shift};
    munmap((void *)(uintptr_t)page, 4096);
    return good;
}

struct moment {
    uint64_t ticks, ns;
};

/* Now by the TSC and a clock: of many readings the one whose two ends are nearest, for an interrupt lies
 * between those of others. */
static struct moment now_by_both(clockid_t clock)
{
    struct moment m = {0};
    uint64_t narrow = UINT64_MAX;
    for (int i = 0; i < 64; i++) {
        struct timespec now;
        uint64_t before = __rdtsc();
        clock_gettime(clock, &now);
        uint64_t width = __rdtsc() - before;
        if (width > narrow)
            continue;
        narrow = width;
        m = (struct moment){before + width / 2, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    }
    return m;
}

/* Within some millionths, from two readings that lie 0.3 ms apart or more. */
static void measure(struct cofi_time_conv *conv, struct moment a)
{
    const uint64_t apart = 300000, passed = now_by_both(CLOCK_MONOTONIC_RAW).ns - a.ns;
    struct timespec pause = {0, passed < apart ? (long)(apart - passed) : 0};
    if (pause.tv_nsec)
        nanosleep(&pause, NULL);
    struct moment b = now_by_both(CLOCK_MONOTONIC_RAW);
    uint64_t ticks = b.ticks - a.ticks;
    conv->shift = 26;
    conv->mult = (uint32_t)(((unsigned __int128)(b.ns - a.ns) << 26) / (ticks ? ticks : 1));
}

/* Times are those of CLOCK_MONOTONIC, as in the jitdumps that JITs write [linux: jitdump-specification]. */
static void anchor(struct cofi_time_conv *conv)
{
    struct moment now = now_by_both(CLOCK_MONOTONIC);
    conv->zero = 0;
    conv->zero = now.ns - cofi_time_ns(conv, now.ticks);
}

/* begin: a moment ago. */
static void tell_time(struct cofi_time_info *time, struct moment begin)
{
    *time = (struct cofi_time_info){.tsc = true, .monotonic = true};
    if (!ask_perf(&time->conv))
        measure(&time->conv, begin);
    anchor(&time->conv);
    /* The TSC's frequency in 100 MHz: 10 ticks a ns are 100. */
    if (time->conv.mult)
        time->nominal_ratio = (uint8_t)((((UINT64_C(10) << time->conv.shift) + time->conv.mult / 2) / time->conv.mult));
}

void cofi_fast_time_info(struct cofi_time_info *time) { tell_time(time, now_by_both(CLOCK_MONOTONIC_RAW)); }

/* The child waits until it is seized, then runs the command; errno comes back over the pipe. */
static void __attribute__((noreturn)) run_child(char *const *argv, const int gate[2], int report)
{
    char byte;
    int go = gate[0];
    close(gate[1]); /* so that it sees the end of one who cannot seize it */
    if (read(go, &byte, 1) == 1)
        execvp(argv[0], argv);
    int e = errno;
    if (write(report, &e, sizeof e) != sizeof e)
        _exit(126);
    _exit(127);
}

/* The child is seized, and told to go on. */
static int set_off(struct cofi__fast_collector *c, pid_t pid, int go, struct cofi_error *error)
{
    long options = PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    c->child = pid;
    if (!ptrace(PTRACE_SEIZE, pid, 0, options) && write(go, "", 1) == 1)
        return 0;
    int e = errno;
    return cofi__fail(error, COFI_ERR_PERMISSION, COFI_NOWHERE, "cannot trace process %d: %s%s", pid, strerror(e),
                      cofi__proc_hint(e));
}

/* It ends by itself, but who traces it instead of us may not look. */
static void await_end(pid_t pid)
{
    for (int ms = 0; ms < 1000 && !waitpid(pid, NULL, WNOHANG | __WALL); ms++)
        usleep(1000);
}

static int spawn(struct cofi__fast_collector *c, int *report, struct cofi_error *error)
{
    int go[2], back[2];
    if (!cofi__open_pipes(go, back))
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    int e = errno;
    if (!pid)
        run_child(c->options->argv, go, back[1]);
    close(go[0]);
    close(back[1]);
    *report = back[0];
    int status = pid < 0 ? cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "fork: %s", strerror(e))
                         : set_off(c, pid, go[1], error);
    close(go[1]);
    if (pid > 0 && status < 0)
        await_end(pid);
    return status;
}

/* A child has stopped or ended: the kernel's word for it rings the bell, too, for nobody else does. */
static uint32_t *child_bell;
static struct sigaction old_on_child;

static void on_child(int signo, siginfo_t *info, void *context)
{
    int e = errno;
    uint32_t *bell = __atomic_load_n(&child_bell, __ATOMIC_ACQUIRE);
    if (bell) {
        __atomic_add_fetch(bell, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, bell, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (old_on_child.sa_flags & SA_SIGINFO)
        old_on_child.sa_sigaction(signo, info, context);
    else if (old_on_child.sa_handler != SIG_DFL && old_on_child.sa_handler != SIG_IGN)
        old_on_child.sa_handler(signo);
    errno = e;
}

/* After the command was forked: what it inherits is the old action. */
static void hear_children(struct cofi__fast_collector *c)
{
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    __atomic_store_n(&child_bell, &c->control->bell, __ATOMIC_RELEASE);
    sigaction(SIGCHLD, NULL, &old_on_child);
    sigaction(SIGCHLD, &action, NULL);
}

static void hear_no_more(void)
{
    sigaction(SIGCHLD, &old_on_child, NULL);
    __atomic_store_n(&child_bell, NULL, __ATOMIC_RELEASE);
}

static void wait_for_bell(struct cofi__fast_collector *c, uint32_t seen)
{
    struct timespec timeout = {0, 2000000};
    syscall(SYS_futex, &c->control->bell, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

/* Snapshots that a trigger or the user asked for. */
static void serve_snapshots(struct cofi__fast_collector *c)
{
    int asked = c->options->snapshots ? *c->options->snapshots : 0;
    if (asked == c->snapshots_seen && !c->triggered)
        return;
    c->snapshots_seen = asked;
    c->triggered = false;
    cofi__fast_snapshot(c);
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        struct thread *t = cofi__fast_slot(c, i);
        if (!t->head.asks)
            continue;
        t->head.asks = 0;
        cofi__fast_answer(t, 1);
    }
}

/* Let the kernel mark the shared memory when this thread dies, however it does [set_robust_list]. */
static void mark_owner(struct cofi__fast_collector *c, struct robust_list_head *mine, struct robust_list_head **old)
{
    size_t size;
    syscall(SYS_get_robust_list, 0, old, &size);
    *mine = (struct robust_list_head){.list = {&mine->list},
                                      .list_op_pending = (struct robust_list *)&c->control->owner};
    c->control->owner = (uint32_t)syscall(SYS_gettid);
    syscall(SYS_set_robust_list, mine, sizeof *mine);
}

/* Whether the user has let go of all that is recorded. Not before its first instruction, where the
 * kernel holds it for us. */
static bool is_released(const struct cofi__fast_collector *c)
{
    return c->options->release && *c->options->release && c->result->started;
}

/* Whether the recording is over, though not all that is recorded: that was let go of or attached to, or
 * the command has ended and left others behind. Their recording the user has stopped a second ago, for
 * who ends the command ends them too, most often. */
static bool is_left(struct cofi__fast_collector *c)
{
    const uint64_t second = 1000000000;
    uint64_t now = cofi__fast_now_ns();
    if (is_released(c))
        return true;
    bool stop = c->options->stop && *c->options->stop;
    if (!c->options->argv) /* nobody ends it together with us, and without trace there is nothing to stay for */
        return stop || c->ended;
    if (!c->child_ended)
        return false;
    if (stop && !c->stop_ns)
        c->stop_ns = now;
    if (!stop && !c->left_told && now > c->child_ended_ns + second) {
        c->left_told = true;
        if (c->options->left_behind)
            c->options->left_behind(c->options->opaque, cofi__fast_busy(c));
    }
    return stop && now > c->child_ended_ns + second && now > c->stop_ns + second;
}

static void run(struct cofi__fast_collector *c, struct cofi_error *error)
{
    unsigned rounds = 0;
    while (!c->child_ended || cofi__fast_busy(c)) {
        if (is_left(c)) {
            c->result->left = cofi__fast_leave(c);
            c->result->translated = cofi__fast_detach(c);
            return;
        }
        uint32_t seen = __atomic_load_n(&c->control->bell, __ATOMIC_ACQUIRE);
        cofi__fast_reap(c, error);
        bool any = cofi__fast_collect(c);
        cofi__fast_let_out(c);
        serve_snapshots(c);
        cofi__fast_progress(c);
        cofi__fast_watch_tracers(c);
        if (!any && (!c->child_ended || cofi__fast_busy(c)))
            wait_for_bell(c, seen);
        c->zombies_too = c->child_ended && rounds % 128 == 0; /* whose parents may never ask for them:
                                                               * nobody else is left, perhaps */
        if (++rounds % 32 == 0 || c->child_ended)
            cofi__fast_reap_lost(c);
        if (c->options->stop && *c->options->stop >= 2 && !c->child_ended)
            kill(c->child, SIGKILL);
    }
}

static int exec_error(struct cofi__fast_collector *c, int report, struct cofi_error *error)
{
    int e = 0;
    if (!c->result->started && read(report, &e, sizeof e) == sizeof e) {
        c->result->exec_errno = e;
        return cofi__fail(error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "%s: %s", c->options->argv[0], strerror(e));
    }
    return 0;
}

/* A process that is nobody's to wait for: its threads' ends are all that there is to see. */
static int attach(struct cofi__fast_collector *c, struct cofi_error *error)
{
    c->child = c->options->pid;
    COFI_TRY(cofi__fast_attach(c, error));
    c->result->started = c->child_ended = c->left_told = true;
    c->child_ended_ns = cofi__fast_now_ns();
    return 0;
}

static void record(struct cofi__fast_collector *c, struct cofi_error *error)
{
    struct robust_list_head mine, *old = NULL;
    if (c->options->started)
        *c->options->started = c->child;
    mark_owner(c, &mine, &old);
    hear_children(c);
    run(c, error);
    cofi__fast_follow_no_more(c);
    hear_no_more();
    syscall(SYS_set_robust_list, old, sizeof *old);
}

/* status, or else the first error of the writer. What was refused leaves no recording. */
static int close_recording(struct cofi__fast_collector *c, int status, struct cofi_error *error)
{
    struct cofi_error closing = {0};
    bool refused = (status < 0 || c->status < 0) && !c->result->tasks;
    int closed = refused ? cofi_writer_discard(c->writer, &closing) : cofi_writer_close(c->writer, &closing);
    if (status >= 0 && closed < 0 && error) /* the writer knows best what a write failed of */
        *error = closing;
    status = status < 0 ? status : closed;
    return status < 0 ? status : c->status;
}

static int make_recording(struct cofi__fast_collector *c, struct cofi_error *error)
{
    const struct cofi_fast_options *options = c->options;
    struct moment begin = now_by_both(CLOCK_MONOTONIC_RAW);
    int report = -1;
    int status = cofi__fast_collector_open(c, error);
    tell_time(&c->time, begin);
    if (status >= 0)
        status = cofi__fast_collector_begin(c, error);
    if (status >= 0)
        status = options->argv ? spawn(c, &report, error) : attach(c, error);
    if (status >= 0) {
        record(c, error);
        status = options->argv ? exec_error(c, report, error) : 0;
    }
    if (report >= 0)
        close(report);
    status = close_recording(c, status, error);
    cofi__fast_keep(&c->keeper);
    c->result->running = c->result->started && !c->child_ended ? c->child : 0;
    cofi__fast_collector_close(c);
    return status;
}

int cofi_fast_record(const struct cofi_fast_options *given, struct cofi_fast_result *result,
                     struct cofi_error *error)
{
    struct cofi_fast_options all, *options = &all;
    *result = (struct cofi_fast_result){0};
    if (error)
        *error = (struct cofi_error){0};
    COFI_TRY(cofi__sized(&all, sizeof all, given, offsetof(struct cofi_fast_options, path), error));
    COFI_TRY(cofi__target_check(options->argv, options->pid, error));
    COFI_TRY(cofi_fast_probe(error));
    struct cofi__fast_collector *c = calloc(1, sizeof *c); /* tens of KiB: not for a thread's stack */
    if (!c)
        return cofi__name_error(error, COFI_ERR_NOMEM);
    c->options = options;
    c->result = result;
    c->fd = c->code_fd = c->keeper.dir = -1;
    int status = make_recording(c, error);
    free(c);
    return cofi__name_error(error, status);
}

void cofi_fast_wait(struct cofi_fast_result *result, const volatile int *stop)
{
    while (result->running) {
        if (waitpid(result->running, &result->wait_status, __WALL) > 0 || errno != EINTR)
            result->running = 0;
        if (result->running && stop && *stop >= 2)
            kill(result->running, SIGKILL);
    }
}
