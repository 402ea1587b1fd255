/* SPDX-License-Identifier: MIT
 * What a decode said, one word after the other. */
#include "log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

void log_word(struct log *log, uint64_t word)
{
    if (log->n == log->max) {
        log->words = realloc(log->words, (log->max = log->max ? log->max * 2 : 1 << 16) * sizeof *log->words);
        assert_non_null(log->words);
    }
    log->words[log->n++] = word;
}

static void event(struct log *log, const struct cofi_flow_event *e)
{
    const uint64_t words[] = {e->kind, e->offset, e->ip, e->target, e->value, e->time.ticks, e->time.ns, e->a, e->b,
        e->c, (uint64_t)e->cause, e->end, e->since, e->time.known, e->time.interpolated};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        log_word(log, words[i]);
}

void log_batch(struct log *log, const struct cofi_flow_batch *batch)
{
    size_t e = 0;
    for (size_t i = 0; i <= batch->blocks_n; i++) {
        for (; e < batch->events_n && batch->events[e].at == i; e++)
            event(log, &batch->events[e]);
        if (i == batch->blocks_n)
            break;
        log_word(log, batch->blocks[i]->ip);
        log_word(log, batch->blocks[i]->end);
        if (batch->times)
            log_word(log, (uint64_t)batch->times[i].ticks << 1 | batch->times[i].interpolated);
    }
    assert_int_equal(e, batch->events_n);
}

void log_events(struct log *log, const struct cofi_flow_batch *batch, uint64_t blocks)
{
    for (size_t i = 0; i < batch->events_n; i++) {
        log_word(log, blocks + batch->events[i].at);
        event(log, &batch->events[i]);
    }
}

void log_assert_same(const struct log *log, const struct log *expected, uint64_t seed)
{
    for (size_t i = 0; i < log->n && i < expected->n; i++)
        if (log->words[i] != expected->words[i])
            fail_msg("seed %lu: word %zu of %zu: %#lx instead of %#lx", seed, i, expected->n, log->words[i],
                     expected->words[i]);
    assert_int_equal(log->n, expected->n);
}
