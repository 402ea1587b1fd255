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

/* A collector of weakly ordered lines, from a trace hub that shows each write
 * [RTIT 2.3.2]: restores the stream. One per region; not thread safe. */
struct cofi_reorder;

/* region_bytes: RTIT_LIMIT_MASK + 1, a multiple of 64; offset: RTIT_OFFSET when tracing began.
 * Bytes go to the sink in stream order. Errors: COFI_ERR_RANGE (no such region),
 * COFI_ERR_NOMEM. Allocates once, the size of the region. Inverse: cofi_reorder_close. */
int cofi_reorder_open(struct cofi_reorder **reorder, uint32_t region_bytes, uint32_t offset,
                      struct cofi_sink sink);
void cofi_reorder_close(struct cofi_reorder *reorder);
/* One write was seen: n bytes at this offset in the region, all in one 64-byte line. Passes on what
 * is now in order. Errors: COFI_ERR_RANGE (no such write), COFI_ERR_MISMATCH (a younger write of a
 * line before an older one: a write was lost; the bytes are not taken), or the sink's. A TraceSTOP
 * with RTIT_CTL.Dest clear is seen at 0xC0 and not at its place in the stream, which is RTIT_OFFSET
 * - 1 then [RTIT Table 4]: give that. When software writes RTIT_OFFSET, open another. */
int cofi_reorder_write(struct cofi_reorder *reorder, uint32_t offset, const uint8_t *bytes,
                       size_t n);
/* Bytes that wait for older ones; 0 after a drain, if none was lost. */
uint32_t cofi_reorder_waiting(const struct cofi_reorder *reorder);

/* Reading back what a PT unit wrote, from its registers and memory, oldest byte
 * first. Both write to `to` in pieces and return 0, or COFI_ERR_RANGE: the registers
 * or a table are not what a unit could have left (*error says which check failed),
 * the memory refused, or what `to` returned. Not for a unit that still writes. */
struct cofi_error;

/* Single-range output [SDM Single Range Output]: base and mask_ptrs as read from
 * IA32_RTIT_OUTPUT_BASE and _MASK_PTRS. wrapped: the circle has been filled at least
 * once, so what lies behind the offset is the oldest. */
int cofi_output_read_range(const struct cofi_memory *memory, uint64_t base, uint64_t mask_ptrs,
                           int wrapped, const struct cofi_sink *to, struct cofi_error *error);

/* ToPA output [SDM Table of Physical Addresses (ToPA)]. Cost: one table walk. */
struct cofi_topa_place {
    uint64_t table;      /* first table: OUTPUT_BASE as programmed */
    uint64_t base;       /* OUTPUT_BASE as it is now: the current table */
    uint64_t mask_ptrs;  /* OUTPUT_MASK_PTRS as it is now: current entry and offset */
    unsigned maxphyaddr; /* the processor's, CPUID.80000008H EAX[7:0]; 52 takes what
                          * any has written */
    int wrapped;         /* the tables form a circle that was filled at least once */
};
int cofi_output_read_topa(const struct cofi_memory *memory, const struct cofi_topa_place *place,
                          const struct cofi_sink *to, struct cofi_error *error);

#ifdef __cplusplus
}
#endif
#endif
