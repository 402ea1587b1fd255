/* SPDX-License-Identifier: MIT
 * --msr: the trace unit's registers as they were read back, for a raw stream. */
#ifndef COFI_CLI_REGISTERS_H
#define COFI_CLI_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/flow.h>

enum { REGISTERS_MAX = 32 };

struct registers {
    struct register_value {
        uint32_t msr;
        uint64_t value;
    } list[REGISTERS_MAX];
    size_t n;
    uint8_t tail[2]; /* RTIT_TNT_BUFF as packet bytes */
};

/* "768=2f09,77d=5": hexadecimal; adds to what is there. 0, or negative. */
int registers_parse(struct registers *registers, const char *text);
bool registers_get(const struct registers *registers, uint32_t msr, uint64_t *value);
/* What they tell the decoder: control, ranges, outcomes that no packet has [RTIT 4.2.11], an overflow at the end
 * [RTIT 4.2.5]. config->gen is set. *registers must outlive the flow. */
void registers_apply(struct registers *registers, struct cofi_flow_config *config);
/* RTIT: the bytes of a circular region, read from its start -> oldest first, behind RTIT_OFFSET [RTIT 2.3]; null: no
 * RTIT_OFFSET, or it is not in the region, or memory is out. Freed by the caller. */
uint8_t *registers_unroll(const struct registers *registers, enum cofi_gen gen, const uint8_t *bytes, size_t n);

#endif
