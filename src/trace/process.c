/* SPDX-License-Identifier: MIT
 * Sideband in time order -> each process's address space, each thread's name over time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "image/image.h"
#include "trace/reader.h"

struct cofi__machine *cofi__machine(struct cofi_recording *recording, int32_t pid)
{
    const uint32_t *known = cofi__row(recording, ROW_OF_MACHINE, (uint32_t)pid);
    if (known)
        return ((struct cofi__machine **)recording->machines.items)[*known];
    struct cofi__machine *machine = cofi__keep_alloc(&recording->keep, sizeof *machine);
    if (!machine)
        return NULL;
    *machine = (struct cofi__machine){.pid = pid};
    if (cofi__image_open_in(&machine->kernel, recording->store) < 0)
        return NULL;
    struct cofi__machine **row = cofi__vector_push(&recording->machines);
    if (!row) {
        cofi_image_close(machine->kernel);
        return NULL;
    }
    cofi__put_row(recording, ROW_OF_MACHINE, (uint32_t)pid, recording->machines.n - 1);
    return *row = machine;
}

static size_t bucket_of(int32_t machine, int32_t pid)
{
    return ((uint32_t)pid + (uint32_t)machine * 40503u) % IN_BUCKETS;
}

static struct cofi__process *find_process(struct cofi_recording *recording, int32_t machine, int32_t pid)
{
    struct cofi__process *processes = recording->processes.items;
    for (size_t i = recording->process_hash[bucket_of(machine, pid)]; i; i = processes[i - 1].next_hash)
        if (processes[i - 1].pid == pid && processes[i - 1].machine == machine)
            return &processes[i - 1];
    return NULL;
}

static struct cofi_image *find(struct cofi_recording *recording, int32_t machine, int32_t pid)
{
    struct cofi__process *process = find_process(recording, machine, pid);
    return process ? process->image : NULL;
}

struct cofi_image *cofi__process_image(struct cofi_recording *recording, int32_t machine_pid, int32_t pid)
{
    struct cofi_image *image = find(recording, machine_pid, pid);
    struct cofi__machine *machine = image ? NULL : cofi__machine(recording, machine_pid);
    if (image)
        return image;
    if (!machine || cofi__image_open_in(&image, recording->store) < 0)
        return NULL;
    struct cofi__process *process = cofi__vector_push(&recording->processes);
    if (!process) {
        cofi_image_close(image);
        return NULL;
    }
    size_t *bucket = &recording->process_hash[bucket_of(machine_pid, pid)];
    *process = (struct cofi__process){machine_pid, pid, image, NULL, *bucket};
    *bucket = recording->processes.n;
    cofi__image_set_kernel(image, machine->kernel);
    return image;
}

/* What a process shows now: its table is kept, so that many forks cost no more than what changed between. */
static struct cofi__table *table_now(struct cofi__process *process, uint64_t time_ns)
{
    if (!process->now && !(process->now = calloc(1, sizeof *process->now)))
        return NULL;
    process->now->image = process->image;
    return cofi__table_forward(process->now, time_ns) < 0 ? NULL : process->now;
}

static void forget_tables(struct cofi_recording *recording)
{
    struct cofi__process *processes = recording->processes.items;
    for (size_t i = 0; i < recording->processes.n; i++) {
        if (processes[i].now)
            cofi__segments_free(&processes[i].now->segments);
        free(processes[i].now);
        processes[i].now = NULL;
    }
}

/* A file may be made so that its forks fill the memory: large processes, whose children have few records
 * of their own. */
static bool may_give(struct cofi_recording *recording, const struct cofi__table *table)
{
    enum { ALWAYS = 1 << 20, A_RECORD = 256 };
    uint64_t before = recording->forked;
    for (size_t i = 0; i < table->segments.n; i++)
        recording->forked += table->segments.leaves[i].n;
    uint64_t most = ALWAYS + A_RECORD * (uint64_t)recording->sideband.n;
    if (recording->forked > most && before <= most)
        cofi__damage(
            recording,
            "forks of processes with many mappings would fill the memory: from %llu mappings on children have none of their parents'",
            (unsigned long long)before);
    return recording->forked <= most;
}

/* A process begins as its parent's copy, unless it has executed since; if its number was another's
 * before, that one's memory is gone. */
