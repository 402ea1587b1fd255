/* SPDX-License-Identifier: MIT
 * See compare.h. */
#include "compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

static void name_difference(struct comparison *c, uint64_t ip, uint64_t offset)
{
    const struct truth_thread *truth = c->truth;
    c->differs = true;
    write_format(c->out, "  differs at instruction %" PRIu64 " (behind offset 0x%" PRIx64 "): decoded ", c->at + 1,
                 offset);
    if (ip == COFI_NO_IP)
        write_format(c->out, "nothing");
    else
        write_format(c->out, "%016" PRIx64, ip);
    if (c->at < truth->n)
        write_format(c->out, ", ran %016" PRIx64, truth->ips[c->at]);
    else
        write_format(c->out, ", nothing more ran");
    if (c->at)
        write_format(c->out, ", after %016" PRIx64, truth->ips[c->at - 1]);
    write_format(c->out, "\n");
}

/* Go past software interrupts that the trace does not show, unless the next one decoded is it. */
static void skip_optional(const struct truth_thread *truth, uint64_t *at, uint64_t *optional, uint64_t ip)
{
    while (*optional < truth->optional_n && truth->optional[*optional] <= *at) {
        if (truth->optional[*optional] == *at && truth->ips[*at] != ip)
            ++*at;
        ++*optional;
    }
}

/* ---- after an overflow ---- */

static void remember(struct comparison *c, const struct cofi_flow_block *block)
{
    if (c->segment_room - c->segment_n < block->n) {
        size_t room = 2 * c->segment_room + block->n;
        uint64_t *larger = realloc(c->segment, room * sizeof *larger);
        if (!larger) {
            complain("check: out of memory");
            c->differs = true;
            return;
        }
        c->segment = larger;
        c->segment_room = room;
    }
    for (uint32_t i = 0; i < block->n; i++)
        c->segment[c->segment_n++] = block->insns[i].ip;
}

/* Does the segment lie in the truth from *at on? Then *at and *optional are moved behind it. */
static bool lies_at(const struct comparison *c, uint64_t *at, uint64_t *optional)
{
    for (size_t i = 0; i < c->segment_n; i++, ++*at) {
        skip_optional(c->truth, at, optional, c->segment[i]);
        if (*at >= c->truth->n || c->truth->ips[*at] != c->segment[i])
            return false;
    }
    return true;
}

/* The segment's first place in the truth from c->at on; the earliest leaves most for those that follow. last: it
 * must reach to the truth's end. */
static void place(struct comparison *c, bool last, uint64_t offset)
{
    for (uint64_t from = c->at; from < c->truth->n; from++) {
        uint64_t at = from, optional = c->optional;
        if (!lies_at(c, &at, &optional))
            continue;
        if (last)
            skip_optional(c->truth, &at, &optional, COFI_NO_IP);
        if (last && at < c->truth->n)
            continue;
        c->hidden += from - c->at;
        c->at = at;
        c->optional = optional;
        return;
    }
    c->differs = true;
    write_format(c->out,
                 "  differs: the %zu instructions from %016" PRIx64 " on, after the overflow before offset 0x%" PRIx64
                 ", did not run so after instruction %" PRIu64 "\n",
                 c->segment_n, c->segment[0], offset, c->at);
}

static void settle(struct comparison *c, bool last, uint64_t offset)
{
    if (c->astray && c->segment_n && !c->differs)
        place(c, last, offset);
    else if (c->astray && last && !c->differs)
        c->hidden += c->truth->n - c->at, c->at = c->truth->n;
    c->segment_n = 0;
    c->astray = false;
}

/* ---- the flow ---- */

void compare_block(struct comparison *c, const struct cofi_flow_block *block, uint64_t offset)
{
    if (!c->truth || c->differs)
        return;
    c->stopped = false;
    if (c->astray) {
        remember(c, block);
        return;
    }
    for (uint32_t i = 0; i < block->n; i++, c->at++) {
        skip_optional(c->truth, &c->at, &c->optional, block->insns[i].ip);
        if (c->at >= c->truth->n || c->truth->ips[c->at] != block->insns[i].ip) {
            name_difference(c, block->insns[i].ip, offset);
            return;
        }
    }
}

void compare_overflow(struct comparison *c, uint64_t offset)
{
    if (!c->truth || c->differs)
        return;
    settle(c, false, offset);
    c->astray = true;
}

void compare_stop(struct comparison *c) { c->stopped = true; }

void compare_end(struct comparison *c, uint64_t offset)
{
    if (c->truth && !c->differs) {
        settle(c, !c->stopped, offset);
        skip_optional(c->truth, &c->at, &c->optional, COFI_NO_IP);
        if (c->stopped)
            c->after_stop = c->truth->n - c->at;
        else if (!c->differs && c->at < c->truth->n)
            name_difference(c, COFI_NO_IP, offset);
    }
    free(c->segment);
    c->segment = NULL;
}
