/* SPDX-License-Identifier: MIT
 * Slots -> recording: notes become sideband, chunks of log become packets. */
#include "host/fast/collect.h"
#include "host/fast/memo.h"
#include "host/fast/inject.h"
#include "host/fast/limits.h"
#include "host/proc.h"
#include "host/transactions.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

enum {
    SLOTS_MIN = 256,
    CHUNKS = 3,                /* of a complete recording: one that the thread fills, one that is taken,
                                * one between them */
    CHUNK_BYTES = 1 << 20,     /* each costs a fault, a PSB+, two system calls to wake someone and a write */
    CHUNK_BYTES_MIN = 64 << 10,
    PSB_BYTES = 64 << 10,      /* decision 0728 */
    CACHE_BYTES_MIN = 128 << 10, /* less than we promise: tests have 192 KiB */
    PSB_BYTES_MIN = 2 << 10, PSB_BYTES_MAX = 64 << 20,
    RING_CHUNKS = 4,           /* of a flight recorder, at least */
    COLD_RUNS = 1000
};
static const uint64_t BYTES_MAX = UINT64_C(1) << 47; /* no process has more */

struct thread *cofi__fast_slot(const struct cofi__fast_collector *c, uint32_t index)
{
    return (struct thread *)(c->shared + (index + 1) * c->made.slot_bytes);
}

/* The program may have written over what it says. */
uint32_t cofi__fast_slots(const struct cofi__fast_collector *c)
{
    uint32_t used = __atomic_load_n(&c->control->slots_used, __ATOMIC_ACQUIRE);
    used = used < c->made.slots ? used : c->made.slots;
    return used > c->made.slots_used ? used : c->made.slots_used;
}

uint32_t cofi__fast_maker(const struct cofi__fast_collector *c, const struct thread *t)
{
    return t->head.maker % c->made.slots;
}

/* A slot's size in bytes. An odd number of pages: what all slots have at the same place is then not all
 * in the same few sets of a cache. */
static uint64_t slot_bytes(const struct cofi__fast_control *k)
{
    uint64_t pages = (cofi__fast_chunk_offset(k, k->chunks) + COFI__FAST_GUARD + 4095) / 4096;
    return (pages | 1) * 4096;
}

/* The chunks of each thread's log. Each begins with a PSB. */
static void size_chunks(struct cofi__fast_control *k, const struct cofi_fast_options *o)
{
    uint64_t bytes = CHUNK_BYTES;
    k->chunks = CHUNKS;
    if (o->snapshot_bytes) {
        k->chunks = RING_CHUNKS;
        bytes = o->snapshot_bytes < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : o->snapshot_bytes;
        bytes = bytes < BYTES_MAX ? bytes : BYTES_MAX;
        while (bytes / k->chunks > 8 << 20 && k->chunks < COFI__FAST_CHUNKS_MAX)
            k->chunks *= 2;
        bytes /= k->chunks;
    }
    k->chunk_bytes = (bytes + 4095) & ~4095ull;
}

static uint64_t psb_bytes(const struct cofi_fast_options *o)
{
    uint64_t bytes = o->psb_bytes ? o->psb_bytes : PSB_BYTES;
    return bytes < PSB_BYTES_MIN ? PSB_BYTES_MIN : bytes > PSB_BYTES_MAX ? PSB_BYTES_MAX : bytes;
}

static uint64_t cache_bytes(const struct cofi_fast_options *o)
{
    return o->cache_bytes && o->cache_bytes < CACHE_BYTES_MIN ? CACHE_BYTES_MIN : o->cache_bytes;
}

/* TraceEn, User, TSCEn, DisRETC, BranchEn, PSBFreq as far as it says so much [SDM IA32_RTIT_CTL]. */
static uint64_t config(const struct cofi_fast_options *o)
{
    uint64_t freq = 63 - (unsigned)__builtin_clzll(psb_bytes(o)) - 11;
    return 0x2c09 | freq << 24;
}

