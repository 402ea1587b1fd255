/* SPDX-License-Identifier: MIT
 * What fuzz targets share. A target is fuzz/NAME.c with LLVMFuzzerTestOneInput, a name in
 * fuzz/meson.build, and a folder fuzz/corpus/NAME, which every test run replays; scripts/fuzz runs
 * libFuzzer on it. */
#ifndef COFI_FUZZ_H
#define COFI_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A property that must hold for any input. */
#define MUST(condition)                                                                     \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);  \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

#endif
