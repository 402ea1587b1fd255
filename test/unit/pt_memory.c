/* SPDX-License-Identifier: MIT
 * See pt_memory.h. */
#include "pt_memory.h"

#include <stdlib.h>
#include <string.h>

#include <cofi/error.h>

static int outside(const struct pt_memory *memory, uint64_t address, size_t n)
{
    return address > MEMORY_BYTES || n > MEMORY_BYTES - address ||
           (address < memory->restricted_end && address + n > memory->restricted);
}

static int load(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    struct pt_memory *memory = opaque;
    if (outside(memory, address, n))
        return COFI_ERR_RANGE;
    memcpy(bytes, memory->bytes + address, n);
    return 0;
}

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    struct pt_memory *memory = opaque;
    if (outside(memory, address, n))
        return COFI_ERR_RANGE;
    memcpy(memory->bytes + address, bytes, n);
    return 0;
}

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct pt_memory *memory = opaque;
    if (n > MEMORY_BYTES - memory->back_size)
        return COFI_ERR_FULL;
    memcpy(memory->back + memory->back_size, bytes, n);
    memory->back_size += n;
    return 0;
}

struct pt_memory *memory_new(void) { return calloc(1, sizeof(struct pt_memory)); }
struct cofi_memory memory_access(struct pt_memory *memory) { return (struct cofi_memory){load, store, memory}; }
struct cofi_sink memory_reader(struct pt_memory *memory) { return (struct cofi_sink){take, memory}; }

void memory_entry(struct pt_memory *memory, uint64_t table, unsigned index, uint64_t entry)
{
    memcpy(memory->bytes + table + 8 * index, &entry, 8);
}
