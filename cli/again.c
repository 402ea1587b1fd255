/* SPDX-License-Identifier: MIT
 * See again.h. All sideband, so that what is made up to any moment can be decoded; then thread by
 * thread, in the order in which they began. */
#include "again.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 256, PIECE = 1 << 20 };
/* Where the unseen kernel would be. */
static const uint64_t kernel_ip = UINT64_C(0xffffffff81000000);

struct again {
    const struct cofi_observer *const *observers;
    size_t observers_n;
    const struct cofi_recording_info *info;
    struct cofi_error *error;
    int status;
    const volatile int *stop;
    int stop_before;
    struct cofi_task task;
    struct cofi_context context;
    bool in_kernel, stamp;  /* stamp: code has changed, so a time is due */
    uint8_t way_in;         /* enum cofi_far, or COFI_FAR_KINDS */
    uint64_t tsc, first_tsc;
    uint64_t reached;       /* where the block that was shown last begins, or user code since the kernel returned */
    bool pending;           /* last's branch waits for what comes next */
    struct cofi_flow_block last;
    struct cofi_flow_insn branch;
};

static void keep(struct again *a, int status)
{
    if (status < 0 && !a->status)
        a->status = status;
}

static void tell(struct again *a, const struct cofi_event *event)
{
    for (size_t i = 0; i < a->observers_n; i++)
        if (a->observers[i]->event)
            keep(a, a->observers[i]->event(a->observers[i]->opaque, &a->task, event));
}

static struct cofi_event clock_event(const struct again *a, uint8_t kind)
{
    return (struct cofi_event){.kind = kind, .vector = COFI_NO_VECTOR, .tsc = a->tsc, .cycles = a->tsc - a->first_tsc};
}

static void tell_clock(struct again *a, uint8_t kind)
{
    struct cofi_event event = clock_event(a, kind);
    tell(a, &event);
}

static void take_time(struct again *a, const struct cofi_flow_time *time)
{
    if (time->known && time->ticks > a->tsc)
        a->tsc = time->ticks;
}

/* ---- to the kernel and back ---- */

static void enter_kernel(struct again *a, struct cofi_event event)
{
    tell_clock(a, COFI_EV_CLOCK);
    a->context.cpl = 0;
    event.context_set = true;
    event.after = a->context;
    event.target = kernel_ip;
    tell(a, &event);
    a->in_kernel = true;
    a->way_in = event.kind == COFI_EV_FAR ? event.cause : COFI_FAR_KINDS;
}

static void interrupt(struct again *a, uint64_t ip)
{
    enter_kernel(a, (struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .vector = 0xfd, .ip = ip,
                                        .next = ip});
}

static void leave_kernel(struct again *a, uint64_t ip)
{
    uint8_t way = a->way_in == COFI_FAR_SYSCALL    ? COFI_FAR_SYSRET
                  : a->way_in == COFI_FAR_SYSENTER ? COFI_FAR_SYSEXIT
                                                   : COFI_FAR_IRET;
    tell_clock(a, COFI_EV_WAKE);
    a->context.cpl = 3;
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = way, .vector = COFI_NO_VECTOR, .ip = kernel_ip,
                               .next = kernel_ip + 2, .target = ip, .context_set = true, .after = a->context};
    tell(a, &event);
    a->in_kernel = a->stamp = false;
    a->reached = ip;
}

/* ---- branches ---- */

static struct cofi_event branch_event(const struct again *a, uint64_t to)
{
    struct cofi_event event = {.kind = (uint8_t)cofi_event_of_class(a->branch.cls), .vector = COFI_NO_VECTOR,
                               .ip = a->branch.ip, .next = a->last.end, .target = to};
    if (event.kind == COFI_EV_JCC) {
        event.target = a->last.target;
        event.taken = event.target != event.next && to == event.target;
    } else if (event.kind == COFI_EV_FAR) {
        event.cause = a->branch.far;
    } else if (a->branch.cls == COFI_CLASS_TSX && to != event.next) {
        event.kind = COFI_EV_XABORT;
    }
    return event;
}

