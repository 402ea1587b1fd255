/* SPDX-License-Identifier: MIT
 * Sideband -> perf's records [PTREF 10.2]. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/writer.h"

enum {
    NAME_MAX_BYTES = 4096,
    /* Code is written in pieces, each with COFI_CODE_AHEAD bytes behind it, so that perf sees an
     * instruction whole that starts in it. */
    CODE_PIECE = 60 * 1024
};

/* Start a record; its size is filled in by end_record. Returns where it starts. */
static size_t begin(struct cofi__buffer *out, uint32_t type, uint16_t misc)
{
    size_t start = out->n;
    cofi__buffer_put_le(out, type, 4);
    cofi__buffer_put_le(out, misc, 2);
    cofi__buffer_put_le(out, 0, 2);
    return start;
}

static void align8(struct cofi__buffer *out, size_t start)
{
    cofi__buffer_zero(out, -(out->n - start) & 7);
}

static void put_name(struct cofi__buffer *out, const char *name, size_t start)
{
    cofi__buffer_put(out, name, strlen(name) + 1);
    align8(out, start);
}

static void end(struct cofi__buffer *out, size_t start)
{
    if (!out->failed)
        put_le(out->bytes + start + 6, out->n - start, 2);
}

/* The trailer that sample_id_all puts behind every kernel record: TID, TIME, CPU, IDENTIFIER. */
static void end_kernel(struct cofi__buffer *out, size_t start, const struct cofi_sideband *sb)
{
    bool trace = sb->kind == COFI_SB_AUX || sb->kind == COFI_SB_ITRACE_START;
    align8(out, start);
    cofi__buffer_put_le(out, (uint32_t)sb->pid, 4);
    cofi__buffer_put_le(out, (uint32_t)sb->tid, 4);
    cofi__buffer_put_le(out, sb->time_ns, 8);
    cofi__buffer_put_le(out, sb->cpu, 4);
    cofi__buffer_put_le(out, 0, 4);
    cofi__buffer_put_le(out, trace ? ID_TRACE : ID_SIDEBAND, 8);
    end(out, start);
}

static void put_ids(struct cofi__buffer *out, int32_t a, int32_t b)
{
    cofi__buffer_put_le(out, (uint32_t)a, 4);
    cofi__buffer_put_le(out, (uint32_t)b, 4);
}

static void put_comm(struct cofi__buffer *out, const struct cofi_sideband *sb)
{
    size_t start = begin(out, PERF_COMM, sb->exec ? PERF_MISC_COMM_EXEC | PERF_MISC_USER : PERF_MISC_USER);
    put_ids(out, sb->pid, sb->tid);
    put_name(out, sb->name ? sb->name : "", start);
    end_kernel(out, start, sb);
}

static void put_task(struct cofi__buffer *out, const struct cofi_sideband *sb)
{
    bool exec = sb->kind == COFI_SB_FORK && sb->exec;
    size_t start = begin(out, sb->kind == COFI_SB_FORK ? PERF_FORK : PERF_EXIT,
                         exec ? PERF_MISC_FORK_EXEC | PERF_MISC_USER : PERF_MISC_USER);
    put_ids(out, sb->pid, sb->ppid);
    put_ids(out, sb->tid, sb->ptid);
    cofi__buffer_put_le(out, sb->time_ns, 8);
    end_kernel(out, start, sb);
}

/* look: whether the file may be looked at where there is no build id. */
static void put_file_id(struct cofi__buffer *out, const char *name, const uint8_t *id, size_t size, bool look)
{
    struct stat st;
    if (size) {
        cofi__buffer_put_le(out, size, 4);
        cofi__buffer_put(out, id, size);
        cofi__buffer_zero(out, 20 - size);
        return;
    }
    bool known = look && name[0] == '/' && !stat(name, &st);
    cofi__buffer_put_le(out, known ? major(st.st_dev) : 0, 4);
    cofi__buffer_put_le(out, known ? minor(st.st_dev) : 0, 4);
    cofi__buffer_put_le(out, known ? st.st_ino : 0, 8);
    cofi__buffer_put_le(out, 0, 8);
}

static void put_mmap(struct cofi_writer *writer, const struct cofi_sideband *sb)
{
    struct cofi__buffer *out = &writer->sideband;
    const char *name = sb->name && sb->name[0] ? sb->name : "//anon";
    const uint8_t *id = sb->build_id;
    bool none = sb->build_id_size == COFI_NO_BUILD_ID;
    size_t size = none ? 0 : sb->build_id_size;
    if (!size && !none && name[0] == '/' && name[1] != '/') {
        const struct cofi__build_id *known = cofi__writer_build_id(writer, name);
        if (known) {
            id = known->id;
            size = known->size;
        }
    }
    uint16_t misc = sb->kernel ? PERF_MISC_KERNEL : PERF_MISC_USER;
    size_t start = begin(out, PERF_MMAP2, size ? misc | PERF_MISC_MMAP_BUILD_ID : misc);
    put_ids(out, sb->pid, sb->tid);
    cofi__buffer_put_le(out, sb->addr, 8);
    cofi__buffer_put_le(out, sb->len, 8);
    cofi__buffer_put_le(out, sb->pgoff, 8);
    put_file_id(out, name, id, size, !none);
    cofi__buffer_put_le(out, sb->prot, 4);
    cofi__buffer_put_le(out, sb->flags, 4);
    put_name(out, name, start);
    end_kernel(out, start, sb);
}

