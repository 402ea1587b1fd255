/* SPDX-License-Identifier: MIT
 * The PSB search for streams whose end is not there yet. */
#ifndef COFI_STREAM_SYNC_H
#define COFI_STREAM_SYNC_H

#include <cofi/stream.h>

/* Find the first PSB in p[from..n). True: it is at *at. False: none begins before *at; what follows
 * may turn p[*at..n) into one, unless final. */
bool cofi__sync_find(enum cofi_gen gen, const uint8_t *p, size_t n, size_t from, bool final,
                     size_t *at);

#endif