/* AMD's processors do LOOP in one operation, Intel's in seven or more. Neither has a flag for it. */
static bool loops_are_fast(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && c == signature_AMD_ecx;
}

static bool has_xsave(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE;
}

/* They are counted in 16 bits. */
static uint32_t cold_runs(const struct cofi_fast_options *o)
{
    uint32_t runs = o->cold_runs ? o->cold_runs : COLD_RUNS;
    return runs < UINT16_MAX ? runs : UINT16_MAX;
}

/* As far as they can be told; the runtime compares. */
static struct cofi__fast_names our_names(void)
{
    struct stat root = {0}, mounts = {0};
    stat("/", &root);
    stat("/proc/self/ns/mnt", &mounts);
    return (struct cofi__fast_names){root.st_dev, root.st_ino, mounts.st_ino};
}

static uint64_t limit_of(pid_t pid, int resource, bool hard)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    prlimit(pid, (enum __rlimit_resource)resource, NULL, &limit);
    return hard ? limit.rlim_max : limit.rlim_cur;
}

/* As many as limits leave room for: of the program's memory, half of which is its own, and of our files'
 * sizes, as make_memory raises it. */
static uint32_t count_slots(const struct cofi__fast_control *k, pid_t pid)
{
    struct cofi__fast_control none = *k;
    none.slots = 0;
    uint64_t memory = limit_of(pid, RLIMIT_AS, false) / 2, own = cofi__fast_least_room(&none, RLIMIT_AS);
    uint64_t slots = memory > own ? (memory - own) / k->slot_bytes : 0,
             files = limit_of(0, RLIMIT_FSIZE, true) / k->slot_bytes;
    if (files <= slots)
        slots = files ? files - 1 : 0;
    return slots > COFI__FAST_SLOTS_MAX ? COFI__FAST_SLOTS_MAX : slots < SLOTS_MIN ? SLOTS_MIN : (uint32_t)slots;
}

static void fill_control(struct cofi__fast_collector *c, struct cofi__fast_control *k)
{
    const struct cofi_fast_options *o = c->options;
    *k = (struct cofi__fast_control){.drop = o->on_full == COFI_FAST_DROP,
                                     .keep_all = !o->snapshot_bytes && !o->no_trace,
                                     .follow = !o->no_follow,
                                     .trace = !o->no_trace,
                                     .cache_bytes = cache_bytes(o),
                                     .loops = loops_are_fast(),
                                     .transactions = cofi__has_transactions(),
                                     .xsave = has_xsave(),
                                     .claims = o->claims || cofi__fast_promises_are_kept(),
                                     .cold_runs = cold_runs(o),
                                     .collector = getpid()};
    k->names = our_names();
    if (!o->all_code)
        clock_gettime(CLOCK_REALTIME, &k->began);
    k->limits = cofi__fast_limits_to_come(o->pid);
    size_chunks(k, o);
    for (size_t i = 0; o->filters && i < o->filters->n; i++) {
        const struct cofi_filter *f = &o->filters->filter[i];
        uint64_t file = f->path ? cofi__fast_hash(f->path, strlen(f->path)) : 0;
        k->filter[k->filters++] = (struct cofi__fast_filter){.file = file, .start = f->start, .action = f->action,
                                                             .end = f->start + (f->size ? f->size : 1)};
    }
    k->slot_bytes = slot_bytes(k);
    k->slots = count_slots(k, o->pid);
    k->store_bytes = k->slots == COFI__FAST_SLOTS_MAX && !k->claims ? COFI__FAST_STORE_BYTES : 0;
}

int cofi__fast_collector_begin(struct cofi__fast_collector *c, struct cofi_error *error)
{
    const struct cofi_fast_options *o = c->options;
    if (!o->path || o->no_trace)
        return 0;
    struct cofi_recording_info info = {.size = sizeof info, .gen = COFI_PT, .config = config(o), .time = c->time,
                                       .command = o->command};
    char filter[COFI_FILTERS_MAX * 512];
    size_t n = o->filters ? cofi_filters_text(o->filters, filter, sizeof filter) : 0;
    if (n && n < sizeof filter) /* a part of it would be another filter */
        info.filter = filter;
    return cofi_writer_open(&c->writer, o->path, &info, error);
}