static void put_simple(struct cofi__buffer *out, const struct cofi_sideband *sb, enum perf_record type,
                       uint16_t misc)
{
    size_t start = begin(out, type, misc);
    if (type == PERF_ITRACE_START)
        put_ids(out, sb->pid, sb->tid);
    if (type == PERF_SWITCH_CPU_WIDE)
        put_ids(out, sb->ppid, sb->ptid);
    if (type == PERF_LOST) {
        cofi__buffer_put_le(out, ID_SIDEBAND, 8);
        cofi__buffer_put_le(out, sb->len, 8);
    }
    if (type == PERF_AUX) {
        cofi__buffer_put_le(out, sb->aux_offset, 8);
        cofi__buffer_put_le(out, sb->aux_size, 8);
        cofi__buffer_put_le(out, sb->aux_flags, 8);
    }
    end_kernel(out, start, sb);
}

/* One TEXT_POKE. Returns the offset of its bytes in the buffer. */
static size_t put_poke(struct cofi__buffer *out, const struct cofi_sideband *sb, uint64_t addr,
                       const uint8_t *bytes, size_t n)
{
    size_t start = begin(out, PERF_TEXT_POKE, sb->kernel ? PERF_MISC_KERNEL : PERF_MISC_USER);
    cofi__buffer_put_le(out, addr, 8);
    cofi__buffer_put_le(out, 0, 2);
    cofi__buffer_put_le(out, n, 2);
    size_t at = out->n;
    cofi__buffer_put(out, bytes, n);
    end_kernel(out, start, sb);
    return at;
}

/* A mapping of this very file, which makes perf read the code from there. */
static void put_code_map(struct cofi_writer *writer, const struct cofi_sideband *sb, uint64_t addr, uint64_t len,
                         uint64_t at)
{
    struct cofi__buffer *out = &writer->sideband;
    size_t start = begin(out, PERF_MMAP2, PERF_MISC_USER);
    put_ids(out, sb->pid, sb->tid);
    cofi__buffer_put_le(out, addr, 8);
    cofi__buffer_put_le(out, len, 8);
    cofi__buffer_put_le(out, at, 8);
    cofi__buffer_zero(out, 16);
    cofi__buffer_put_le(out, COFI_CODE_GENERATION, 8);
    cofi__buffer_put_le(out, 5, 4); /* PROT_READ | PROT_EXEC */
    cofi__buffer_put_le(out, 2, 4); /* MAP_PRIVATE */
    put_name(out, writer->path, start);
    end_kernel(out, start, sb);
}

/* Code of a user: the bytes as a TEXT_POKE that perf ignores (its cpumode is not the kernel's), unless
 * the file has them already. Returns where it has them. */
static uint64_t place_code(struct cofi_writer *writer, const struct cofi_sideband *sb, uint64_t addr,
                           const uint8_t *bytes, size_t n)
{
    uint64_t at = cofi__known_code_find(writer, bytes, n);
    if (at)
        return at;
    at = writer->end + put_poke(&writer->sideband, sb, addr, bytes, n);
    cofi__known_code_add(writer, bytes, n, at);
    return at;
}

static int put_code(struct cofi_writer *writer, const struct cofi_sideband *sb)
{
    for (uint64_t i = 0; i < sb->len; i += CODE_PIECE) {
        uint64_t left = sb->len - i, piece = left < CODE_PIECE ? left : CODE_PIECE, there = left + sb->ahead;
        size_t n = (size_t)(there < piece + COFI_CODE_AHEAD ? there : piece + COFI_CODE_AHEAD);
        if (writer->sideband.n > 1 << 20)
            COFI_TRY(cofi__writer_drain(writer));
        if (sb->kernel)
            put_poke(&writer->sideband, sb, sb->addr + i, sb->bytes + i, n);
        else
            put_code_map(writer, sb, sb->addr + i, piece, place_code(writer, sb, sb->addr + i, sb->bytes + i, n));
    }
    return 0;
}

