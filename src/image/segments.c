/* SPDX-License-Identifier: MIT
 * Ranges that are put over each other -> what is where. */
#include "image/segments.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"

enum { LEAF_ROWS = 64 };

static size_t leaf_at(const struct cofi__segments *segments, uint64_t addr)
{
    return cofi__array_upper_bound(segments->leaves, segments->n, sizeof *segments->leaves,
                                   offsetof(struct cofi__leaf, end), addr);
}

static size_t row_at(const struct cofi__leaf *leaf, uint64_t addr)
{
    return cofi__array_upper_bound(leaf->rows, leaf->n, sizeof *leaf->rows, offsetof(struct cofi__segment, end), addr);
}

struct cofi__place cofi__segments_from(const struct cofi__segments *segments, uint64_t addr)
{
    size_t leaf = leaf_at(segments, addr);
    return (struct cofi__place){leaf, leaf < segments->n ? row_at(&segments->leaves[leaf], addr) : 0};
}

const struct cofi__segment *cofi__segments_next(const struct cofi__segments *segments, struct cofi__place *place)
{
    if (place->leaf == segments->n)
        return NULL;
    const struct cofi__leaf *leaf = &segments->leaves[place->leaf];
    const struct cofi__segment *segment = &leaf->rows[place->row++];
    if (place->row == leaf->n)
        *place = (struct cofi__place){place->leaf + 1, 0};
    return segment;
}

const struct cofi__segment *cofi__segments_find(const struct cofi__segments *segments, uint64_t addr)
{
    struct cofi__place place = cofi__segments_from(segments, addr);
    const struct cofi__segment *segment = cofi__segments_next(segments, &place);
    return segment && segment->start <= addr ? segment : NULL;
}

/* An empty leaf, for who fills it at once. */
static int add_leaf(struct cofi__segments *segments, size_t at)
{
    COFI_TRY(cofi__array_grow(&segments->leaves, &segments->room, segments->n, sizeof *segments->leaves));
    struct cofi__segment *rows = malloc(LEAF_ROWS * sizeof *rows);
    if (!rows)
        return COFI_ERR_NOMEM;
    struct cofi__leaf *leaf = &segments->leaves[at];
    memmove(leaf + 1, leaf, (segments->n - at) * sizeof *leaf);
    *leaf = (struct cofi__leaf){.rows = rows};
    segments->n++;
    return 0;
}

/* Leaves [first, last), which hold nothing any more. */
static void drop_leaves(struct cofi__segments *segments, size_t first, size_t last)
{
    memmove(&segments->leaves[first], &segments->leaves[last], (segments->n - last) * sizeof *segments->leaves);
    segments->n -= last - first;
}

static void set_rows(struct cofi__leaf *leaf, size_t n)
{
    leaf->n = n;
    leaf->end = n ? leaf->rows[n - 1].end : 0;
}

/* The upper half of a leaf becomes one. */
static int split(struct cofi__segments *segments, size_t at)
{
    COFI_TRY(add_leaf(segments, at + 1));
    struct cofi__leaf *low = &segments->leaves[at], *high = low + 1;
    size_t half = low->n / 2, rest = low->n - half;
    memcpy(high->rows, low->rows + half, rest * sizeof *high->rows);
    set_rows(high, rest);
    set_rows(low, half);
    return 0;
}

/* A leaf and the one behind it become one where that stays small, so that no more is kept than is shown. */
static void join(struct cofi__segments *segments, size_t at)
{
    struct cofi__leaf *low = &segments->leaves[at], *high = low + 1;
    if (at + 1 >= segments->n || low->n + high->n > LEAF_ROWS / 2)
        return;
    memcpy(low->rows + low->n, high->rows, high->n * sizeof *high->rows);
    set_rows(low, low->n + high->n);
    free(high->rows);
    drop_leaves(segments, at + 1, at + 2);
}

static void insert(struct cofi__leaf *leaf, size_t row, const struct cofi__segment *segment)
{
    memmove(&leaf->rows[row + 1], &leaf->rows[row], (leaf->n - row) * sizeof *segment);
    leaf->rows[row] = *segment;
    set_rows(leaf, leaf->n + 1);
}

/* A segment that lies on both sides of addr becomes two, which show the same. */
static int cut(struct cofi__segments *segments, uint64_t addr)
{
    struct cofi__place at = cofi__segments_from(segments, addr);
    if (at.leaf == segments->n || segments->leaves[at.leaf].rows[at.row].start >= addr)
        return 0;
    if (segments->leaves[at.leaf].n == LEAF_ROWS) {
        COFI_TRY(split(segments, at.leaf));
        at = cofi__segments_from(segments, addr);
    }
    struct cofi__leaf *leaf = &segments->leaves[at.leaf];
    struct cofi__segment *low = &leaf->rows[at.row],
                         high = {addr, low->end, low->pgoff + (addr - low->start), low->source};
    low->end = addr;
    insert(leaf, at.row + 1, &high);
    return 0;
}

/* What a leaf has in [start, end) goes; none of it lies outside, too. */
static void thin(struct cofi__leaf *leaf, uint64_t start, uint64_t end)
{
    size_t first = row_at(leaf, start), last = first;
    while (last < leaf->n && leaf->rows[last].start < end)
        last++;
    memmove(&leaf->rows[first], &leaf->rows[last], (leaf->n - last) * sizeof *leaf->rows);
    set_rows(leaf, leaf->n - (last - first));
}

static void take_out(struct cofi__segments *segments, uint64_t start, uint64_t end)
{
    struct cofi__leaf *leaves = segments->leaves;
    size_t first = leaf_at(segments, start), kept = first, i = first;
    for (; i < segments->n && leaves[i].rows[0].start < end; i++) {
        thin(&leaves[i], start, end);
        if (leaves[i].n)
            leaves[kept++] = leaves[i];
        else
            free(leaves[i].rows);
    }
    drop_leaves(segments, kept, i);
    for (size_t at = kept; at >= first && at > 0; at--)
        join(segments, at - 1);
}

static int add(struct cofi__segments *segments, const struct cofi__segment *segment)
{
    if (!segments->n)
        COFI_TRY(add_leaf(segments, 0));
    size_t at = leaf_at(segments, segment->start);
    if (at == segments->n)
        at--;
    if (segments->leaves[at].n == LEAF_ROWS) {
        COFI_TRY(split(segments, at));
        at += segments->leaves[at].end <= segment->start;
    }
    insert(&segments->leaves[at], row_at(&segments->leaves[at], segment->start), segment);
    return 0;
}

int cofi__segments_put(struct cofi__segments *segments, const struct cofi__segment *segment)
{
    COFI_TRY(cut(segments, segment->start));
    COFI_TRY(cut(segments, segment->end));
    if (segments->n)
        take_out(segments, segment->start, segment->end);
    return segment->source ? add(segments, segment) : 0;
}

void cofi__segments_free(struct cofi__segments *segments)
{
    for (size_t i = 0; i < segments->n; i++)
        free(segments->leaves[i].rows);
    free(segments->leaves);
    *segments = (struct cofi__segments){0};
}
