/* SPDX-License-Identifier: MIT
 * The list of instructions that ran, as 'cofi record --truth' writes it. */
#ifndef COFI_CLI_TRUTH_H
#define COFI_CLI_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct truth_thread {
    int32_t tid;
    bool taken;
    uint64_t n, room;
    uint64_t *ips;
    uint64_t *optional; /* indices of software interrupts, ascending: a trace may end just before them */
    uint64_t optional_n, optional_room;
};

struct truth {
    struct truth_thread *threads;
    size_t n;
};

/* Read lines "TID ADDRESS" (decimal, 16 hex digits), a third word "int" marking software interrupts, which
 * PT tells like a fault at their address [PTREF 6.3]. EXIT_DONE, or an exit status after saying why. */
int truth_read(struct truth *truth, const char *path);
/* The list of a thread (an empty one if it never ran); marks it as taken. */
struct truth_thread *truth_take(struct truth *truth, int32_t tid);
void truth_free(struct truth *truth);

#endif
