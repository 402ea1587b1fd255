/* SPDX-License-Identifier: MIT
 * Filters: whether a thread is traced, by where its branches go. The rules are the trace unit's own:
 * ranges and TraceStop follow taken branches and returns from the kernel only [SDM Filtering by IP];
 * start and stop are single addresses. */
#include <cofi/filter.h>

#include "host/fast/rt/rt.h"

enum { RANGES = 64 };

/* The filters as addresses of this process; found anew whenever the mappings are read. */
static struct range {
    uint64_t start, end;
    uint32_t action;
} ranges[RANGES], old_ranges[RANGES];
static unsigned count, old_count;

static void add(uint32_t action, uint64_t start, uint64_t end)
{
    if (count < RANGES && start < end)
        ranges[count++] = (struct range){start, end, action};
}

static void add_addresses(void)
{
    for (unsigned i = 0; i < rt.control->filters; i++) {
        const struct cofi__fast_filter *f = &rt.control->filter[i];
        if (!f->file)
            add(f->action, f->start, f->end);
    }
}

/* From 1, the first filter that names the file; 0: none. */
uint8_t filter_of(const struct origin *o)
{
    uint64_t hash = rt.control->filters ? cofi__fast_hash(o->name, o->n) : 0;
    for (unsigned i = 0; i < rt.control->filters; i++)
        if (rt.control->filter[i].file == hash)
            return (uint8_t)(i + 1);
    return 0;
}

static void add_file(const struct region *r)
{
    uint64_t offset = (uint64_t)r->page << 12, bytes = r->end - r->start;
    for (unsigned i = 0; i < rt.control->filters; i++) {
        const struct cofi__fast_filter *f = &rt.control->filter[i];
        if (f->file != rt.control->filter[r->filter - 1].file)
            continue;
        uint64_t end = offset + bytes, low = f->start > offset ? f->start : offset, high = f->end < end ? f->end : end;
        if (low < high)
            add(f->action, r->start + (low - offset), r->start + (high - offset));
    }
}

/* The mappings have been read: what was translated under other filters is forgotten. */
void filter_maps_read(void)
{
    if (!rt.control->filters)
        return;
    memcpy(old_ranges, ranges, sizeof ranges);
    old_count = count;
    count = 0;
    add_addresses();
    for (const struct region *r = rt.regions; r < rt.regions + rt.region_count; r++)
        if (r->filter)
            add_file(r);
    if (count != old_count || memcmp(ranges, old_ranges, count * sizeof ranges[0]))
        cache_invalidate(0, ~0ul);
}

static bool is_in(uint32_t action, uint64_t pc)
{
    for (unsigned i = 0; i < count; i++)
        if (ranges[i].action == action && pc >= ranges[i].start && pc < ranges[i].end)
            return true;
    return false;
}

static bool asked_for(uint32_t action)
{
    for (unsigned i = 0; i < rt.control->filters; i++)
        if (rt.control->filter[i].action == action)
            return true;
    return false;
}

/* How a thread begins. */
unsigned filter_first(void)
{
    if (!rt.control->trace)
        return MODE_STOPPED;
    return asked_for(COFI_FILTER_START) ? MODE_OFF : MODE_TRACED;
}

/* The mode of a thread that comes to pc; taken: by a branch or from the kernel, else from the instruction before it. */
unsigned filter_mode(unsigned mode, uint64_t pc, bool taken)
{
    if (!rt.control->filters || mode == MODE_STOPPED)
        return mode;
    if (mode == MODE_OFF) {
        if (!is_in(COFI_FILTER_START, pc))
            return mode;
        mode = MODE_TRACED;
        taken = true;
    } else if (is_in(COFI_FILTER_STOP, pc)) {
        return MODE_OFF;
    }
    if (!taken)
        return mode;
    if (is_in(COFI_FILTER_TRACESTOP, pc))
        return MODE_STOPPED;
    if (asked_for(COFI_FILTER_RANGE))
        return is_in(COFI_FILTER_RANGE, pc) ? MODE_TRACED : MODE_OUTSIDE;
    return mode;
}

/* Whether coming to pc asks for a snapshot. */
bool filter_trigger(uint64_t pc)
{
    return rt.control->filters && is_in(COFI_FILTER_TRIGGER, pc);
}
