/* SPDX-License-Identifier: MIT
 * What a host is to record. */
#ifndef COFI_HOST_TARGET_H
#define COFI_HOST_TARGET_H

#include <stdint.h>

#include <cofi/error.h>

/* A command or, with argv null, a process; else COFI_ERR_RANGE. */
int cofi__target_check(char *const *argv, int32_t pid, struct cofi_error *error);

#endif
