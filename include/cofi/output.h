/* SPDX-License-Identifier: MIT
 * Output: how trace bytes leave a unit. */
#ifndef COFI_OUTPUT_H
#define COFI_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A byte sink. write takes all n bytes and returns 0, or COFI_ERR_FULL and takes none. */
struct cofi_sink {
    int (*write)(void *opaque, const uint8_t *bytes, size_t n);
    void *opaque;
};

/* Physical memory. read and write return 0, or COFI_ERR_RANGE where the address is not backed
 * (restricted memory); write with mmio accesses is up to the host. */
struct cofi_memory {
    int (*read)(void *opaque, uint64_t address, uint8_t *bytes, size_t n);
    int (*write)(void *opaque, uint64_t address, const uint8_t *bytes, size_t n);
    void *opaque;
};

#ifdef __cplusplus
}
#endif
#endif
