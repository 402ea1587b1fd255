/* SPDX-License-Identifier: MIT
 * A recording of the fast host -> what its threads did, told to observers as a host tells it: so any
 * unit makes its packets. */
#ifndef CLI_AGAIN_H
#define CLI_AGAIN_H

#include <stddef.h>

#include <cofi/cofi.h>

/* Decode all of the recording and tell it, until *stop changes (a signal handler counts it up). Errors:
 * what a callback returned, COFI_ERR_BAD_FORMAT where the recording has gaps or lost packets,
 * COFI_ERR_SYSTEM when it was stopped, COFI_ERR_NOMEM; *error tells. */
int again_tell(struct cofi_recording *recording, const struct cofi_observer *const *observers, size_t n,
               const volatile int *stop, struct cofi_error *error);

#endif
