/* SPDX-License-Identifier: MIT
 * Bytes -> the regions of a table of physical addresses [SDM Table of Physical Addresses (ToPA)].
 */
#include "base/bytes.h"
#include "output/pt_output.h"

/* [SDM ToPA Table Entry Fields]
 *   63 … MAXPHYADDR | MAXPHYADDR-1 … 12 | 11 10 | 9 … 6 | 5 | 4    | 3 | 2   | 1 | 0
 *   reserved        | base              | res.  | size  | r | STOP | r | INT | r | END */
enum { TOPA_END = 1 << 0, TOPA_INT = 1 << 2, TOPA_STOP = 1 << 4 };

static const uint64_t topa_reserved = UINT64_C(0xc2a);
enum {
    SINGLE_ENTRY_SLACK = 512
}; /* how early INT comes on parts with one entry: assumed [PTREF 4.6] */

static const uint32_t last_index = (UINT32_C(1) << 25) - 1; /* table offset bits 27:3 [PTREF 6.9] */

/* [SDM ToPA Errors] */
const char *cofi__topa_decode(uint64_t raw, unsigned maxphyaddr, struct cofi__topa_entry *entry)
{
    uint64_t address = raw & ~UINT64_C(0xfff);
    entry->end = raw & TOPA_END;
    entry->int_ = raw & TOPA_INT;
    entry->stop = raw & TOPA_STOP;
    entry->base = address;
    entry->size = entry->end ? 0 : UINT64_C(4096) << bits(raw, 6, 4);
    if (raw & topa_reserved)
        return "reserved bit set in a ToPA entry [SDM ToPA Errors]";
    if (maxphyaddr < 64 && address >> maxphyaddr)
        return "ToPA entry: address beyond MAXPHYADDR [SDM ToPA Errors]";
    if (entry->end && (entry->int_ || entry->stop))
        return "INT or STOP in an END entry [SDM ToPA Errors]";
    if (!entry->end && (address & (entry->size - 1)))
        return "region not aligned to its size [SDM ToPA Errors]";
    return NULL;
}

static unsigned fail(struct cofi__pt_output *out, const char *why)
{
    out->why = why;
    out->region_size = 0;
    return PT_OUTPUT_ERROR;
}

static const char *read_entry(struct cofi__pt_output *out, uint32_t index,
                              struct cofi__topa_entry *entry)
{
    uint8_t raw[8];
    if (!out->memory.read || out->memory.read(out->memory.opaque, out->base + 8 * (uint64_t)index, raw, sizeof raw) < 0)
        return "ToPA table in restricted memory [SDM Restricted Memory Access]";
    return cofi__topa_decode(le64(raw), out->maxphyaddr, entry);
}

/* Parts with one output entry: entry 1 must be END and lead back to the table [PTREF 1.2]. */
static const char *check_single(struct cofi__pt_output *out)
{
    struct cofi__topa_entry next;
    const char *why = read_entry(out, 1, &next);
    if (why)
        return why;
    if (!next.end || next.base != out->base)
        return "entry 1 does not lead back to its table [SDM ToPA Errors]";
    return NULL;
}

/* Take the entry at out->base, out->entry as the current one; a link is followed at once. */
unsigned cofi__topa_load(struct cofi__pt_output *out)
{
    struct cofi__topa_entry entry;
    if (out->base & 0xfff)
        return fail(out, "ToPA table not 4 KiB-aligned [SDM ToPA Errors]");
    const char *why = read_entry(out, out->entry, &entry);
    if (!why && entry.end && out->entry == 0)
        why = "END in entry 0 of a table [SDM ToPA Errors]";
    if (!why && entry.end && !out->multi && entry.base != out->base)
        why = "entry 1 does not lead back to its table [SDM ToPA Errors]";
    if (!why && entry.end) {
        out->base = entry.base;
        out->entry = 0;
        why = read_entry(out, 0, &entry);
        if (!why && entry.end)
            why = "END in entry 0 of a table [SDM ToPA Errors]";
    }
    if (!why && !out->multi)
        why = check_single(out);
    if (!why && out->offset >= entry.size)
        why = "OutputOffset beyond the region [SDM ToPA Errors]";
    if (why)
        return fail(out, why);
    out->region = entry.base;
    out->region_size = entry.size;
    out->region_int = entry.int_;
    out->region_stop = entry.stop;
    return 0;
}

/* The current region is full. */
static unsigned next_region(struct cofi__pt_output *out)
{
    unsigned what = out->region_int ? PT_OUTPUT_PMI : 0;
    if (out->region_stop) { /* index and offset stay [SDM ToPA STOP] */
        out->region_size = 0;
        return what | PT_OUTPUT_STOP;
    }
    out->entry = out->entry == last_index ? 0 : out->entry + 1;
    out->offset = 0;
    return what | cofi__topa_load(out);
}

/* Does writing n more bytes cross the point where a part with one entry raises its interrupt? */
static bool crosses_single(const struct cofi__pt_output *out, size_t n)
{
    uint64_t point = out->region_size - SINGLE_ENTRY_SLACK;
    return !out->multi && out->region_int && out->offset < point && out->offset + n >= point;
}

unsigned cofi__topa_write(struct cofi__pt_output *out, const uint8_t *bytes, size_t n)
{
    unsigned what = 0;
    while (n > 0 && !(what & (PT_OUTPUT_STOP | PT_OUTPUT_ERROR))) {
        size_t room = out->region_size - out->offset, part = n < room ? n : room;
        /* Stores to restricted memory are dropped [SDM Restricted Memory Access]. */
        (void)out->memory.write(out->memory.opaque, out->region + out->offset, bytes, part);
        if (crosses_single(out, part)) {
            what |= PT_OUTPUT_PMI;
            out->region_int = false; /* raised; where output began behind that point, when the region is full */
        }
        out->offset += (uint32_t)part;
        bytes += part;
        n -= part;
        if (out->offset == out->region_size)
            what |= next_region(out);
    }
    return what;
}
