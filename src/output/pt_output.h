/* SPDX-License-Identifier: MIT
 * Where a PT unit's bytes go: a sink, one physical range, or a table of physical addresses. */
#ifndef COFI_OUTPUT_PT_OUTPUT_H
#define COFI_OUTPUT_PT_OUTPUT_H

#include <stdbool.h>

#include <cofi/output.h>

enum cofi__pt_output_mode { PT_OUTPUT_SINK, PT_OUTPUT_RANGE, PT_OUTPUT_TOPA };

/* What happened during a start or a write. */
enum {
    PT_OUTPUT_ERROR = 1, /* operational error [SDM Operational Errors] */
    PT_OUTPUT_STOP = 2,  /* a region with STOP is full; bytes after it are lost [SDM ToPA STOP] */
    PT_OUTPUT_PMI = 4,   /* a region with INT is full [SDM ToPA PMI] */
    PT_OUTPUT_LOST = 8   /* the sink refused bytes */
};

struct cofi__pt_output {
    /* set once */
    struct cofi_sink sink;
    struct cofi_memory memory;
    uint8_t maxphyaddr;
    bool multi;              /* tables of any length; else one region and END [PTREF 1.2] */
    /* set by start */
    uint8_t mode;            /* enum cofi__pt_output_mode */
    uint64_t base;           /* OUTPUT_BASE: range, or current table */
    uint32_t mask;           /* RANGE: size - 1 */
    uint32_t entry;          /* TOPA: index of the current entry */
    uint32_t offset;         /* next byte's offset in the range or region */
    /* the current ToPA entry */
    uint64_t region, region_size;
    bool region_int, region_stop;
    const char *why;         /* the check behind PT_OUTPUT_ERROR, with its tag */
};

/* Begin writing where the registers say; returns PT_OUTPUT_ERROR or 0 [SDM Operational Errors]. */
unsigned cofi__pt_output_start(struct cofi__pt_output *out, enum cofi__pt_output_mode mode,
                               uint64_t base, uint64_t mask_ptrs);
/* Write n bytes in order; returns PT_OUTPUT_* of all that happened. After STOP or ERROR the rest is
 * lost. */
unsigned cofi__pt_output_write(struct cofi__pt_output *out, const uint8_t *bytes, size_t n);
/* The registers as of now. */
uint64_t cofi__pt_output_base(const struct cofi__pt_output *out);
uint64_t cofi__pt_output_mask_ptrs(const struct cofi__pt_output *out);

/* topa.c */
/* One 8-byte entry, checked. Returns null, or which check failed. */
struct cofi__topa_entry {
    uint64_t base, size; /* size: of the region; 0 for END */
    bool end, int_, stop;
};
const char *cofi__topa_decode(uint64_t raw, unsigned maxphyaddr, struct cofi__topa_entry *entry);
unsigned cofi__topa_load(struct cofi__pt_output *out);
unsigned cofi__topa_write(struct cofi__pt_output *out, const uint8_t *bytes, size_t n);

#endif
