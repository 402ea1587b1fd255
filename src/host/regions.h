/* SPDX-License-Identifier: MIT
 * One thread's physical memory: a ToPA table and its regions, and who reads them, as a driver does. */
#ifndef COFI_HOST_REGIONS_H
#define COFI_HOST_REGIONS_H

#include <stdbool.h>

#include <cofi/unit.h>

enum { COFI__REGIONS_MAX = 64 };

/* "4K,16K,8K" or "4K,16K,wrap": sizes from 4K to 128M, powers of two. */
struct cofi__regions_plan {
    size_t n;
    uint64_t size[COFI__REGIONS_MAX];
    bool wrap; /* a circle that keeps the newest bytes, read at the end; else each full region is read at its PMI */
};

struct cofi__regions;

/* burst: as many bytes as the unit may write before it tells of a full region. Errors: COFI_ERR_SYNTAX;
 * COFI_ERR_RANGE: the largest region and a burst do not fit into all regions together. */
int cofi__regions_parse(struct cofi__regions_plan *plan, const char *text, uint32_t burst);

/* Null: out of memory. The sink gets the bytes in order, in whole packets but for a circle's oldest. */
struct cofi__regions *cofi__regions_open(const struct cofi__regions_plan *plan, struct cofi_sink sink);
void cofi__regions_close(struct cofi__regions *regions);
/* What goes into the unit's configuration, and then into its registers (TraceEn 0). */
void cofi__regions_configure(struct cofi__regions *regions, struct cofi_unit_config *config);
int cofi__regions_program(struct cofi__regions *regions, struct cofi_unit *unit);
/* Hand on what was written since the last time; nothing for a circle. */
void cofi__regions_read(struct cofi__regions *regions);
/* The unit is off: hand on the rest, or the whole circle, in one piece. */
int cofi__regions_end(struct cofi__regions *regions);

#endif