static int apply_fork(struct cofi_recording *recording, const struct cofi_sideband *sb)
{
    if (sb->pid == sb->ppid)
        return 0; /* a thread */
    bool reused = find(recording, sb->machine, sb->pid);
    struct cofi_image *child = cofi__process_image(recording, sb->machine, sb->pid);
    if (!child)
        return COFI_ERR_NOMEM;
    if (reused)
        COFI_TRY(cofi_image_clear(child, sb->time_ns));
    struct cofi__process *parent = sb->exec ? NULL : find_process(recording, sb->machine, sb->ppid);
    COFI_TRY(cofi__image_names_era(child, sb->time_ns, parent ? parent->image : NULL));
    if (!parent)
        return 0;
    struct cofi__table *now = table_now(parent, sb->time_ns);
    if (!now)
        return COFI_ERR_NOMEM;
    return may_give(recording, now) ? cofi__image_fork_table(child, now, sb->time_ns) : 0;
}

/* Who is seen first when it has long been there (cofi record -p) has a COMM by exec, too: nothing ends then. */
static int apply_exec(struct cofi_image *image, uint64_t time_ns)
{
    if (image->n || image->names.n_eras)
        COFI_TRY(cofi__image_names_era(image, time_ns, NULL));
    return cofi_image_clear(image, time_ns);
}