/* The files that programs open. The limit of files' sizes, which is not meant for them, is raised
 * meanwhile as far as it may be. */
static bool make_memory(struct cofi__fast_collector *c)
{
    struct rlimit old, most;
    bool limited = !getrlimit(RLIMIT_FSIZE, &old);
    most = (struct rlimit){old.rlim_max, old.rlim_max};
    if (limited)
        setrlimit(RLIMIT_FSIZE, &most);
    c->code_fd = cofi__fast_code_file();
    c->fd = memfd_create("cofi", MFD_CLOEXEC);
    bool made = c->fd >= 0 && !ftruncate(c->fd, (off_t)c->shared_bytes);
    int error = errno;
    if (limited)
        setrlimit(RLIMIT_FSIZE, &old);
    errno = error;
    return made;
}

int cofi__fast_collector_open(struct cofi__fast_collector *c, struct cofi_error *error)
{
    fill_control(c, &c->made);
    c->shared_bytes = cofi__fast_shared_bytes(&c->made);
    c->seats = calloc(c->made.slots, sizeof *c->seats);
    c->memo = calloc(1, sizeof *c->memo);
    if (!c->seats || !c->memo)
        return cofi__fail(error, COFI_ERR_NOMEM, COFI_NOWHERE, "out of memory");
    if (!make_memory(c))
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "no memory to share with the program: %s",
                          strerror(errno));
    c->shared = mmap(NULL, c->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->fd, 0);
    if (c->shared == MAP_FAILED)
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "no memory to share with the program: %s",
                          strerror(errno));
    c->control = (struct cofi__fast_control *)c->shared;
    *c->control = c->made;
    if (c->options->argv)
        cofi__fast_keeper_open(&c->keeper, c->options->kept_code, &c->made, c->shared, c->fd);
    return 0;
}

void cofi__fast_collector_close(struct cofi__fast_collector *c)
{
    for (uint32_t i = 0; c->control && i < cofi__fast_slots(c); i++)
        cofi__fast_encoder_fini(&c->seats[i].encoder);
    if (c->control) {
        c->control->stopped = c->control->gone = 1;
        c->result->flushes = c->control->flushes;
        c->result->adopted = c->control->adopted;
    }
    cofi__fast_keeper_close(&c->keeper);
    free(c->seats);
    free(c->followed);
    free(c->memo);
    cofi__map_free(&c->files);
    cofi__namespaces_free(&c->namespaces);
    if (c->shared && c->shared != MAP_FAILED)
        munmap(c->shared, c->shared_bytes);
    if (c->fd >= 0)
        close(c->fd);
    if (c->code_fd >= 0)
        close(c->code_fd);
}

void cofi__fast_keep_error(struct cofi__fast_collector *c, int status)
{
    if (status < 0 && !c->status)
        c->status = status;
    if (status < 0)
        c->ended = true;
    if (c->ended)
        c->control->stopped = 1;
}

void cofi__fast_sideband(struct cofi__fast_collector *c, struct cofi_sideband *sb, uint64_t tsc)
{
    if (!c->writer)
        return;
    sb->time_ns = cofi_time_ns(&c->time.conv, tsc);
    sb->cpu = UINT32_MAX;
    cofi__fast_keep_error(c, cofi_writer_sideband(c->writer, sb));
}

void cofi__fast_comm(struct cofi__fast_collector *c, int32_t pid, int32_t tid, uint64_t tsc, bool exec)
{
    char name[64] = "?";
    cofi__proc_comm(tid, name, sizeof name);
    struct cofi_sideband sb = {.kind = COFI_SB_COMM, .pid = pid, .tid = tid, .name = name, .exec = exec};
    cofi__fast_sideband(c, &sb, tsc);
}

