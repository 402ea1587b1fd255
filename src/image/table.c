/* SPDX-License-Identifier: MIT
 * Changes in time order -> what is where now, and which ranges differ from before. */
#include <string.h>

#include "base/error.h"
#include "image/image.h"

/* What reports go through. */
struct report {
    void (*changed)(void *opaque, uint64_t addr, uint64_t len);
    void *opaque;
    int count;
};

static void tell(struct report *report, uint64_t start, uint64_t end)
{
    if (start >= end)
        return;
    report->count++;
    if (report->changed)
        report->changed(report->opaque, start, end - start);
}

/* Both show bytes in memory: tell only the runs that differ, joined where 64 bytes or less lie between. */
static void tell_bytes(struct report *report, uint64_t start, uint64_t end, const uint8_t *a,
                       const uint8_t *b)
{
    uint64_t n = end - start, i = 0;
    while (i < n) {
        if (n - i >= 64 && !memcmp(a + i, b + i, 64)) {
            i += 64;
            continue;
        }
        while (i < n && a[i] == b[i])
            i++;
        if (i == n)
            return;
        uint64_t first = i, last = i;
        for (; i < n && i - last <= 64; i++)
            if (a[i] != b[i])
                last = i;
        tell(report, start + first, start + last + 1);
    }
}

/* [start, end) showed old and shows the change now. */
static void tell_overlap(struct report *report, uint64_t start, uint64_t end,
                         const struct cofi__segment *old, const struct cofi__change *change)
{
    uint64_t old_offset = old->pgoff + (start - old->start);
    uint64_t new_offset = change->pgoff + (start - change->addr);
    if (old->source == change->source && old_offset == new_offset)
        return;
    bool memory = change->source && old->source->kind == COFI__SOURCE_BYTES &&
                  change->source->kind == COFI__SOURCE_BYTES && old_offset + (end - start) <= old->source->size &&
                  new_offset + (end - start) <= change->source->size;
    if (memory)
        tell_bytes(report, start, end, old->source->bytes + old_offset, change->source->bytes + new_offset);
    else
        tell(report, start, end);
}

/* The recording has code that the file there holds, too, in case that goes. While it has not, it is the
 * file, for that has names. */
static bool is_there(const struct cofi__table *table, const struct cofi__change *change)
{
    const struct cofi__segment *s = cofi__segments_find(&table->segments, change->addr);
    if (!change->source || change->source->kind != COFI__SOURCE_BYTES || !s || s->source->kind != COFI__SOURCE_FILE ||
        s->end - change->addr < change->len)
        return false;
    const uint8_t *file;
    for (uint64_t i = 0, start, end, at; i < change->len; i += end - at) {
        at = s->pgoff + (change->addr - s->start) + i;
        if (cofi__source_read(s->source, at, &file, &start, &end, NULL, 0) < 0)
            return false;
        end = end - at < change->len - i ? end : at + (change->len - i);
        if (memcmp(file + (at - start), change->source->bytes + change->pgoff + i, end - at))
            return false;
    }
    return true;
}

/* Tell what the change alters: parts over nothing (if it maps) and parts over something else. */
static void tell_change(const struct cofi__table *table, const struct cofi__change *change,
                        struct report *report)
{
    uint64_t end = change->addr + change->len, at = change->addr;
    struct cofi__place place = cofi__segments_from(&table->segments, at);
    for (const struct cofi__segment *s; (s = cofi__segments_next(&table->segments, &place)) && s->start < end;) {
        uint64_t from = s->start > at ? s->start : at, to = s->end < end ? s->end : end;
        if (change->source)
            tell(report, at, from);
        tell_overlap(report, from, to, s, change);
        at = to;
    }
    if (change->source)
        tell(report, at, end);
}

