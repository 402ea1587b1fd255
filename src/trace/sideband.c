/* SPDX-License-Identifier: MIT
 * perf's kernel records -> sideband [PTREF 10.2]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

const struct cofi__event_attr *cofi__event_of_id(struct cofi_recording *recording, uint64_t id)
{
    const struct cofi__event_attr *attrs = recording->attrs.items;
    const uint32_t *row = cofi__row(recording, ROW_OF_EVENT, id);
    /* memory may have been out */
    return row && *row < recording->attrs.n ? &attrs[*row] : recording->attrs.n ? &attrs[0] : NULL;
}

const struct cofi__event_attr *cofi__event_of_record(struct cofi_recording *recording, const uint8_t *record, size_t n)
{
    const struct cofi__event_attr *first = recording->attrs.n ? recording->attrs.items : NULL;
    if (!first || !(first->sample_type & SAMPLE_IDENTIFIER) || n < 16)
        return first;
    return cofi__event_of_id(recording, le64(record + n - 8));
}

/* A guest's event: whose processes, addresses and processors the record tells. */
static void set_machine(const struct cofi_recording *recording, uint64_t id, struct cofi_sideband *sb)
{
    const struct cofi__guest_id *rows = recording->guest_ids.items;
    const uint32_t *row = cofi__row(recording, ROW_OF_GUEST_EVENT, id);
    if (row) {
        sb->machine = rows[*row].machine;
        sb->vcpu = rows[*row].vcpu;
    }
}

/* Read the trailer of sample_id_all from its end. Returns the record's size without it. */
static size_t read_trailer(struct cofi_recording *recording, const uint8_t *record, size_t n,
                           struct cofi_sideband *sb)
{
    const struct cofi__event_attr *attr = cofi__event_of_record(recording, record, n);
    if (!attr || !(attr->flags & ATTR_SAMPLE_ID_ALL))
        return n;
    static const uint64_t order[] = {SAMPLE_IDENTIFIER, SAMPLE_CPU, SAMPLE_STREAM_ID, SAMPLE_ID, SAMPLE_TIME,
                                     SAMPLE_TID};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        if (!(attr->sample_type & order[i]))
            continue;
        if (n < PERF_RECORD_HEADER_BYTES + 8)
            return n;
        n -= 8;
        if (order[i] == SAMPLE_IDENTIFIER || order[i] == SAMPLE_ID)
            set_machine(recording, le64(record + n), sb);
        if (order[i] == SAMPLE_CPU)
            sb->cpu = le32(record + n);
        if (order[i] == SAMPLE_TIME)
            sb->time_ns = le64(record + n);
        if (order[i] == SAMPLE_TID) {
            sb->pid = (int32_t)le32(record + n);
            sb->tid = (int32_t)le32(record + n + 4);
        }
    }
    return n;
}

static const char *take_string(struct cofi_recording *recording, const uint8_t *record, size_t at, size_t n)
{
    const char *text = cofi__keep_string(&recording->keep, record + at, n - at);
    recording->nomem |= !text;
    return text;
}

static void read_ids(const uint8_t *p, int32_t *a, int32_t *b)
{
    *a = (int32_t)le32(p);
    *b = (int32_t)le32(p + 4);
}

/* What MMAP, MMAP2 and mappings of code begin with. */
static void read_place(const uint8_t *record, struct cofi_sideband *sb)
{
    read_ids(record + 8, &sb->pid, &sb->tid);
    sb->addr = le64(record + 16);
    sb->len = le64(record + 24);
    sb->pgoff = le64(record + 32);
}

static void read_mmap(struct cofi_recording *recording, const uint8_t *record, size_t n, uint32_t type,
                      uint16_t misc, struct cofi_sideband *sb)
{
    size_t name = type == PERF_MMAP2 ? 72 : 40;
    sb->kind = COFI_SB_MMAP;
    read_place(record, sb);
    sb->prot = 5;
    if (type == PERF_MMAP2) {
        sb->prot = le32(record + 64);
        sb->flags = le32(record + 68);
        if (misc & PERF_MISC_MMAP_BUILD_ID) {
            sb->build_id_size = record[40] <= 20 ? record[40] : 20;
            memcpy(sb->build_id, record + 44, 20);
        }
    }
    sb->name = take_string(recording, record, name, n);
}

/* perf kvm names a guest's kernel [guest.kernel.kallsyms.PID]. */
static void machine_of_name(struct cofi_sideband *sb)
{
    static const char prefix[] = "[guest.kernel.kallsyms.";
    int pid;
    if (sb->name && !strncmp(sb->name, prefix, sizeof prefix - 1) &&
        sscanf(sb->name + sizeof prefix - 1, "%d]", &pid) == 1 && pid > 0)
        sb->machine = pid;
}