/* ---- packets ---- */

void cofi__fast_write_out(struct cofi__fast_collector *c, struct cofi__fast_seat *seat)
{
    struct cofi__fast_encoder *e = &seat->encoder;
    if (c->writer && e->used && !seat->alien && !c->ended) {
        c->result->bytes += e->used;
        cofi__fast_keep_error(c, cofi_writer_trace(c->writer, seat->pid, seat->tid, e->out, e->used,
                                                   seat->told_tsc ? seat->told_tsc : e->first_tsc));
    }
    seat->told_tsc = e->tsc;
    cofi__fast_encode_emptied(e);
}

size_t cofi__fast_take_log(struct cofi__fast_collector *c, struct cofi__fast_seat *seat, const uint8_t *log,
                           size_t bytes)
{
    seat->encoder.memo = c->memo;
    seat->encoder.psb_bytes = psb_bytes(c->options);
    size_t i = 0;
    while (i < bytes) {
        size_t piece = cofi__fast_piece(c, bytes - i);
        if (!cofi__fast_has_room(c, piece)) {
            c->result->lost_bytes += bytes - i;
            cofi__fast_encode_lost(&seat->encoder);
            return bytes;
        }
        long took = cofi__fast_encode(&seat->encoder, log + i, piece);
        cofi__fast_write_out(c, seat);
        if (took <= 0) {
            cofi__fast_keep_error(c, (int)took);
            return took ? bytes : i;
        }
        i += (size_t)took;
        c->result->log_bytes += (size_t)took;
    }
    return i;
}

void cofi__fast_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0); }

static void take_chunk(struct cofi__fast_collector *c, struct thread *t, struct cofi__fast_seat *seat, uint64_t number)
{
    const struct cofi__fast_control *k = &c->made;
    uint32_t chunk = (uint32_t)(number % k->chunks);
    uint64_t used = t->head.used[chunk];
    cofi__fast_take_log(c, seat, (uint8_t *)t + cofi__fast_chunk_offset(k, chunk),
                        used < k->chunk_bytes ? used : k->chunk_bytes);
}

/* Complete recordings: chunks that the thread has filled. Where there seem to be more than there are,
 * the program has written over what tells: they are lost. */
static bool take_chunks(struct cofi__fast_collector *c, struct thread *t, struct cofi__fast_seat *seat)
{
    bool any = false;
    uint64_t full, drained;
    while (c->made.keep_all &&
           (drained = t->head.drained) != (full = __atomic_load_n(&t->head.full, __ATOMIC_ACQUIRE))) {
        if (full - drained > c->made.chunks) {
            cofi__fast_encode_lost(&seat->encoder);
            drained = full - 1;
        } else {
            take_chunk(c, t, seat, drained);
        }
        __atomic_store_n(&t->head.drained, drained + 1, __ATOMIC_RELEASE);
        __atomic_add_fetch(&t->head.drained_word, 1, __ATOMIC_SEQ_CST);
        cofi__fast_wake(&t->head.drained_word);
        any = true;
    }
    return any;
}

/* The chunk that the thread has not filled. One that was killed has not said how much of it is to be
 * cleared for who has the slot next: what was written, and a record that was begun. */
static void take_last(struct cofi__fast_collector *c, struct thread *t, struct cofi__fast_seat *seat, uint32_t chunk)
{
    uint64_t bytes = c->made.chunk_bytes;
    uint64_t end = cofi__fast_take_log(c, seat, (uint8_t *)t + cofi__fast_chunk_offset(&c->made, chunk), bytes) +
                   COFI__FAST_CONTROL_BYTES;
    if (t->head.dirty[chunk] == bytes && end < bytes)
        t->head.dirty[chunk] = end;
}

