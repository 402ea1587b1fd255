/* SPDX-License-Identifier: MIT
 * Limits of a program's memory (RLIMIT_AS, RLIMIT_DATA), which count the runtime's, too: in the kernel they have
 * room for that, as much for all programs of a recording; the program sees them without it [rt/limits.c]. */
#ifndef COFI_HOST_FAST_LIMITS_H
#define COFI_HOST_FAST_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "host/fast/shared.h"

/* What the runtime may have of a resource. */
static inline uint64_t cofi__fast_room(const struct cofi__fast_control *control, unsigned resource)
{
    uint64_t own = COFI__FAST_RUNTIME_BYTES + COFI__FAST_ARENAS_BYTES;
    return resource == RLIMIT_AS ? own + cofi__fast_shared_bytes(control) : own;
}

/* What it needs, but for programs that are scattered over their memory. */
static inline uint64_t cofi__fast_least_room(const struct cofi__fast_control *control, unsigned resource)
{
    return cofi__fast_room(control, resource) - COFI__FAST_ARENAS_BYTES / 4 * 3;
}

/* So far beyond all memory a limit is none, and is left as it is. */
#define COFI__FAST_LIMIT_NONE (1ul << 62)

static inline uint64_t cofi__fast_with_room(uint64_t limit, uint64_t room)
{
    return limit < COFI__FAST_LIMIT_NONE ? limit + room : limit;
}

static inline uint64_t cofi__fast_without_room(uint64_t limit, uint64_t room)
{
    return limit >= COFI__FAST_LIMIT_NONE + room || limit < room ? limit : limit - room;
}

/* Whether what may be written counts as memory, used or not [vm.overcommit_memory 2]. */
bool cofi__fast_promises_are_kept(void);
/* The resources, a bit each, which neither a process's soft limit nor its hard one limits (pid 0: ours):
 * those that come are made under us. */
uint32_t cofi__fast_limits_to_come(pid_t pid);
bool cofi__fast_is_limited(pid_t pid);
/* Whether a limit without room for us leaves less than the runtime needs. */
bool cofi__fast_lacks_room(const struct cofi__fast_control *control, pid_t pid);
/* The process goes on without the runtime. */
void cofi__fast_limits_without_room(const struct cofi__fast_control *control, pid_t pid);

#endif