/* Execution went on at ip. */
static void resolve(struct again *a, uint64_t ip)
{
    if (a->pending) {
        struct cofi_event event = branch_event(a, ip);
        tell(a, &event);
    }
    a->pending = false;
}

static void show_block(struct again *a, const struct cofi_flow_block *block)
{
    resolve(a, block->ip);
    if (a->stamp && !a->in_kernel) {
        interrupt(a, block->ip);
        leave_kernel(a, block->ip);
    }
    a->reached = block->ip;
    a->last = *block;
    a->branch = block->insns[block->n - 1];
    a->pending = true;
}

static void refuse(struct again *a, const struct cofi_flow_event *event, const char *what)
{
    if (a->status >= 0)
        snprintf(a->error->text, sizeof a->error->text, "thread %d, offset 0x%" PRIx64 ": %s", (int)a->task.tid,
                 event->offset, what);
    keep(a, COFI_ERR_BAD_FORMAT);
}

/* Tracing ends by the instruction that ran last: it went to the kernel. */
static void show_disabled(struct again *a, const struct cofi_flow_event *event)
{
    struct cofi_event far = branch_event(a, kernel_ip);
    if (!a->pending || far.kind != COFI_EV_FAR) {
        refuse(a, event, "tracing ends where no transfer to the kernel is");
        return;
    }
    a->pending = false;
    enter_kernel(a, far);
}

/* ---- threads ---- */

static void begin_thread(struct again *a)
{
    a->context = (struct cofi_context){.cr3 = (uint64_t)a->task.pid << 12, .vmcs = UINT64_MAX, .mode = 64,
                                       .iflag = true, .cr0_pg = true};
    a->in_kernel = true;
    a->pending = a->stamp = false;
    a->way_in = COFI_FAR_KINDS;
    struct cofi_event clock = clock_event(a, COFI_EV_CLOCK);
    for (size_t i = 0; i < a->observers_n; i++)
        if (a->observers[i]->begin)
            keep(a, a->observers[i]->begin(a->observers[i]->opaque, &a->task, &a->context, &clock));
}

static void end_thread(struct again *a)
{
    for (size_t i = 0; i < a->observers_n; i++)
        if (a->observers[i]->end)
            keep(a, a->observers[i]->end(a->observers[i]->opaque, &a->task));
    a->task.index++;
}

/* Packets are missing. What the block that was shown last did is not known to its end; as if a full
 * buffer had stopped the trace before it, and what follows is a trace of its own. */
static void show_loss(struct again *a, const struct cofi_flow_event *event)
{
    if (!a->in_kernel)
        interrupt(a, a->reached);
    end_thread(a);
    begin_thread(a);
    if (event->target != COFI_NO_IP)
        leave_kernel(a, event->target);
}

static void show_event(struct again *a, const struct cofi_flow_event *event)
{
    take_time(a, &event->time);
    if (event->kind == COFI_FLOW_ENABLED && a->in_kernel) {
        leave_kernel(a, event->target);
    } else if (event->kind == COFI_FLOW_DISABLED) {
        show_disabled(a, event);
    } else if (event->kind == COFI_FLOW_ASYNC_DISABLED) {
        resolve(a, event->ip);
        interrupt(a, event->ip);
    } else if (event->kind == COFI_FLOW_CODE) {
        a->stamp = true;
    } else if (event->kind == COFI_FLOW_OVERFLOW) {
        show_loss(a, event);
    } else if (event->kind == COFI_FLOW_GAP) {
        refuse(a, event, event->text ? event->text : "the trace has a gap");
    }
}

static bool is_stopped(struct again *a)
{
    if (a->status >= 0 && *a->stop != a->stop_before) {
        snprintf(a->error->text, sizeof a->error->text, "stopped by a signal while a unit's packets were made");
        keep(a, COFI_ERR_SYSTEM);
    }
    return a->status < 0;
}

