/* SPDX-License-Identifier: MIT
 * A recording's streams -> the last blocks of each thread of a process. See gdb_history.h. */
#include "gdb_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "last.h"

/* ---- a thread's blocks ---- */

/* The thread of that number; null: memory is out. */
static struct gdb_thread *thread_of(struct gdb_history *history, int32_t tid)
{
    for (size_t i = 0; i < history->n; i++)
        if (history->threads[i].tid == tid)
            return &history->threads[i];
    if (!array_grow(&history->threads, history->n, &history->room, sizeof *history->threads))
        return NULL;
    struct gdb_thread *thread = &history->threads[history->n++];
    *thread = (struct gdb_thread){.tid = tid};
    return thread;
}

static void drop_first(struct gdb_thread *thread)
{
    thread->insns -= thread->blocks[thread->from].n;
    thread->gaps -= thread->blocks[thread->from].last < thread->blocks[thread->from].first;
    thread->from++;
}

/* Blocks that were dropped are no more once they are more than half of all, so that each is moved but once. */
static int add(struct gdb_thread *thread, struct gdb_block block, uint64_t most)
{
    while (thread->from < thread->n && thread->insns >= most && thread->insns - thread->blocks[thread->from].n >= most)
        drop_first(thread);
    if (thread->from > thread->n / 2) {
        thread->n -= thread->from;
        memmove(thread->blocks, thread->blocks + thread->from, thread->n * sizeof *thread->blocks);
        thread->from = 0;
    }
    if (!array_grow(&thread->blocks, thread->n, &thread->room, sizeof *thread->blocks))
        return COFI_ERR_NOMEM;
    thread->blocks[thread->n++] = block;
    thread->insns += block.n;
    thread->gaps += block.last < block.first;
    return 0;
}

/* Several in a row are one, and before the first block there is none. */
static int add_gap(struct gdb_thread *thread, uint64_t ip, uint64_t most)
{
    const struct gdb_block *last = &thread->blocks[thread->n - (thread->n > 0)];
    if (thread->from == thread->n || last->last < last->first)
        return 0;
    uint64_t at = ip == COFI_NO_IP || !ip ? 1 : ip;
    return add(thread, (struct gdb_block){.first = at, .last = at - 1}, most);
}

/* ---- from the flow ---- */

struct reader {
    struct gdb_history *history;
    const struct session_stream *stream; /* what is shown now */
    struct gdb_thread *thread;           /* its thread; null: another process's */
};

static int select_thread(struct reader *reader)
{
    const struct session_stream *stream = reader->stream;
    reader->thread = NULL;
    if (stream->pid != reader->history->pid)
        return 0;
    reader->thread = thread_of(reader->history, stream->tid);
    if (!reader->thread)
        return COFI_ERR_NOMEM;
    snprintf(reader->thread->name, sizeof reader->thread->name, "%s", stream->comm);
    return 0;
}

static int take_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct reader *reader = opaque;
    int status = 0;
    (void)flow;
    for (size_t i = 0; i < n && !status && reader->thread; i++) {
        const struct cofi_flow_block *block = blocks[i];
        reader->thread->mode = block->mode;
        reader->thread->next = 0;
        reader->thread->behind = block->end;
        status = add(reader->thread, (struct gdb_block){block->ip, block->insns[block->n - 1].ip, block->n},
                     reader->history->last);
    }
    return status;
}

/* An exec ends the program that GDB would have to show besides: what ran before is left out. */
static int take_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct reader *reader = opaque;
    struct gdb_thread *thread = reader->thread;
    (void)flow;
    if (event->time.known && event->time.ns > reader->history->end_ns)
        reader->history->end_ns = event->time.ns;
    if (!thread)
        return 0;
    while (event->kind == COFI_FLOW_CODE && event->a && thread->from < thread->n)
        drop_first(thread);
    if ((event->kind == COFI_FLOW_ASYNC || event->kind == COFI_FLOW_ASYNC_DISABLED) && event->ip != COFI_NO_IP)
        thread->next = event->ip;
    bool missing = event->kind == COFI_FLOW_GAP || event->kind == COFI_FLOW_OVERFLOW;
    return missing ? add_gap(thread, event->ip, reader->history->last) : 0;
}

