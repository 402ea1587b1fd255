/* SPDX-License-Identifier: MIT
 * /proc/TID/maps -> the executable mappings of an address space. */
#ifndef COFI_HOST_STEP_MAPS_H
#define COFI_HOST_STEP_MAPS_H

#include "host/step/space.h"

/* The executable mappings, ascending. Returns 0 or a negative errno; *maps is for cofi__step_maps_free. */
int cofi__step_maps_read(pid_t tid, struct step_mapping **maps, size_t *n);
void cofi__step_maps_free(struct step_mapping *maps, size_t n);
bool cofi__step_maps_is_file(const struct step_mapping *mapping);

#endif