/* report: null, or whom to tell. */
static int put(struct cofi__table *table, const struct cofi__change *change, struct report *report)
{
    if (report)
        tell_change(table, change, report);
    const struct cofi__segment segment = {change->addr, change->addr + change->len, change->pgoff, change->source};
    return cofi__segments_put(&table->segments, &segment);
}

/* Memory that has no bytes hides no function of a JIT: when its heap grows, or is made writable and executable
 * in turns, the kernel tells the whole heap, and code whose place is used again is told by the JIT. */
static bool stays(const struct cofi__segment *s, const struct cofi__change *memory)
{
    return s->source->is_function || s->source == memory->source;
}

static int put_between(struct cofi__table *table, const struct cofi__change *memory, struct report *report)
{
    uint64_t at = memory->addr, end = memory->addr + memory->len;
    while (at < end) {
        struct cofi__place place = cofi__segments_from(&table->segments, at);
        const struct cofi__segment *s;
        while ((s = cofi__segments_next(&table->segments, &place)) && s->start <= at && stays(s, memory))
            at = s->end;
        while (s && s->start < end && !stays(s, memory))
            s = cofi__segments_next(&table->segments, &place);
        uint64_t to = s && s->start < end ? s->start : end;
        if (at < to) {
            const struct cofi__change part = {memory->time_ns, at, to - at, memory->pgoff + (at - memory->addr),
                                              memory->source};
            COFI_TRY(put(table, &part, report));
        }
        at = to > at ? to : at;
    }
    return 0;
}

static int apply(struct cofi__table *table, const struct cofi__change *change, struct report *report)
{
    if (is_there(table, change))
        return 0;
    bool memory = change->source && change->source->kind == COFI__SOURCE_FILE &&
                  cofi__names_memory(change->source->path);
    return (memory ? put_between : put)(table, change, report);
}

static bool is_clear(const struct cofi__change *change)
{
    return !change->source && !change->addr && change->len == UINT64_MAX;
}

int cofi__table_advance(struct cofi__table *table, uint64_t time_ns,
                        void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    struct report report = {changed, opaque, 0};
    while (table->next < table->image->n && table->image->changes[table->next].time_ns <= time_ns) {
        const struct cofi__change *change = &table->image->changes[table->next];
        int before = report.count;
        COFI_TRY(apply(table, change, &report));
        table->clears += is_clear(change) && report.count != before;
        table->next++;
    }
    return report.count;
}

int cofi__table_forward(struct cofi__table *table, uint64_t time_ns)
{
    while (table->next < table->image->n && table->image->changes[table->next].time_ns <= time_ns) {
        COFI_TRY(apply(table, &table->image->changes[table->next], NULL));
        table->next++;
    }
    return 0;
}

/* Parts of segment s that b does not show, and those that it shows otherwise unless missing_only. */
static void tell_segment(const struct cofi__segments *b, const struct cofi__segment *s, bool missing_only,
                         struct report *report)
{
    uint64_t at = s->start;
    const struct cofi__change as_change = {0, s->start, s->end - s->start, s->pgoff, s->source};
    struct cofi__place place = cofi__segments_from(b, at);
    for (const struct cofi__segment *other; (other = cofi__segments_next(b, &place)) && other->start < s->end;) {
        uint64_t from = other->start > at ? other->start : at, to = other->end < s->end ? other->end : s->end;
        tell(report, at, from);
        if (!missing_only)
            tell_overlap(report, from, to, other, &as_change);
        at = to;
    }
    tell(report, at, s->end);
}

int cofi__table_differences(const struct cofi__table *a, const struct cofi__table *b,
                            void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    struct report report = {changed, opaque, 0};
    const struct cofi__segment *s;
    struct cofi__place in_a = {0}, in_b = {0};
    while ((s = cofi__segments_next(&a->segments, &in_a)))
        tell_segment(&b->segments, s, false, &report);
    while ((s = cofi__segments_next(&b->segments, &in_b)))
        tell_segment(&a->segments, s, true, &report);
    return report.count;
}
