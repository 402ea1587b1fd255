/* SPDX-License-Identifier: MIT
 * Whether the recording has room, what is done when it has none, and how far it is. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/fast/collect.h"

/* What is kept free for sideband and tables, and for what the writer buffers of each thread. */
enum { SPARE = 512 << 10, SPARE_A_THREAD = 256 << 10 };

uint64_t cofi__fast_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Bytes that can be added to the recording's file. */
static uint64_t bytes_left(const struct cofi__fast_collector *c)
{
    struct statvfs fs;
    struct stat st;
    struct rlimit limit;
    uint64_t left = UINT64_MAX;
    if (!statvfs(c->options->path, &fs))
        left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && !stat(c->options->path, &st)) {
        uint64_t size = (uint64_t)st.st_size;
        uint64_t rest = limit.rlim_cur > size ? limit.rlim_cur - size : 0;
        left = rest < left ? rest : left;
    }
    return left;
}

/* Threads are counted only where it matters how many they are: of thousands that is far more than the
 * write itself takes. */
static bool fits(const struct cofi__fast_collector *c, size_t n)
{
    uint64_t left = bytes_left(c), needed = SPARE + n;
    return left >= needed + (uint64_t)cofi__fast_slots(c) * SPARE_A_THREAD ||
           left >= needed + (uint64_t)cofi__fast_busy(c) * SPARE_A_THREAD;
}

/* Few writes, unless a size is to be kept to, or room is scarce. */
size_t cofi__fast_piece(const struct cofi__fast_collector *c, size_t bytes)
{
    enum { LARGE = 1 << 20, SMALL = 128 << 10, LEAST = 16 << 10 };
    size_t most = c->options->max_bytes ? SMALL : LARGE, piece = bytes < most ? bytes : most;
    while (c->writer && piece > LEAST && !fits(c, piece))
        piece /= 2;
    return piece;
}

static void tell(struct cofi__fast_collector *c, bool waiting)
{
    uint64_t now = cofi__fast_now_ns();
    c->begin_ns = c->begin_ns ? c->begin_ns : now;
    c->progress_ns = c->progress_ns ? c->progress_ns : now;
    if (!c->options->progress || now - c->progress_ns < 500000000u)
        return;
    c->progress_ns = now;
    struct cofi_fast_progress p = {c->result->bytes, now - c->begin_ns, cofi__fast_busy(c), waiting};
    c->options->progress(c->options->opaque, &p);
}

void cofi__fast_progress(struct cofi__fast_collector *c)
{
    tell(c, false);
}

/* Take no more trace: threads go on untraced. */
static void end_recording(struct cofi__fast_collector *c, enum cofi_fast_end why)
{
    c->result->ended = why;
    c->ended = true;
    c->control->stopped = 1;
}

/* Whether the command has ended, and nobody has looked yet. */
static bool command_is_over(const struct cofi__fast_collector *c)
{
    siginfo_t info = {0};
    return c->child_ended ||
           (c->child > 0 && !waitid(P_PID, (id_t)c->child, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid);
}

/* The first request is the command's, if it is there. */
static bool wants_end(const struct cofi__fast_collector *c)
{
    int requests = c->options->stop ? *c->options->stop : 0;
    return requests >= 2 || (requests && command_is_over(c));
}

bool cofi__fast_has_room(struct cofi__fast_collector *c, size_t n)
{
    if (c->ended)
        return false;
    if (!c->writer)
        return true;
    if (c->options->max_bytes && c->result->bytes >= c->options->max_bytes) {
        end_recording(c, COFI_FAST_MAX_SIZE);
        return false;
    }
    while (!fits(c, n)) {
        if (c->options->on_full == COFI_FAST_DROP)
            return false;
        if (c->options->on_full == COFI_FAST_END || wants_end(c)) {
            end_recording(c, COFI_FAST_NO_ROOM);
            return false;
        }
        struct timespec pause = {0, 50000000};
        nanosleep(&pause, NULL);
        tell(c, true);
    }
    return true;
}
