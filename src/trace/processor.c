/* SPDX-License-Identifier: MIT
 * Context switches -> which thread, and so which address space, a processor's stream shows when. */
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "image/image.h"
#include "trace/reader.h"

struct cofi__processor *cofi__processor(const struct cofi_recording *recording, int32_t cpu)
{
    const uint32_t *row = cofi__row(recording, ROW_OF_PROCESSOR, (uint32_t)cpu);
    return row ? (struct cofi__processor *)recording->processors.items + *row : NULL;
}

/* Who runs from this record on; false: it does not tell. */
bool cofi__who_runs(const struct cofi_sideband *sb, int32_t *pid, int32_t *tid)
{
    *pid = sb->pid;
    *tid = sb->tid;
    switch ((enum cofi_sideband_kind)sb->kind) {
    case COFI_SB_ITRACE_START: return true;
    case COFI_SB_SWITCH: return !sb->out;
    case COFI_SB_SWITCH_CPU: /* out: the record is the old thread's, and names the new one */
        if (sb->out) {
            *pid = sb->ppid;
            *tid = sb->ptid;
        }
        return true;
    case COFI_SB_LOST: return sb->tid > 0; /* the kernel has whom it interrupts in it */
    case COFI_SB_COMM:
    case COFI_SB_MMAP:
    case COFI_SB_FORK:
    case COFI_SB_EXIT:
    case COFI_SB_AUX:
    case COFI_SB_CODE:
    case COFI_SB_TEXT_POKE: break;
    }
    return false;
}

static int add_turn(struct cofi_recording *recording, struct cofi__processor *processor, uint64_t time_ns,
                    int32_t pid, int32_t tid)
{
    struct cofi__turn_row *row = cofi__vector_push(&processor->turns);
    if (!row)
        return COFI_ERR_NOMEM;
    *row = (struct cofi__turn_row){time_ns, pid, tid};
    const struct cofi_image *image = pid > 0 ? cofi_recording_image(recording, pid) : NULL;
    return cofi__image_turn(processor->image, time_ns, image);
}

/* One row for each processor that has a stream. */
static int add_processors(struct cofi_recording *recording)
{
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t i = 0; i < recording->streams.n; i++) {
        int32_t cpu = streams[i].public.cpu;
        if (cpu < 0 || cofi__processor(recording, cpu))
            continue;
        struct cofi__processor *row = cofi__vector_push(&recording->processors);
        if (!row)
            return COFI_ERR_NOMEM;
        cofi__put_row(recording, ROW_OF_PROCESSOR, (uint32_t)cpu, recording->processors.n - 1);
        row->turns = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__turn_row);
        COFI_TRY(cofi__image_open_in(&row->image, recording->store));
        cofi__image_set_kernel(row->image, cofi__host_kernel(recording));
    }
    return 0;
}

/* sched_switch names the thread only. */
static int name_processes(struct cofi_recording *recording)
{
    struct cofi__vector threads = COFI__VECTOR_OF(struct cofi__thread_row);
    struct cofi_sideband *rows = recording->sideband.items;
    if (!recording->switch_offset)
        return 0;
    COFI_TRY(cofi__list_threads(recording, &threads));
    for (size_t i = 0; i < recording->sideband.n; i++)
        if (rows[i].kind == COFI_SB_SWITCH_CPU && rows[i].pid == -1 && rows[i].tid >= 0)
            rows[i].pid = cofi__pid_of(&threads, rows[i].tid, i);
    free(threads.items);
    return 0;
}

/* Whom the first switch of a processor is away from ran there before. */
static int take_record(struct cofi_recording *recording, struct cofi__processor *processor,
                       const struct cofi_sideband *sb)
{
    int32_t pid, tid;
    bool is_switch = sb->kind == COFI_SB_SWITCH || sb->kind == COFI_SB_SWITCH_CPU;
    processor->switched |= is_switch;
    if (!processor->turns.n && is_switch && sb->out)
        COFI_TRY(add_turn(recording, processor, 0, sb->pid, sb->tid));
    return cofi__who_runs(sb, &pid, &tid) ? add_turn(recording, processor, sb->time_ns, pid, tid) : 0;
}

/* perf record COMMAND and -p without --per-thread: each processor's buffer has all threads that are recorded, and the
 * number of the first one. */
static void set_threads(struct cofi_recording *recording)
{
    struct cofi__in_stream *streams = recording->streams.items;
    for (size_t i = 0; recording->info.time.conv.mult && i < recording->streams.n; i++) {
        struct cofi_recording_stream *s = &streams[i].public;
        const struct cofi__processor *processor = s->cpu >= 0 ? cofi__processor(recording, s->cpu) : NULL;
        if (processor && processor->switched)
            s->pid = s->tid = -1;
    }
}

int cofi__build_processors(struct cofi_recording *recording)
{
    const struct cofi_sideband *sideband = recording->sideband.items;
    COFI_TRY(name_processes(recording));
    COFI_TRY(add_processors(recording));
    for (size_t i = 0; recording->processors.n && i < recording->sideband.n; i++) {
        bool here = sideband[i].machine == HOST && sideband[i].cpu <= INT32_MAX;
        struct cofi__processor *processor = here ? cofi__processor(recording, (int32_t)sideband[i].cpu) : NULL;
        if (processor)
            COFI_TRY(take_record(recording, processor, &sideband[i]));
    }
    set_threads(recording);
    return 0;
}

void cofi__processors_free(struct cofi_recording *recording)
{
    struct cofi__processor *rows = recording->processors.items;
    for (size_t i = 0; i < recording->processors.n; i++) {
        cofi_image_close(rows[i].image);
        cofi_image_close(rows[i].guest);
        free(rows[i].turns.items);
    }
    free(recording->processors.items);
}

const struct cofi_image *cofi_recording_stream_image(struct cofi_recording *recording, size_t stream)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    const struct cofi__processor *processor = s && s->cpu >= 0 ? cofi__processor(recording, s->cpu) : NULL;
    if (processor && processor->turns.n)
        return processor->image;
    const struct cofi_image *image = s ? cofi_recording_image(recording, s->pid) : NULL;
    return image ? image : cofi__host_kernel(recording);
}

int32_t cofi_recording_thread(const struct cofi_recording *recording, size_t stream, uint64_t time_ns, int32_t *pid)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    const struct cofi__processor *processor = s && s->cpu >= 0 ? cofi__processor(recording, s->cpu) : NULL;
    int32_t none;
    if (!pid)
        pid = &none;
    if (!processor || !processor->turns.n) {
        *pid = s ? s->pid : -1;
        return s ? s->tid : -1;
    }
    const struct cofi__turn_row *rows = processor->turns.items;
    size_t i = cofi__array_upper_bound(rows, processor->turns.n, sizeof *rows, offsetof(struct cofi__turn_row, time_ns),
                                       time_ns);
    *pid = rows[i ? i - 1 : 0].pid;
    return rows[i ? i - 1 : 0].tid;
}
