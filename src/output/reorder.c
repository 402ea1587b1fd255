/* SPDX-License-Identifier: MIT
 * Writes of lines as a collector receives them, out of order -> the stream [RTIT 2.3.2]. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>
#include <cofi/output.h>

#include "output/lines.h"

/* What has come of one line and not gone on. Bytes [first, end) are held; pieces of a line come in their
 * order, so they follow each other. */
struct slot {
    uint8_t first, end;
    uint8_t bytes[COFI__LINE];
};

struct cofi_reorder {
    struct cofi_sink sink;
    uint32_t size;    /* of the region */
    uint32_t next;    /* offset of the byte that is due */
    uint32_t waiting; /* bytes held */
    struct slot slots[];
};

int cofi_reorder_open(struct cofi_reorder **reorder, uint32_t region_bytes, uint32_t offset, struct cofi_sink sink)
{
    if (region_bytes == 0 || region_bytes % COFI__LINE != 0 || offset >= region_bytes)
        return COFI_ERR_RANGE;
    size_t lines = region_bytes / COFI__LINE;
    struct cofi_reorder *r = calloc(1, sizeof *r + lines * sizeof r->slots[0]);
    if (!r)
        return COFI_ERR_NOMEM;
    r->sink = sink;
    r->size = region_bytes;
    r->next = offset;
    *reorder = r;
    return COFI_OK;
}

void cofi_reorder_close(struct cofi_reorder *reorder) { free(reorder); }

uint32_t cofi_reorder_waiting(const struct cofi_reorder *reorder) { return reorder->waiting; }

/* Everything that is due goes on. */
static int release(struct cofi_reorder *r)
{
    for (;;) {
        struct slot *slot = &r->slots[r->next / COFI__LINE];
        uint32_t n = slot->end - slot->first;
        if (n == 0 || slot->first != r->next % COFI__LINE)
            return COFI_OK;
        int status = r->sink.write(r->sink.opaque, slot->bytes + slot->first, n);
        if (status < 0)
            return status;
        r->next = (r->next + n) % r->size;
        r->waiting -= n;
        slot->first = slot->end = 0;
    }
}

int cofi_reorder_write(struct cofi_reorder *reorder, uint32_t offset, const uint8_t *bytes, size_t n)
{
    uint32_t at = offset % COFI__LINE;
    if (offset >= reorder->size || n == 0 || n > COFI__LINE - at)
        return COFI_ERR_RANGE;
    struct slot *slot = &reorder->slots[offset / COFI__LINE];
    bool held = slot->end > slot->first;
    /* A held line can only grow: a younger iteration of it must not come before what is due, which is
     * older than both. */
    if (held && slot->end != at)
        return COFI_ERR_MISMATCH;
    if (!held)
        slot->first = (uint8_t)at;
    memcpy(slot->bytes + at, bytes, n);
    slot->end = (uint8_t)(at + n);
    reorder->waiting += (uint32_t)n;
    return release(reorder);
}