/* What the thread wrote since its last full chunk; in a flight recorder, the whole ring. */
static void take_rest(struct cofi__fast_collector *c, uint32_t index)
{
    struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    const struct cofi__fast_control *k = &c->made;
    uint32_t chunk = t->head.chunk;
    take_chunks(c, t, seat);
    if (!k->keep_all)
        cofi__fast_take_ring(c, index, false);
    /* Killed between two chunks, the thread has no other than the full ones. */
    else if (chunk == t->head.full % k->chunks)
        take_last(c, t, seat, chunk);
    if (cofi__fast_encode_end(&seat->encoder) == 0)
        cofi__fast_encode_over(&seat->encoder, __builtin_ia32_rdtsc());
    c->result->branches += seat->alien ? 0 : seat->encoder.branches;
    cofi__fast_write_out(c, seat);
    if (c->writer)
        cofi__fast_keep_error(c, cofi_writer_idle(c->writer, seat->tid));
}

/* ---- slots ---- */

static void begin_seat(struct cofi__fast_collector *c, uint32_t index)
{
    struct thread *t = cofi__fast_slot(c, index);
    struct cofi__fast_seat *seat = &c->seats[index];
    if (seat->known || t->head.state < COFI__FAST_SLOT_LIVE)
        return;
    seat->known = true;
    cofi__fast_place(c, index);
    seat->alien = c->options->no_follow && seat->pid != c->child;
    bool counts = !seat->again && !seat->alien && !c->ended;
    c->result->tasks += counts;
    c->result->processes += counts && seat->pid == seat->tid;
}

/* Who was made by the thread of a slot will still be asked for its parent. */
static void tell_children(struct cofi__fast_collector *c, uint32_t index)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        const struct thread *t = cofi__fast_slot(c, i);
        struct cofi__fast_seat *seat = &c->seats[i];
        if (t->head.state == COFI__FAST_SLOT_FREE || !(t->head.nested || t->head.vfork) || t->head.maker != index ||
            seat->maker_pid)
            continue;
        seat->maker_pid = c->seats[index].pid;
        seat->maker_tid = c->seats[index].tid;
    }
}

