/* SPDX-License-Identifier: MIT
 * Output registers and physical memory -> the trace bytes in order. The inverse of pt_output.c and
 * topa.c. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "output/pt_output.h"

enum { PIECE = 4096 };

static int copy(const struct cofi_memory *memory, uint64_t address, uint64_t n,
                const struct cofi_sink *to, struct cofi_error *error)
{
    uint8_t piece[PIECE];
    while (n > 0) {
        size_t part = n < PIECE ? (size_t)n : PIECE;
        if (memory->read(memory->opaque, address, piece, part) < 0)
            return cofi__fail(error, COFI_ERR_RANGE, address,
                              "no memory at the physical address 0x%llx",
                              (unsigned long long)address);
        int status = to->write(to->opaque, piece, part);
        if (status < 0)
            return cofi__fail(error, status, address, "the sink refused bytes: %s", cofi_error_text(status));
        address += part;
        n -= part;
    }
    return 0;
}

int cofi_output_read_range(const struct cofi_memory *memory, uint64_t base, uint64_t mask_ptrs,
                           int wrapped, const struct cofi_sink *to, struct cofi_error *error)
{
    uint64_t mask = (uint32_t)mask_ptrs | 0x7f, offset = mask_ptrs >> 32;
    if (mask & (mask + 1) || base & mask || offset > mask)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE,
                          "base, mask and offset do not fit each other [SDM Single Range Output]");
    if (wrapped)
        COFI_TRY(copy(memory, base + offset, mask + 1 - offset, to, error));
    return copy(memory, base, offset, to, error);
}

/* Where a walk through the tables stands. */
struct walk {
    const struct cofi_memory *memory;
    const struct cofi_topa_place *place;
    struct cofi_error *error;
    uint64_t table;
    uint32_t index;
    uint64_t passed, seen_table; /* where it was after the last power of two of entries: there again, it circles */
    uint32_t seen_index;
    struct cofi__topa_entry entry; /* a region */
};

static int read_entry(struct walk *walk)
{
    uint8_t raw[8];
    uint64_t at = walk->table + 8 * (uint64_t)walk->index;
    if (walk->memory->read(walk->memory->opaque, at, raw, sizeof raw) < 0)
        return cofi__fail(walk->error, COFI_ERR_RANGE, at, "no memory at the ToPA entry 0x%llx",
                          (unsigned long long)at);
    const char *why = cofi__topa_decode(le64(raw), walk->place->maxphyaddr, &walk->entry);
    return why ? cofi__fail(walk->error, COFI_ERR_RANGE, at, "%s", why) : 0;
}

static bool at_current(const struct walk *walk)
{
    return walk->table == walk->place->base && walk->index == bits(walk->place->mask_ptrs, 7, 25);
}

/* Has the walk come to where it was, without the current entry? */
static bool circles(struct walk *walk)
{
    if (walk->passed > 0 && walk->table == walk->seen_table && walk->index == walk->seen_index)
        return !at_current(walk);
    walk->passed++;
    if ((walk->passed & (walk->passed - 1)) == 0) {
        walk->seen_table = walk->table;
        walk->seen_index = walk->index;
    }
    return false;
}

/* To the region at table, index, following a link. */
static int go(struct walk *walk, uint64_t table, uint32_t index)
{
    walk->table = table;
    walk->index = index;
    COFI_TRY(read_entry(walk));
    if (walk->entry.end) {
        walk->table = walk->entry.base;
        walk->index = 0;
        COFI_TRY(read_entry(walk));
    }
    if (walk->entry.end || circles(walk))
        return cofi__fail(walk->error, COFI_ERR_RANGE, walk->table,
                          "the ToPA tables never come to the current entry");
    return 0;
}

/* All regions from here up to the current one. */
static int copy_until_current(struct walk *walk, const struct cofi_sink *to)
{
    while (!at_current(walk)) {
        COFI_TRY(copy(walk->memory, walk->entry.base, walk->entry.size, to, walk->error));
        COFI_TRY(go(walk, walk->table, walk->index + 1));
    }
    return 0;
}

int cofi_output_read_topa(const struct cofi_memory *memory, const struct cofi_topa_place *place,
                          const struct cofi_sink *to, struct cofi_error *error)
{
    struct walk walk = {.memory = memory, .place = place, .error = error};
    uint64_t offset = place->mask_ptrs >> 32;
    COFI_TRY(go(&walk, place->base, (uint32_t)bits(place->mask_ptrs, 7, 25)));
    if (!at_current(&walk) || offset > walk.entry.size)
        return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE,
                          "the current ToPA entry has no such offset [SDM ToPA Errors]");
    if (place->wrapped) {
        COFI_TRY(copy(memory, walk.entry.base + offset, walk.entry.size - offset, to, error));
        COFI_TRY(go(&walk, walk.table, walk.index + 1));
    } else {
        COFI_TRY(go(&walk, place->table, 0));
    }
    COFI_TRY(copy_until_current(&walk, to));
    return copy(memory, walk.entry.base, offset, to, error);
}