static int by_path(const void *a, const void *b)
{
    const struct cofi__build_id_row *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    if (order || x->guest != y->guest)
        return order ? order : x->guest ? 1 : -1;
    if (x->guest && x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The first n letters of a name are the row's path, and its file is of that machine. */
static int compare_file(int32_t machine, const char *name, size_t n, const struct cofi__build_id_row *row)
{
    int order = strncmp(name, row->path, n);
    if (order || row->path[n])
        return order ? order : -1;
    if (row->guest != (machine != HOST))
        return row->guest ? -1 : 1;
    return !row->guest || machine == row->pid ? 0 : machine < row->pid ? -1 : 1;
}

static bool take_build_id(const struct cofi_recording *recording, struct cofi_sideband *sb, const char *name, size_t n)
{
    const struct cofi__build_id_row *rows = recording->build_ids.items;
    size_t low = 0, high = recording->build_ids.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_file(sb->machine, name, n, &rows[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == recording->build_ids.n || compare_file(sb->machine, name, n, &rows[low]))
        return false;
    sb->build_id_size = rows[low].size;
    memcpy(sb->build_id, rows[low].id, 20);
    return true;
}

/* perf writes build ids in a table of their own too, by file name. A kernel's mapping has the name of a
 * symbol behind its path. */
static void complete_build_id(const struct cofi_recording *recording, struct cofi_sideband *sb)
{
    const char *name = cofi__is_vdso32(sb) ? "[vdso32]" : sb->name, *end = name[0] == '[' ? strrchr(name, ']') : NULL;
    if (!sb->build_id_size && !take_build_id(recording, sb, name, strlen(name)) && end)
        take_build_id(recording, sb, name, (size_t)(end + 1 - name));
}

/* root: what the path is below; null: nothing. */
static int map_file(struct cofi_image *image, const struct cofi_sideband *sb, const char *root)
{
    char *file = NULL;
    if (root && sb->name[0] == '/' && asprintf(&file, "%s%s", root, sb->name) < 0)
        return COFI_ERR_NOMEM;
    int status = cofi__image_map_file_at(image, sb->time_ns, sb->addr, sb->len, sb->name, file, sb->pgoff, sb->build_id,
                                         sb->build_id_size);
    free(file);
    return status;
}

/* A guest's files are not this machine's: below --guestmount, or those that a build id proves. */
static int map_guest_file(struct cofi_recording *recording, struct cofi_image *image, const struct cofi_sideband *sb)
{
    char *root = NULL;
    const char *guestmount = recording->options.guestmount;
    if (guestmount && asprintf(&root, "%s/%d", guestmount, guest_number(sb->machine)) < 0)
        return COFI_ERR_NOMEM;
    int status =
        root || sb->build_id_size
            ? map_file(image, sb, root)
            : cofi_image_map_file(
                  image, sb->time_ns, sb->addr, sb->len,
                  "[guest]: a file of a guest, and no build id to find it by (--guestmount tells where its files are)",
                  0, NULL, 0);
    free(root);
    return status;
}

static int apply_mmap(struct cofi_recording *recording, struct cofi_sideband *sb)
{
    if (!sb->name)
        return 0;
    complete_build_id(recording, sb);
    if (sb->kernel || sb->pid == -1) {
        struct cofi__machine *machine = cofi__machine(recording, sb->machine);
        if (!machine)
            return COFI_ERR_NOMEM;
        cofi__map_kernel(recording, machine, sb);
        return 0;
    }
    struct cofi_image *image = cofi__process_image(recording, sb->machine, sb->pid);
    if (!image)
        return COFI_ERR_NOMEM;
    if (sb->machine != HOST)
        return map_guest_file(recording, image, sb);
    if (cofi__is_jitdump(sb->name)) /* the mapping is a mark: its bytes are not code */
        return cofi__map_jitdump(recording, image, sb->name, sb->time_ns);
    if (!strcmp(sb->name, "[vdso]"))
        return cofi__map_vdso(recording, image, sb);
    return map_file(image, sb, recording->symfs);
}

static int apply_code(struct cofi_recording *recording, const struct cofi_sideband *sb)
{
    size_t i = (size_t)(sb - (const struct cofi_sideband *)recording->sideband.items);
    const uint8_t *bytes = sb->bytes;
    uint64_t n = sb->len;
    if (sb->name && !strcmp(sb->name, "[vdso]") && !cofi__join_vdso(recording, i, &bytes, &n))
        return 0;
    struct cofi__machine *machine = cofi__machine(recording, sb->machine);
    struct cofi_image *image = !machine ? NULL : sb->kernel ? machine->kernel :
                               cofi__process_image(recording, sb->machine, sb->pid);
    return image ? cofi__image_borrow_bytes(image, sb->time_ns, sb->addr, bytes, n, sb->name) :
                   COFI_ERR_NOMEM;
}

static int apply(struct cofi_recording *recording, struct cofi_sideband *sb)
{
    switch ((enum cofi_sideband_kind)sb->kind) {
    case COFI_SB_FORK: return apply_fork(recording, sb);
    case COFI_SB_COMM: {
        struct cofi_image *image = cofi__process_image(recording, sb->machine, sb->pid);
        if (!image)
            return COFI_ERR_NOMEM;
        return sb->exec ? apply_exec(image, sb->time_ns) : 0;
    }
    case COFI_SB_MMAP: return apply_mmap(recording, sb);
    case COFI_SB_CODE:
    case COFI_SB_TEXT_POKE: return apply_code(recording, sb);
    case COFI_SB_EXIT:
    case COFI_SB_ITRACE_START:
    case COFI_SB_SWITCH:
    case COFI_SB_SWITCH_CPU:
    case COFI_SB_AUX:
    case COFI_SB_LOST: break;
    }
    return 0;
}

/* The name of the mapping that code is put over ("[vdso]"), for people. */
static void name_code(struct cofi_sideband *sideband, size_t i)
{
    struct cofi_sideband *code = &sideband[i];
    size_t first = i < 64 ? 0 : i - 64;
    while (i-- > first) {
        const struct cofi_sideband *map = &sideband[i];
        if (map->kind != COFI_SB_MMAP || map->pid != code->pid || code->addr - map->addr >= map->len)
            continue;
        if (map->name && map->name[0] == '[')
            code->name = map->name;
        return;
    }
}

static void name_codes(struct cofi_recording *recording)
{
    struct cofi_sideband *sideband = recording->sideband.items;
    for (size_t i = 0; i < recording->sideband.n; i++) {
        if (sideband[i].kind != COFI_SB_CODE)
            continue;
        name_code(sideband, i);
        recording->tells_code |= !sideband[i].kernel && !(sideband[i].name && !strcmp(sideband[i].name, "[vdso]"));
    }
}

const char *cofi_recording_comm(const struct cofi_recording *recording, int32_t tid, uint64_t time_ns)
{
    const struct cofi__comm *rows = recording->comms.items;
    size_t i = cofi__thread_above(&recording->comms, tid, time_ns);
    for (size_t back = i; back > 0 && rows[back - 1].at.tid == tid; back--)
        if (rows[back - 1].name)
            return rows[back - 1].name;
    /* Asked about a time before its first name: that one is the best there is. */
    while (i < recording->comms.n && rows[i].at.tid == tid && !rows[i].name)
        i++;
    return i < recording->comms.n && rows[i].at.tid == tid ? rows[i].name : NULL;
}

const char *cofi_recording_stream_comm(const struct cofi_recording *recording, size_t stream)
{
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, stream);
    const struct cofi_time_conv *conv = &recording->info.time.conv;
    const struct cofi__comm *rows = recording->comms.items;
    const struct cofi_sideband *sideband = recording->sideband.items;
    if (!s)
        return NULL;
    uint64_t ns = conv->mult && s->reference_tsc ? cofi_time_ns(conv, s->reference_tsc) : UINT64_MAX;
    for (size_t i = cofi__thread_above(&recording->comms, s->tid, ns); i < recording->comms.n; i++) {
        if (rows[i].at.tid != s->tid || sideband[rows[i].at.order].kind == COFI_SB_FORK)
            break;
        ns = rows[i].at.since;
    }
    return cofi_recording_comm(recording, s->tid, ns);
}

/* A thread inherits its maker's name: entries of null name stand for it, and are resolved in time order. */
static void resolve_names(struct cofi_recording *recording, const struct cofi_sideband *sideband, size_t n)
{
    struct cofi__comm *rows = recording->comms.items;
    for (size_t i = 0; i < n; i++) {
        if (sideband[i].machine != HOST || sideband[i].kind != COFI_SB_FORK)
            continue;
        size_t at = cofi__thread_above(&recording->comms, sideband[i].tid, sideband[i].time_ns);
        const char *name = NULL;
        size_t parent = cofi__thread_above(&recording->comms, sideband[i].ptid, sideband[i].time_ns);
        if (parent > 0 && rows[parent - 1].at.tid == sideband[i].ptid)
            name = rows[parent - 1].name;
        for (; at > 0 && rows[at - 1].at.tid == sideband[i].tid && rows[at - 1].at.since == sideband[i].time_ns; at--)
            if (!rows[at - 1].name)
                rows[at - 1].name = name;
    }
}

static void build_names(struct cofi_recording *recording)
{
    const struct cofi_sideband *sideband = recording->sideband.items;
    for (size_t i = 0; i < recording->sideband.n; i++) {
        if (sideband[i].machine != HOST || (sideband[i].kind != COFI_SB_COMM && sideband[i].kind != COFI_SB_FORK))
            continue;
        struct cofi__comm *row = cofi__vector_push(&recording->comms);
        if (row)
            *row = (struct cofi__comm){{sideband[i].tid, sideband[i].time_ns, i},
                                       sideband[i].kind == COFI_SB_COMM ? sideband[i].name : NULL};
    }
    if (recording->comms.n)
        qsort(recording->comms.items, recording->comms.n, sizeof(struct cofi__comm), cofi__thread_compare);
    resolve_names(recording, sideband, recording->sideband.n);
}

static int apply_all(struct cofi_recording *recording)
{
    struct cofi_sideband *sideband = recording->sideband.items;
    if (recording->build_ids.n)
        qsort(recording->build_ids.items, recording->build_ids.n, sizeof(struct cofi__build_id_row), by_path);
    name_codes(recording);
    for (size_t i = 0; i < recording->sideband.n; i++) {
        int status = apply(recording, &sideband[i]);
        if (status == COFI_ERR_RANGE) {
            cofi__damage(recording, "sideband record %zu: a mapping that wraps around the address space", i);
            continue;
        }
        COFI_TRY(status);
    }
    return 0;
}

/* What the kernel calls code that it made itself. */
static int name_kernel_code(struct cofi_recording *recording)
{
    const struct cofi__ksymbol *rows = recording->ksymbols.items;
    for (size_t i = 0; i < recording->ksymbols.n; i++)
        if (rows[i].name)
            COFI_TRY(cofi__image_name(cofi__host_kernel(recording), 0, rows[i].addr, rows[i].size, rows[i].name));
    cofi__image_names_done(cofi__host_kernel(recording));
    return 0;
}

int cofi__build_processes(struct cofi_recording *recording)
{
    recording->store = cofi__store_open();
    if (!recording->store || !cofi__machine(recording, HOST))
        return COFI_ERR_NOMEM;
    int status = apply_all(recording);
    if (status >= 0)
        status = cofi__map_bpf(recording);
    if (status >= 0)
        status = name_kernel_code(recording);
    struct cofi__process *processes = recording->processes.items;
    for (size_t i = 0; i < recording->processes.n && status >= 0; i++)
        if (processes[i].machine == HOST && processes[i].pid > 0)
            status = cofi__name_jit_code(recording, processes[i].image, processes[i].pid);
    forget_tables(recording);
    COFI_TRY(status);
    build_names(recording);
    return recording->comms.failed || recording->processes.failed ? COFI_ERR_NOMEM : 0;
}

const struct cofi_image *cofi_recording_image(struct cofi_recording *recording, int32_t pid)
{
    return pid <= 0 ? cofi__host_kernel(recording) : find(recording, HOST, pid);
}
