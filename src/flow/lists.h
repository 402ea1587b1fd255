/* SPDX-License-Identifier: MIT
 * What ran, told by the lists of blocks that hold it: what a span consists of, and what one thread
 * leaves for another to show. */
#ifndef COFI_FLOW_LISTS_H
#define COFI_FLOW_LISTS_H

#include "flow/run_type.h"
#include "flow/span.h"

/* A word: an address (48 bits) below what is there. */
enum { LIST_SHIFT = 48 };
enum {
    LIST_BLOCK = 0,     /* one block; else so many, the list of a run; or, from here on: */
    /* what is written down to be counted has these, too: */
    LIST_NOT_TAKEN = 0x4000, LIST_TAKEN, /* the block's conditional branch was, which no run tells */
    LIST_BREAK,                          /* no edge leads to what follows */
    LIST_SPAN = 0x8000, /* so many words less this, of a span's runs. Not the span: its thread goes on writing
                         * there what followed it. But where that thread itself counts it, the span */
};
_Static_assert((int)RUN_BLOCKS < (int)LIST_SPAN, "a run's blocks tell it from a span");

static inline uint64_t list_word(const void *at, unsigned what)
{
    return (uint64_t)what << LIST_SHIFT | (uint64_t)(uintptr_t)at;
}
static inline unsigned list_what(uint64_t word) { return (unsigned)(word >> LIST_SHIFT); }
static inline void *list_at(uint64_t word) { return (void *)(uintptr_t)(word & ((UINT64_C(1) << LIST_SHIFT) - 1)); }
static inline uint64_t list_of_span(struct span *s) { return list_word(span_lists_of(s), LIST_SPAN + s->runs); }
static inline uint64_t list_of_run(const struct run *run) { return list_word(run->list, run->blocks); }
static inline struct run *run_of_list(uint64_t word)
{
    return (struct run *)((char *)list_at(word) - offsetof(struct run, list));
}

/* A run's blocks; out has room for RUN_COPY more. Whole cache lines are read, none but the list's own:
 * what lies before and behind it, the thread that made it may be changing. Returns what comes behind. */
static inline const struct cofi_flow_block **list_copy(const struct cofi_flow_block **out, uint64_t word)
{
    struct block *const *list = list_at(word);
    unsigned blocks = list_what(word);
    memcpy(out, list, LIST_FIRST * sizeof *out);
    for (unsigned i = LIST_FIRST; i < blocks; i += RUN_COPY) /* fixed sizes: what is too much is written over */
        memcpy(out + i, list + i, RUN_COPY * sizeof *out);
    return out + blocks;
}

/* Of words that are runs' lists. */
static inline const struct cofi_flow_block **lists_copy(const struct cofi_flow_block **out, const uint64_t *words,
                                                        unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        out = list_copy(out, words[i]);
    return out;
}

/* All that the words tell; out has room for RUN_COPY more. */
static inline void lists_unpack(const struct cofi_flow_block **out, const uint64_t *words, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        unsigned what = list_what(words[k]);
        if (what == LIST_BLOCK)
            *out++ = list_at(words[k]);
        else
            out = what >= LIST_SPAN ? lists_copy(out, list_at(words[k]), what - LIST_SPAN) : list_copy(out, words[k]);
    }
}

#endif
