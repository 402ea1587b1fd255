/* SPDX-License-Identifier: MIT
 * All that decodes of one stream said, to be compared word by word. */
#ifndef COFI_TEST_FLOW_LOG_H
#define COFI_TEST_FLOW_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <cofi/flow.h>

/* Zero-initialised is empty; the words are freed by the user. */
struct log {
    uint64_t *words;
    size_t n, max;
};

void log_word(struct log *log, uint64_t word);
/* Blocks with their times, and events where they belong between them. */
void log_batch(struct log *log, const struct cofi_flow_batch *batch);
/* Events and how many blocks were before each, `blocks` of them before the batch: the same with and without blocks. */
void log_events(struct log *log, const struct cofi_flow_batch *batch, uint64_t blocks);
/* Fails the test at the first difference and names it; seed: to be told then. */
void log_assert_same(const struct log *log, const struct log *expected, uint64_t seed);

#endif
