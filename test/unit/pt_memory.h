/* SPDX-License-Identifier: MIT
 * Physical memory for PT output tests: 16 MiB from 0, some of it restricted; ToPA tables in it. */
#ifndef COFI_TEST_PT_MEMORY_H
#define COFI_TEST_PT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <cofi/output.h>

enum { MEMORY_BYTES = 16 << 20 };

struct pt_memory {
    uint64_t restricted, restricted_end; /* [..): neither read nor written */
    uint8_t bytes[MEMORY_BYTES];
    uint8_t back[MEMORY_BYTES]; /* what a reader gave */
    size_t back_size;
};

/* Bits of an entry by hand from [SDM ToPA Table Entry Fields]. */
#define TOPA_END UINT64_C(1)
#define TOPA_INT UINT64_C(4)
#define TOPA_STOP UINT64_C(16)
#define TOPA_SIZE(n) ((uint64_t)(n) << 6)

struct pt_memory *memory_new(void);
struct cofi_memory memory_access(struct pt_memory *memory);
struct cofi_sink memory_reader(struct pt_memory *memory);
void memory_entry(struct pt_memory *memory, uint64_t table, unsigned index, uint64_t entry);

#endif
