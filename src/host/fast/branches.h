/* SPDX-License-Identifier: MIT
 * Branches in a log -> packets, at the end of what the encoder holds: with the instructions that every x86-64 processor
 * has, or with AVX2 and BMI2. Both give the same bytes. */
#ifndef COFI_HOST_FAST_BRANCHES_H
#define COFI_HOST_FAST_BRANCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "host/fast/encode.h"

/* How far behind a record is read. */
enum { COFI__FAST_BATCH_READ = 8 + 8 };

struct cofi__fast_branches {
    /* Branches from p on, up to `stop`, what is something else, or the last COFI__FAST_BATCH_READ bytes before
     * `end`. Returns where that is. */
    const uint8_t *(*take)(struct cofi__fast_encoder *e, const uint8_t *p, const uint8_t *stop, const uint8_t *end);
    /* As far, or to a target behind which a PSB+ may stand: it is where the program is then, and nothing is
     * outstanding. A time that is told later must not have to stand before it, so a taken branch comes next.
     * Whether there was one. */
    bool (*to_target)(struct cofi__fast_encoder *e, const uint8_t **p, const uint8_t *stop, const uint8_t *end);
};

extern const struct cofi__fast_branches cofi__fast_branches_usual, cofi__fast_branches_bmi2;

#endif
