/* SPDX-License-Identifier: MIT
 * What a host is to record, and what it needs to start it. */
#ifndef COFI_HOST_TARGET_H
#define COFI_HOST_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/error.h>

/* A command or, with argv null, a process, else COFI_ERR_RANGE; and a /proc, else COFI_ERR_SYSTEM. */
int cofi__target_check(char *const *argv, int32_t pid, struct cofi_error *error);
/* Between a recorder and the child that becomes the command. Both, or neither, with errno. */
bool cofi__open_pipes(int first[2], int second[2]);

#endif
