/* SPDX-License-Identifier: MIT
 * Random sequences of instructions: what fuzz-guest runs. */
#ifndef FUZZ_CODE_H
#define FUZZ_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ELEMENTS_MAX = 24,
    CODE_BYTES = 64 << 10, /* a place for code; its data, and the slots that only generated code's transfers use, lie beside it */
    DATA_BYTES = 64 << 10,
    SLOTS = 256
};

/* Where code and its data are: RIP reaches the data from a translation nearby, or does not. */
struct place {
    uint8_t *code, *data;
    uint64_t *slots;
};

/* A sequence of elements, each an instruction with what makes its operands valid. Elements begin at code + start[i]. */
struct sequence {
    struct place place;
    uint8_t *code;
    unsigned n, bytes;
    unsigned start[ELEMENTS_MAX + 1];
    unsigned insn[ELEMENTS_MAX]; /* where the element's own instruction begins */
    uint16_t mnemonic[ELEMENTS_MAX];
    bool vector_index;           /* its first instruction takes indexes from a vector register */
};

/* Make the sequence of a seed, in 4 GB of addresses: `data` is what registers point to. */
void fuzz_make(struct sequence *s, uint64_t *seed, const struct place *place, const uint8_t *data);
/* One with these bytes for its instruction. */
bool fuzz_make_of(struct sequence *s, uint64_t *seed, const struct place *place, const uint8_t *data, const uint8_t *bytes, unsigned n);
uint64_t fuzz_random(uint64_t *seed);

#endif