static void walk(struct again *a, struct cofi_flow *flow)
{
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[EVENTS];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events,
                                    .events_max = EVENTS};
    int more = 1;
    while (!is_stopped(a) && (more = cofi_flow_next(flow, &batch)) > 0) {
        size_t e = 0;
        for (size_t b = 0; b <= batch.blocks_n; b++) {
            for (; e < batch.events_n && events[e].at <= b; e++)
                show_event(a, &events[e]);
            if (b < batch.blocks_n)
                show_block(a, blocks[b]);
        }
    }
    keep(a, more);
}

/* The bytes of one stream, piece by piece; what has been decoded is not needed in memory any more. */
struct source {
    struct cofi_recording *recording;
    size_t index;
    uint64_t kept, position, bytes; /* [kept, position) is the piece that was given last */
};

static const uint8_t *pull(void *opaque, size_t *n)
{
    struct source *s = opaque;
    const uint8_t *piece = NULL;
    cofi_recording_unneeded(s->recording, s->index, s->kept, s->position - s->kept);
    *n = 0;
    if (s->position < s->bytes)
        piece = cofi_recording_bytes(s->recording, s->index, s->position, n);
    if (*n > PIECE)
        *n = PIECE;
    s->kept = s->position;
    s->position += *n;
    return piece;
}

static void decode(struct again *a, struct cofi_recording *recording, size_t index)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, index);
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    struct source source = {.recording = recording, .index = index, .bytes = s->bytes};
    cofi_flow_config_init(&config, a->info->gen);
    config.pull = pull;
    config.opaque = &source;
    config.image = cofi_recording_image(recording, s->pid);
    config.time = a->info->time;
    config.reference_tsc = s->reference_tsc;
    config.breaks = cofi_recording_breaks(recording, index, &config.breaks_n);
    config.ctl_known = true;
    config.ctl = a->info->config;
    int status = cofi_flow_open(&flow, &config);
    keep(a, status);
    if (status >= 0) {
        walk(a, flow);
        cofi_flow_close(flow);
    }
}

static void tell_thread(struct again *a, struct cofi_recording *recording, size_t index)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, index);
    a->task.pid = s->pid;
    a->task.tid = s->tid;
    a->tsc = a->first_tsc = s->reference_tsc;
    begin_thread(a);
    decode(a, recording, index);
    end_thread(a);
}

static void tell_sideband(struct again *a, const struct cofi_recording *recording)
{
    const struct cofi_sideband *sb;
    for (size_t next = 0; a->status >= 0 && (sb = cofi_recording_sideband(recording, next)); next++)
        for (size_t i = 0; i < a->observers_n && sb->kind != COFI_SB_AUX; i++)
            if (a->observers[i]->sideband)
                keep(a, a->observers[i]->sideband(a->observers[i]->opaque, sb));
}

/* By when they begin. */
static int compare_streams(const void *a, const void *b, void *recording)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    uint64_t x = cofi_recording_stream(recording, i)->reference_tsc,
             y = cofi_recording_stream(recording, k)->reference_tsc;
    return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

int again_tell(struct cofi_recording *recording, const struct cofi_observer *const *observers, size_t n,
               const volatile int *stop, struct cofi_error *error)
{
    struct again a = {.observers = observers, .observers_n = n, .info = cofi_recording_info(recording), .error = error,
                      .stop = stop, .stop_before = *stop};
    size_t streams = cofi_recording_streams(recording);
    size_t *order = calloc(streams + 1, sizeof *order);
    if (!order)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < streams; i++)
        order[i] = i;
    qsort_r(order, streams, sizeof *order, compare_streams, recording);
    tell_sideband(&a, recording);
    for (size_t i = 0; a.status >= 0 && i < streams; i++)
        tell_thread(&a, recording, order[i]);
    free(order);
    return a.status;
}
