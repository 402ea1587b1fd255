/* SPDX-License-Identifier: MIT
 * Sideband -> which process a thread is of, record by record: a thread's number may be used again, in
 * another process. */
#include <stdlib.h>

#include "base/error.h"
#include "trace/reader.h"

int cofi__thread_compare(const void *a, const void *b)
{
    const struct cofi__thread_key *x = a, *y = b;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->since != y->since)
        return x->since < y->since ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

size_t cofi__thread_above(const struct cofi__vector *table, int32_t tid, uint64_t since)
{
    const struct cofi__thread_key wanted = {tid, since, SIZE_MAX};
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const void *row = (const char *)table->items + middle * table->item_bytes;
        if (cofi__thread_compare(row, &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int cofi__list_threads(const struct cofi_recording *recording, struct cofi__vector *threads)
{
    const struct cofi_sideband *rows = recording->sideband.items;
    *threads = (struct cofi__vector)COFI__VECTOR_OF(struct cofi__thread_row);
    for (size_t i = 0; i < recording->sideband.n; i++) {
        if (rows[i].machine != HOST || rows[i].kind == COFI_SB_SWITCH_CPU || rows[i].tid <= 0 || rows[i].pid <= 0)
            continue;
        struct cofi__thread_row *row = cofi__vector_push(threads);
        if (row)
            *row = (struct cofi__thread_row){{rows[i].tid, i + 1, 0}, rows[i].pid};
    }
    if (threads->n)
        qsort(threads->items, threads->n, sizeof(struct cofi__thread_row), cofi__thread_compare);
    if (!threads->failed)
        return 0;
    free(threads->items);
    return COFI_ERR_NOMEM;
}

int32_t cofi__pid_of(const struct cofi__vector *threads, int32_t tid, size_t records)
{
    const struct cofi__thread_row *rows = threads->items;
    size_t above = cofi__thread_above(threads, tid, records);
    if (above && rows[above - 1].at.tid == tid)
        return rows[above - 1].pid;
    return above < threads->n && rows[above].at.tid == tid ? rows[above].pid : tid;
}