/* TEXT_POKE: u64 addr, u16 old_len, u16 new_len, old bytes, new bytes. */
enum { POKE_BYTES = 20 };

static bool read_poke(struct cofi_recording *recording, const uint8_t *record, size_t n, bool copied,
                      struct cofi_sideband *sb)
{
    size_t old = le16(record + 16), new = le16(record + 18);
    if (n - POKE_BYTES < old + new)
        return false;
    const uint8_t *bytes = record + POKE_BYTES + old;
    if (copied) {
        uint8_t *copy = cofi__keep_alloc(&recording->keep, new);
        recording->nomem |= !copy;
        if (!copy)
            return false;
        bytes = memcpy(copy, bytes, new);
    }
    sb->kind = sb->kernel ? COFI_SB_TEXT_POKE : COFI_SB_CODE;
    sb->addr = le64(record + 8);
    sb->len = new;
    sb->bytes = bytes;
    return true;
}

/* The mapping that shows perf bytes of the file: those of the TEXT_POKE before it, with which it is one
 * CODE, or of another one, which is looked for once all are there. Where they lie is told by the
 * mappings, for tools that write the file anew leave it to say where they lay. */
static bool read_code_map(struct cofi_recording *recording, const uint8_t *record, struct cofi_sideband *sb)
{
    struct cofi_sideband *rows = recording->sideband.items,
                         *last = recording->sideband.n ? &rows[recording->sideband.n - 1] : NULL;
    read_place(record, sb);
    if (last && last->kind == COFI_SB_CODE && last->pid == sb->pid && last->time_ns == sb->time_ns &&
        last->addr == sb->addr && last->bytes && last->len >= sb->len) {
        last->ahead = last->len - sb->len;
        last->len = sb->len;
        recording->nomem |= cofi__map_put(&recording->codes, sb->pgoff, 0, (uint32_t)recording->sideband.n - 1) < 0;
        return false;
    }
    sb->kind = COFI_SB_CODE;
    return true;
}

void cofi__find_codes(struct cofi_recording *recording)
{
    struct cofi_sideband *rows = recording->sideband.items;
    for (size_t i = 0; i < recording->sideband.n; i++) {
        if (rows[i].kind != COFI_SB_CODE || rows[i].bytes)
            continue;
        const uint32_t *row = cofi__map_get(&recording->codes, rows[i].pgoff, 0);
        if (row && rows[*row].len + rows[*row].ahead >= rows[i].len) {
            rows[i].bytes = rows[*row].bytes;
            rows[i].ahead = rows[*row].len + rows[*row].ahead - rows[i].len;
            continue;
        }
        cofi__damage(recording, "code at %#llx: no record has the bytes that it shows at %#llx",
                     (unsigned long long)rows[i].addr, (unsigned long long)rows[i].pgoff);
        rows[i].kind = COFI_SB_LOST;
        rows[i].len = 0;
    }
    cofi__map_free(&recording->codes);
}

/* Smallest size of a record's body with its header; 0: not sideband. */
static size_t body_bytes(uint32_t type)
{
    switch (type) {
    case PERF_MMAP: return 40;
    case PERF_LOST: return 24;
    case PERF_COMM: return 16;
    case PERF_EXIT: return 32;
    case PERF_FORK: return 32;
    case PERF_MMAP2: return 72;
    case PERF_AUX: return 32;
    case PERF_ITRACE_START: return 16;
    case PERF_SWITCH: return 8;
    case PERF_SWITCH_CPU_WIDE: return 16;
    case PERF_TEXT_POKE: return POKE_BYTES;
    }
    return 0;
}

static void read_task(const uint8_t *record, struct cofi_sideband *sb)
{
    read_ids(record + 8, &sb->pid, &sb->ppid);
    read_ids(record + 16, &sb->tid, &sb->ptid);
    if (!sb->time_ns)
        sb->time_ns = le64(record + 24);
}

