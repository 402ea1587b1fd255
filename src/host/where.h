/* SPDX-License-Identifier: MIT
 * Filters in files -> where each process has them -> the unit's address ranges. */
#ifndef COFI_HOST_WHERE_H
#define COFI_HOST_WHERE_H

#include <stdbool.h>

#include <cofi/filter.h>
#include <cofi/trace.h>
#include <cofi/unit.h>

#include "base/map.h"

enum { COFI__WHERE_RANGES = 4 };

/* What one process has mapped, from a time on: its fork, its exec, the first that is known of it. */
struct cofi__where_process {
    int32_t pid;
    uint32_t before; /* of the same id: its number + 1; 0: none */
    uint64_t from_ns;
    bool known[COFI__WHERE_RANGES];
    uint64_t base[COFI__WHERE_RANGES];
};

struct cofi__where {
    const struct cofi_filters *filters; /* null: none */
    struct cofi__where_process *processes;
    size_t n;
    struct cofi__map last; /* (id, 0) -> the number of the last process that has it, + 1 */
};

/* COFI_ERR_UNSUPPORTED: not what IA32_RTIT_ADDRn can do (filter and tracestop, four in all). */
int cofi__where_check(const struct cofi_filters *filters);
/* A process mapped, forked or executed something. 1: its ranges are others now, 0: no; COFI_ERR_NOMEM. */
int cofi__where_note(struct cofi__where *where, const struct cofi_sideband *sideband);
void cofi__where_fini(struct cofi__where *where);
/* Which of where->processes the process is at a time; where->n: none of them. */
size_t cofi__where_find(const struct cofi__where *where, int32_t pid, uint64_t ns);
/* The process's ranges at a time into a unit whose TraceEn is 0; what is not mapped lies nowhere. */
int cofi__where_load(const struct cofi__where *where, int32_t pid, uint64_t ns, struct cofi_unit *unit);

#endif