int cofi__writer_record(struct cofi_writer *writer, const struct cofi_sideband *sb)
{
    struct cofi__buffer *out = &writer->sideband;
    uint16_t out_bits = (uint16_t)((sb->out ? PERF_MISC_SWITCH_OUT : 0) |
                                   (sb->preempt ? PERF_MISC_SWITCH_PREEMPT : 0));
    if (sb->name && strlen(sb->name) >= NAME_MAX_BYTES)
        return COFI_ERR_RANGE;
    switch ((enum cofi_sideband_kind)sb->kind) {
    case COFI_SB_COMM: put_comm(out, sb); break;
    case COFI_SB_MMAP: put_mmap(writer, sb); break;
    case COFI_SB_FORK:
    case COFI_SB_EXIT: put_task(out, sb); break;
    case COFI_SB_ITRACE_START: put_simple(out, sb, PERF_ITRACE_START, 0); break;
    case COFI_SB_SWITCH: put_simple(out, sb, PERF_SWITCH, out_bits); break;
    case COFI_SB_SWITCH_CPU: put_simple(out, sb, PERF_SWITCH_CPU_WIDE, out_bits); break;
    case COFI_SB_AUX: put_simple(out, sb, PERF_AUX, 0); break;
    case COFI_SB_LOST: put_simple(out, sb, PERF_LOST, 0); break;
    case COFI_SB_CODE: return put_code(writer, sb);
    case COFI_SB_TEXT_POKE: {
        struct cofi_sideband poke = *sb;
        poke.kernel = true;
        return put_code(writer, &poke);
    }
    }
    return 0;
}

static void put_info(struct cofi__buffer *out, const struct cofi_recording_info *info, const char *filter)
{
    const struct cofi_time_info *time = &info->time;
    size_t start = begin(out, PERF_AUXTRACE_INFO, 0), length = filter ? strlen(filter) : 0;
    uint64_t words[INFO_WORDS] = {
        [INFO_PMU_TYPE] = PMU_TYPE,
        [INFO_TIME_SHIFT] = time->conv.shift,
        [INFO_TIME_MULT] = time->conv.mult,
        [INFO_TIME_ZERO] = time->conv.zero,
        [INFO_CAP_USER_TIME_ZERO] = time->conv.mult != 0,
        [INFO_TSC_BIT] = CTL_TSC_BIT,
        [INFO_NORETCOMP_BIT] = CTL_NORETCOMP_BIT,
        /* Not for streams of threads: perf would ask the (no) processor which thread it ran. */
        [INFO_HAVE_SCHED_SWITCH] = info->per_cpu ? 3 : 0,
        [INFO_SNAPSHOT_MODE] = info->snapshot,
        [INFO_PER_CPU_MMAPS] = info->per_cpu,
        [INFO_MTC_BIT] = CTL_MTC_BIT,
        [INFO_MTC_FREQ_BITS] = CTL_MTC_FREQ_BITS,
        [INFO_TSC_CTC_N] = time->tsc_num,
        [INFO_TSC_CTC_D] = time->tsc_den,
        [INFO_CYC_BIT] = CTL_CYC_BIT,
        [INFO_MAX_NONTURBO_RATIO] = time->nominal_ratio,
        [INFO_FILTER_STR_LEN] = length,
    };
    uint64_t own[COFI_INFO_WORDS] = {
        COFI_INFO_MAGIC, info->gen, info->config, info->family, info->model, info->stepping,
        time->mtc_freq | (uint64_t)time->nominal_ratio << 8 | (uint64_t)time->tsc << 16 |
            (uint64_t)time->mtc << 17 | (uint64_t)time->cyc << 18 | (uint64_t)time->monotonic << 19,
        info->events | (uint64_t)info->ranges_known << 32, info->cr3_match,
    };
    for (size_t i = 0; i < COFI_INFO_RANGES_MAX; i++) {
        own[COFI_INFO_RANGES + 2 * i] = info->range_base[i];
        own[COFI_INFO_RANGES + 2 * i + 1] = info->range_limit[i];
    }
    cofi__buffer_put_le(out, info->gen == COFI_RTIT ? AUXTRACE_TYPE_RTIT : AUXTRACE_TYPE_INTEL_PT, 4);
    cofi__buffer_put_le(out, 0, 4);
    for (size_t i = 0; i < INFO_WORDS; i++)
        cofi__buffer_put_le(out, words[i], 8);
    if (length)
        put_name(out, filter, start);
    cofi__buffer_put_le(out, 1, 8); /* cap_event_trace */
    for (size_t i = 0; i < COFI_INFO_WORDS; i++)
        cofi__buffer_put_le(out, own[i], 8);
    end(out, start);
}

/* Which event an id belongs to: both to no processor and no one thread. */
static void put_id_index(struct cofi__buffer *out)
{
    size_t start = begin(out, PERF_ID_INDEX, 0);
    cofi__buffer_put_le(out, 2, 8);
    for (uint64_t id = ID_TRACE; id <= ID_SIDEBAND; id++) {
        cofi__buffer_put_le(out, id, 8);
        cofi__buffer_put_le(out, 0, 8);
        cofi__buffer_put_le(out, UINT64_MAX, 8);
        cofi__buffer_put_le(out, UINT64_MAX, 8);
    }
    end(out, start);
}

int cofi__writer_prologue(struct cofi_writer *writer)
{
    put_info(&writer->sideband, &writer->info, writer->filter);
    put_id_index(&writer->sideband);
    return writer->sideband.failed ? COFI_ERR_NOMEM : 0;
}