static bool read_body(struct cofi_recording *recording, const uint8_t *record, size_t n, bool copied,
                      struct cofi_sideband *sb)
{
    uint32_t type = le32(record);
    uint16_t misc = le16(record + 4), mode = misc & PERF_MISC_CPUMODE;
    sb->kernel = mode == PERF_MISC_KERNEL || mode == PERF_MISC_GUEST_KERNEL;
    sb->out = misc & PERF_MISC_SWITCH_OUT;
    sb->preempt = misc & PERF_MISC_SWITCH_PREEMPT;
    switch (type) {
    case PERF_MMAP:
    case PERF_MMAP2:
        sb->out = sb->preempt = false;
        if ((mode == PERF_MISC_GUEST_KERNEL || mode == PERF_MISC_GUEST_USER) && sb->machine == HOST)
            sb->machine = SOME_GUEST;
        if (type == PERF_MMAP2 && !(misc & PERF_MISC_MMAP_BUILD_ID) && le64(record + 56) == COFI_CODE_GENERATION)
            return read_code_map(recording, record, sb);
        read_mmap(recording, record, n, type, misc, sb);
        if (sb->machine == SOME_GUEST)
            machine_of_name(sb);
        if (sb->machine == SOME_GUEST && mode == PERF_MISC_GUEST_KERNEL && sb->pid > 0)
            sb->machine = sb->pid; /* of a module: its name has no number */
        return true;
    case PERF_LOST: sb->kind = COFI_SB_LOST; sb->len = le64(record + 16); break;
    case PERF_COMM:
        sb->kind = COFI_SB_COMM;
        sb->exec = misc & PERF_MISC_COMM_EXEC;
        read_ids(record + 8, &sb->pid, &sb->tid);
        sb->name = take_string(recording, record, 16, n);
        break;
    case PERF_FORK:
        sb->kind = COFI_SB_FORK;
        read_task(record, sb);
        sb->exec = misc & PERF_MISC_FORK_EXEC || !sb->time_ns; /* what perf finds running has no time */
        break;
    case PERF_EXIT: sb->kind = COFI_SB_EXIT; read_task(record, sb); break;
    case PERF_AUX:
        sb->kind = COFI_SB_AUX;
        sb->aux_offset = le64(record + 8);
        sb->aux_size = le64(record + 16);
        sb->aux_flags = le64(record + 24);
        break;
    case PERF_ITRACE_START: sb->kind = COFI_SB_ITRACE_START; read_ids(record + 8, &sb->pid, &sb->tid); break;
    case PERF_SWITCH: sb->kind = COFI_SB_SWITCH; return true;
    case PERF_SWITCH_CPU_WIDE: sb->kind = COFI_SB_SWITCH_CPU; read_ids(record + 8, &sb->ppid, &sb->ptid); return true;
    case PERF_TEXT_POKE:
        sb->out = sb->preempt = false;
        return read_poke(recording, record, n, copied, sb);
    }
    sb->out = sb->preempt = false;
    return true;
}

bool cofi__read_sideband(struct cofi_recording *recording, const uint8_t *record, size_t n, uint64_t at,
                         bool copied, struct cofi_sideband *sideband)
{
    size_t least = body_bytes(le32(record));
    *sideband = (struct cofi_sideband){.cpu = UINT32_MAX, .pid = -1, .tid = -1, .vcpu = -1};
    if (!least)
        return false;
    if (n < least) {
        cofi__damage(recording, "record of %zu bytes at %#llx is too short for its type %u", n,
                   (unsigned long long)at, le32(record));
        return false;
    }
    size_t body = read_trailer(recording, record, n, sideband);
    if (body < least)
        body = n; /* the trailer does not fit: a record without one */
    return read_body(recording, record, body, copied, sideband);
}

/* addr u64, len u32, type u16, flags u16 (1: gone), name. */
void cofi__read_ksymbol(struct cofi_recording *recording, const uint8_t *record, size_t n)
{
    enum { FIXED = 24, GONE = 1 };
    if (n <= FIXED || le16(record + 22) & GONE)
        return;
    struct cofi__ksymbol *row = cofi__vector_push(&recording->ksymbols);
    if (row)
        *row = (struct cofi__ksymbol){le64(record + 8), le32(record + 16), take_string(recording, record, FIXED, n)};
}

/* u64 n; n times id, idx, cpu, tid; and, if any event is a guest's, n times the hypervisor's pid, the
 * guest's processor. */
void cofi__read_id_index(struct cofi_recording *recording, const uint8_t *record, size_t n)
{
    enum { HEAD = 16, ENTRY = 32, GUEST = 16 };
    uint64_t entries = n >= HEAD ? le64(record + 8) : 0;
    if (entries > (n - HEAD) / (ENTRY + GUEST))
        return; /* there is no second part */
    for (uint64_t i = 0; i < entries; i++) {
        const uint8_t *entry = record + HEAD + i * ENTRY, *guest = record + HEAD + entries * ENTRY + i * GUEST;
        if (!le64(guest))
            continue;
        struct cofi__guest_id *row = cofi__vector_push(&recording->guest_ids);
        if (!row)
            return;
        *row = (struct cofi__guest_id){(int32_t)le64(guest), (int32_t)le64(guest + 8), (int32_t)le64(entry + 24)};
        cofi__put_row(recording, ROW_OF_GUEST_EVENT, le64(entry), recording->guest_ids.n - 1);
    }
}