struct thread *cofi__fast_take_slot(struct cofi__fast_collector *c, uint32_t *index)
{
    for (uint32_t i = 0; i < c->made.slots; i++) {
        struct thread *t = cofi__fast_slot(c, i);
        uint32_t free = COFI__FAST_SLOT_FREE;
        if (__atomic_compare_exchange_n(&t->head.state, &free, COFI__FAST_SLOT_TAKEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            *index = i;
            if (c->control->slots_used < i + 1)
                c->control->slots_used = i + 1;
            t->head.full = t->head.drained = t->head.notes_head = t->head.notes_tail = 0;
            t->head.chunk = t->head.looked = 0;
            t->head.vfork = 0;
            return t;
        }
    }
    return NULL;
}

void cofi__fast_vacate(struct cofi__fast_collector *c, uint32_t index)
{
    struct thread *t = cofi__fast_slot(c, index);
    cofi__fast_encoder_fini(&c->seats[index].encoder);
    c->seats[index] = (struct cofi__fast_seat){0};
    cofi__fast_forget_child(&t->head);
    t->head.asked_for = t->head.claims = t->head.leaves = 0;
    t->head.tid = 0;
    t->head.nested = t->head.thread = 0; /* who takes the slot next is nobody's child until it says so */
    __atomic_store_n(&t->head.state, COFI__FAST_SLOT_FREE, __ATOMIC_RELEASE);
    cofi__fast_freed(c->control, index);
}

bool cofi__fast_free_slot(struct cofi__fast_collector *c, uint32_t index)
{
    cofi__fast_take_notes(c, index);
    begin_seat(c, index);
    take_rest(c, index);
    if (cofi__fast_slot(c, index)->head.asked_for)
        tell_children(c, index);
    bool begun = c->seats[index].encoder.begun;
    cofi__fast_vacate(c, index);
    return begun;
}

uint32_t cofi__fast_state(const struct cofi__fast_collector *c, uint32_t index)
{
    uint32_t state = __atomic_load_n(&cofi__fast_slot(c, index)->head.state, __ATOMIC_ACQUIRE);
    if (c->seats[index].known && state != COFI__FAST_SLOT_ENDED)
        return COFI__FAST_SLOT_LIVE;
    return state <= COFI__FAST_SLOT_ENDED ? state : COFI__FAST_SLOT_FREE;
}

/* The thread's number, if it is known and may have been another's; 0: it is not. */
static int32_t number_of(const struct cofi__fast_collector *c, uint32_t index)
{
    const struct thread *t = cofi__fast_slot(c, index);
    const struct cofi__fast_seat *seat = &c->seats[index];
    if (seat->placed)
        return seat->tid < COFI__FAST_NO_NUMBER ? seat->tid : 0;
    return t->head.nested ? 0 : t->head.tid;
}

/* Of the slots of threads that had the same number before, the one of the oldest; false: there is none. */
static bool find_namesake(const struct cofi__fast_collector *c, uint32_t index, uint32_t *oldest)
{
    uint64_t made = cofi__fast_slot(c, index)->made;
    int32_t number = number_of(c, index);
    bool found = false;
    for (uint32_t i = 0; number && i < cofi__fast_slots(c); i++) {
        const struct thread *t = cofi__fast_slot(c, i);
        if (number_of(c, i) != number || i == index || t->made >= made || cofi__fast_state(c, i) < COFI__FAST_SLOT_LIVE)
            continue;
        *oldest = i;
        made = t->made;
        found = true;
    }
    return found;
}

/* Whoever had its number has ended before: what those left comes first, for its FORK begins another stream. */
void cofi__fast_begin_slot(struct cofi__fast_collector *c, uint32_t index)
{
    uint32_t before;
    if (c->seats[index].known)
        return;
    cofi__fast_place(c, index);
    while (find_namesake(c, index, &before))
        cofi__fast_free_slot(c, before);
    begin_seat(c, index);
}

bool cofi__fast_collect(struct cofi__fast_collector *c)
{
    bool any = false;
    c->made.slots_used = cofi__fast_slots(c);
    for (uint32_t i = 0; i < c->made.slots_used; i++) {
        struct thread *t = cofi__fast_slot(c, i);
        uint32_t state = cofi__fast_state(c, i);
        if (state < COFI__FAST_SLOT_LIVE)
            continue; /* who is to begin there has not, and what it tells waits until then */
        cofi__fast_begin_slot(c, i);
        any |= cofi__fast_take_notes(c, i);
        if (state == COFI__FAST_SLOT_LIVE)
            any |= take_chunks(c, t, &c->seats[i]);
        if (state == COFI__FAST_SLOT_ENDED)
            cofi__fast_free_slot(c, i);
    }
    return any;
}

unsigned cofi__fast_busy(const struct cofi__fast_collector *c)
{
    unsigned busy = 0;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        busy += cofi__fast_state(c, i) != COFI__FAST_SLOT_FREE;
    return busy;
}

/* What a log leads to was told before, so notes are taken once more behind the logs. */
unsigned cofi__fast_leave(struct cofi__fast_collector *c)
{
    unsigned left = 0;
    cofi__fast_collect(c);
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].known) {
            take_chunks(c, cofi__fast_slot(c, i), &c->seats[i]);
            cofi__fast_take_live(c, i);
            c->result->branches += c->seats[i].encoder.branches;
            left++;
        }
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].known)
            cofi__fast_take_notes(c, i);
    return left;
}

bool cofi__fast_end_process(struct cofi__fast_collector *c, int32_t pid)
{
    bool begun = false;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        if (cofi__fast_state(c, i) < COFI__FAST_SLOT_LIVE)
            continue;
        cofi__fast_begin_slot(c, i);
        bool is_its = c->seats[i].pid == pid, is_first = c->seats[i].tid == pid;
        begun |= is_its && cofi__fast_free_slot(c, i) && is_first;
    }
    return begun;
}
