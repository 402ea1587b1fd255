/* SPDX-License-Identifier: MIT
 * A row of a test as a scenario for cofi sim, appended to the file that COFI_VECTORS names (scripts/vectors): what vectors/ is made of. Without
 * that nothing is written. */
#ifndef TEST_UNIT_VECTOR_H
#define TEST_UNIT_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/event.h>
#include <cofi/unit.h>

void vector_begin(const char *name);
/* A line as it is. */
__attribute__((format(printf, 1, 2))) void vector_line(const char *format, ...);
/* Where the processor is before, and what differs from cofi sim's default. */
void vector_state(uint64_t ip, const struct cofi_context *context);
/* An event, as a line of a section "events". */
void vector_event(const struct cofi_event *event, const struct cofi_context *before);
/* The unit's `explain`, where a vector is wanted. */
bool vector_wanted(void);
void vector_packet(void *opaque, const struct cofi_explain *explain);
/* What the unit made from the beginning on: its packets, and the bytes. */
void vector_made(const uint8_t *bytes, size_t n);
/* The buffer and errata that the configuration has. */
void vector_config(const struct cofi_unit_config *config);
void vector_end(void);

#endif
