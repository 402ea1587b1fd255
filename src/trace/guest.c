/* SPDX-License-Identifier: MIT
 * Who is a guest's processor, and which of the guest's processes ran there -> what a stream shows in VMX
 * non-root operation. */
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "image/image.h"
#include "trace/reader.h"

static struct cofi__vcpu *find(const struct cofi_recording *recording, int32_t machine, int32_t vcpu)
{
    const uint32_t *row = cofi__row(recording, ROW_OF_VCPU, (uint64_t)(uint32_t)machine << 32 | (uint32_t)vcpu);
    return row ? (struct cofi__vcpu *)recording->vcpus.items + *row : NULL;
}

static struct cofi__vcpu *of_thread(const struct cofi_recording *recording, int32_t tid)
{
    const uint32_t *row = tid > 0 ? cofi__row(recording, ROW_OF_VCPU_THREAD, (uint32_t)tid) : NULL;
    return row ? (struct cofi__vcpu *)recording->vcpus.items + *row : NULL;
}

static int add_vcpus(struct cofi_recording *recording)
{
    const struct cofi__guest_id *ids = recording->guest_ids.items;
    for (size_t i = 0; i < recording->guest_ids.n; i++) {
        if (find(recording, ids[i].machine, ids[i].vcpu))
            continue;
        struct cofi__vcpu *row = cofi__vector_push(&recording->vcpus);
        if (!row || !cofi__machine(recording, ids[i].machine))
            return COFI_ERR_NOMEM;
        row->machine = ids[i].machine;
        row->vcpu = ids[i].vcpu;
        row->tid = ids[i].tid;
        row->turns = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__turn_row);
        cofi__put_row(recording, ROW_OF_VCPU, (uint64_t)(uint32_t)row->machine << 32 | (uint32_t)row->vcpu,
                      recording->vcpus.n - 1);
        if (!of_thread(recording, row->tid))
            cofi__put_row(recording, ROW_OF_VCPU_THREAD, (uint32_t)row->tid, recording->vcpus.n - 1);
    }
    return 0;
}

static int add_turns(struct cofi_recording *recording)
{
    const struct cofi_sideband *sideband = recording->sideband.items;
    int32_t pid, tid;
    for (size_t i = 0; recording->vcpus.n && i < recording->sideband.n; i++) {
        if (sideband[i].machine == HOST || !cofi__who_runs(&sideband[i], &pid, &tid))
            continue;
        struct cofi__vcpu *vcpu = find(recording, sideband[i].machine, sideband[i].vcpu);
        struct cofi__turn_row *row = vcpu ? cofi__vector_push(&vcpu->turns) : NULL;
        if (row)
            *row = (struct cofi__turn_row){sideband[i].time_ns, pid, tid};
        else if (vcpu)
            return COFI_ERR_NOMEM;
    }
    return 0;
}

/* First turn after a time. */
static size_t turn_after(const struct cofi__vcpu *vcpu, uint64_t time_ns)
{
    return cofi__array_upper_bound(vcpu->turns.items, vcpu->turns.n, sizeof(struct cofi__turn_row),
                                   offsetof(struct cofi__turn_row, time_ns), time_ns);
}

static bool is_machine(const struct cofi_recording *recording, int32_t pid)
{
    return pid != HOST && cofi__row(recording, ROW_OF_MACHINE, (uint32_t)pid);
}

/* Without a process: the guest's kernel only. */
static int turn_to(struct cofi_recording *recording, struct cofi_image *image, uint64_t time_ns, int32_t machine,
                   int32_t pid)
{
    struct cofi_image *shown = cofi__process_image(recording, machine, pid > 0 ? pid : 0);
    return shown ? cofi__image_turn(image, time_ns, shown) : COFI_ERR_NOMEM;
}

/* From a time up to another one a thread of the host runs, and its guest with it. */
static int show(struct cofi_recording *recording, struct cofi_image *image, uint64_t from, uint64_t to, int32_t pid,
                int32_t tid)
{
    const struct cofi__vcpu *vcpu = of_thread(recording, tid);
    int32_t machine = vcpu ? vcpu->machine : is_machine(recording, pid) ? pid : SOME_GUEST;
    if (machine == SOME_GUEST && !is_machine(recording, machine))
        return cofi__image_turn(image, from, recording->no_guest);
    if (!vcpu)
        return turn_to(recording, image, from, machine, 0);
    const struct cofi__turn_row *rows = vcpu->turns.items;
    size_t i = turn_after(vcpu, from);
    COFI_TRY(turn_to(recording, image, from, machine, i ? rows[i - 1].pid : vcpu->turns.n ? rows[0].pid : 0));
    for (; i < vcpu->turns.n && rows[i].time_ns < to; i++)
        COFI_TRY(turn_to(recording, image, rows[i].time_ns, machine, rows[i].pid));
    return 0;
}

static int show_processor(struct cofi_recording *recording, struct cofi__processor *processor)
{
    const struct cofi__turn_row *rows = processor->turns.items;
    size_t n = processor->turns.n;
    COFI_TRY(cofi__image_open_in(&processor->guest, recording->store));
    if (!n)
        return show(recording, processor->guest, 0, UINT64_MAX, -1, -1);
    for (size_t i = 0; i < n; i++)
        COFI_TRY(show(recording, processor->guest, rows[i].time_ns, i + 1 < n ? rows[i + 1].time_ns : UINT64_MAX,
                      rows[i].pid, rows[i].tid));
    return 0;
}

int cofi__build_guests(struct cofi_recording *recording)
{
    struct cofi__processor *processors = recording->processors.items;
    struct cofi__vcpu *vcpus;
    COFI_TRY(cofi__image_open_in(&recording->no_guest, recording->store));
    COFI_TRY(cofi_image_map_file(
        recording->no_guest, 0, 0, UINT64_MAX,
        "[guest]: code of a guest, which is not in the recording (perf kvm record, perf inject --guest-data)", 0, NULL,
        0));
    COFI_TRY(add_vcpus(recording));
    COFI_TRY(add_turns(recording));
    for (size_t i = 0; i < recording->processors.n; i++)
        COFI_TRY(show_processor(recording, &processors[i]));
    vcpus = recording->vcpus.items;
    for (size_t i = 0; i < recording->vcpus.n; i++) {
        COFI_TRY(cofi__image_open_in(&vcpus[i].image, recording->store));
        COFI_TRY(show(recording, vcpus[i].image, 0, UINT64_MAX, vcpus[i].machine, vcpus[i].tid));
    }
    return 0;
}

void cofi__guests_free(struct cofi_recording *recording)
{
    struct cofi__vcpu *vcpus = recording->vcpus.items;
    for (size_t i = 0; i < recording->vcpus.n; i++) {
        cofi_image_close(vcpus[i].image);
        free(vcpus[i].turns.items);
    }
    free(recording->vcpus.items);
    cofi_image_close(recording->no_guest);
}

const struct cofi_image *cofi_recording_guest_image(struct cofi_recording *recording, size_t stream)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    const struct cofi__processor *processor = s && s->cpu >= 0 ? cofi__processor(recording, s->cpu) : NULL;
    const struct cofi__vcpu *vcpu = s ? of_thread(recording, s->tid) : NULL;
    if (vcpu)
        return vcpu->image;
    if (processor)
        return processor->guest;
    int32_t machine = s && is_machine(recording, s->pid) ? s->pid : SOME_GUEST;
    return is_machine(recording, machine) ? (*cofi__machine(recording, machine)).kernel : recording->no_guest;
}
