/* SPDX-License-Identifier: MIT
 * A process -> the mounts of its namespace, as they were a moment ago. */
#ifndef COFI_HOST_NAMESPACES_H
#define COFI_HOST_NAMESPACES_H

#include "host/mounts.h"

enum { COFI__NAMESPACES = 8 };
#define COFI__NO_DEVICE UINT64_MAX /* not known: the path alone tells */

struct cofi__namespace {
    uint64_t inode; /* 0: nothing is known here */
    struct cofi__mounts mounts;
    uint64_t read_ns, cost_ns; /* when they were read, and what that took */
    uint64_t used;             /* turns */
};

/* All zero: nothing is known. */
struct cofi__namespaces {
    struct cofi__namespace ours, other[COFI__NAMESPACES];
    uint64_t turns;
};

/* Where the root of a process lies in its namespace; "" where that is the namespace's or cannot be told. */
void cofi__namespace_root(int32_t pid, char root[COFI__NAME_BYTES]);
/* Whether a process sees our mounts; false, too, where that cannot be told. */
bool cofi__namespace_is_ours(int32_t pid);

/* The mounts of a process, which belong to namespaces until the next call; ours are in there, too. Null:
 * they cannot be told. */
const struct cofi__mounts *cofi__namespaces_mounts(struct cofi__namespaces *namespaces, int32_t pid);
/* Whether a file that we see is one that a program serves. device: as in struct cofi__mount. Costs a
 * look at our mounts anew where none has it. */
bool cofi__namespaces_serve(struct cofi__namespaces *namespaces, uint64_t device, const char *path);
/* The same of a file that a process sees, by its own name. What fuse-overlayfs shows to another
 * namespace counts as plain: it is found here, mostly, and has names then. */
bool cofi__namespaces_hide(struct cofi__namespaces *namespaces, int32_t pid, uint64_t device, const char *path);
void cofi__namespaces_free(struct cofi__namespaces *namespaces);

#endif
