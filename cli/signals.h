/* SPDX-License-Identifier: MIT
 * The signals of cofi record: who stops it, who asks for a snapshot. */
#ifndef COFI_CLI_SIGNALS_H
#define COFI_CLI_SIGNALS_H

#include <stdint.h>

extern volatile int signals_stop;           /* how often it was to end */
extern volatile int signals_snapshots;      /* how often a snapshot was asked for */
extern volatile int signals_release;        /* how often what is recorded was to go on natively */
extern volatile int32_t signals_forward_to; /* the command, to which what was sent to us alone is handed on; 0: none */

/* From now on; what is ignored stays so. */
void signals_catch(void);
/* As it was before. */
void signals_restore(void);

#endif
