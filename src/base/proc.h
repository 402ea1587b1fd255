/* SPDX-License-Identifier: MIT
 * What a running thread is called. */
#ifndef COFI_BASE_PROC_H
#define COFI_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of which /proc/TID/comm tells [proc_pid_comm(5)], as far as there is room; false: there is none. */
bool cofi__proc_comm(int32_t tid, char *name, size_t room);

#endif