static int take_stream(void *opaque, struct session_stream *stream)
{
    struct reader *reader = opaque;
    reader->stream = stream;
    return select_thread(reader);
}

static int take_turn(void *opaque, struct cofi_flow *flow)
{
    (void)flow;
    return select_thread(opaque);
}

static int read_stream(struct reader *reader, size_t i)
{
    struct session_stream stream;
    session_stream(reader->history->session, i, &stream);
    if (stream.pid != reader->history->pid)
        return 0;
    int status = last_find(reader->history->session, i, reader->history->last);
    if (status < 0)
        return status;
    session_stream(reader->history->session, i, &stream);
    reader->stream = &stream;
    status = select_thread(reader);
    if (status >= 0 && reader->thread->n) /* a number used again, a snapshot later: what lies between is not known */
        status = add_gap(reader->thread, COFI_NO_IP, reader->history->last);
    if (status < 0)
        return status;
    return session_walk(&stream, &(struct session_visitor){take_blocks, take_event, NULL, reader});
}

/* A thread is where its last instruction is, or at the one that a fault kept from running; a gap behind
 * that is not between any. */
static int end_with_block(struct gdb_thread *thread, uint64_t most)
{
    while (thread->from < thread->n && !thread->blocks[thread->n - 1].n)
        thread->n--, thread->gaps--;
    if (thread->from == thread->n)
        return 0;
    thread->pc = thread->next ? thread->next : thread->blocks[thread->n - 1].last;
    return thread->next ? add(thread, (struct gdb_block){thread->next, thread->next, 1}, most) : 0;
}

/* Threads of which nothing is left are none to be shown. */
static void drop_empty(struct gdb_history *history)
{
    size_t n = 0;
    for (size_t i = 0; i < history->n; i++)
        if (history->threads[i].from < history->threads[i].n)
            history->threads[n++] = history->threads[i];
        else
            free(history->threads[i].blocks);
    history->n = n;
}

int gdb_history_read(struct gdb_history *history)
{
    struct session *session = history->session;
    struct reader reader = {.history = history};
    int status = 0;
    if (session_per_processor(session))
        status = session_walk_by_time(session, &(struct session_visitor){take_blocks, take_event, NULL, &reader,
                                                                         take_stream, take_turn, NULL});
    else
        for (size_t i = 0; i < session_streams(session) && status >= 0; i++)
            status = read_stream(&reader, i);
    for (size_t i = 0; i < history->n && status >= 0; i++)
        status = end_with_block(&history->threads[i], history->last);
    drop_empty(history);
    return status < 0 ? status : 0;
}

/* Where a thread ended, or one instruction later, which no packet tells: behind a system call that ended
 * it, or INT3 (1 byte), INT n (2). */
static bool may_stand_at(const struct gdb_thread *thread, uint64_t pc)
{
    bool is_behind_trap = thread->next && pc - thread->next <= 2;
    return pc == thread->pc || pc == thread->behind || is_behind_trap;
}

static int join(struct gdb_thread *thread, const struct gdb_core *core, uint64_t most)
{
    const struct gdb_core_thread *state = gdb_core_thread(core, thread->tid);
    uint64_t pc = state ? gdb_core_pc(core, state) : 0;
    if (!state || core->is_32 != (thread->mode == 32) || !may_stand_at(thread, pc))
        return 0;
    int status = pc != thread->pc ? add(thread, (struct gdb_block){pc, pc, 1}, most) : 0;
    thread->pc = pc;
    thread->state = state;
    return status < 0 ? status : 1;
}

int gdb_history_join(struct gdb_history *history, const struct gdb_core *core, size_t *n)
{
    const struct gdb_core_thread *first = NULL;
    *n = 0;
    for (size_t i = 0; i < history->n; i++) {
        int joined = join(&history->threads[i], core, history->last);
        if (joined < 0)
            return joined;
        *n += (size_t)joined;
        if (joined && (!first || history->threads[i].state < first)) {
            first = history->threads[i].state;
            history->shown = i;
        }
    }
    return 0;
}

void gdb_history_fini(struct gdb_history *history)
{
    for (size_t i = 0; i < history->n; i++)
        free(history->threads[i].blocks);
    free(history->threads);
}
