/* SPDX-License-Identifier: MIT
 * See registers.h. */
#include "registers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int registers_parse(struct registers *registers, const char *text)
{
    do {
        char *end;
        uint64_t msr = strtoull(text, &end, 16);
        if (end == text || *end != '=' || msr > UINT32_MAX || registers->n == REGISTERS_MAX)
            return -1;
        const char *value = end + 1;
        errno = 0;
        registers->list[registers->n++] = (struct register_value){(uint32_t)msr, strtoull(value, &end, 16)};
        if (end == value || errno || (*end && *end != ','))
            return -1;
        text = end + (*end == ',');
    } while (*text);
    return 0;
}

bool registers_get(const struct registers *registers, uint32_t msr, uint64_t *value)
{
    for (size_t i = 0; i < registers->n; i++)
        if (registers->list[i].msr == msr) {
            *value = registers->list[i].value;
            return true;
        }
    return false;
}

/* Addresses are compared in 48 bits. */
static uint64_t sign_extend(uint64_t lip) { return lip >> 47 & 1 ? lip | UINT64_C(0xffff) << 48 : lip; }

static void apply_ranges(const struct registers *registers, struct cofi_flow_config *config)
{
    bool pt = config->gen == COFI_PT;
    for (uint32_t i = 0; i < (pt ? 4 : 2); i++) {
        uint64_t value;
        if (registers_get(registers, pt ? PT_ADDR0_A + 2 * i : RTIT_LIP0 + i, &value))
            config->range_base[i] = sign_extend(value);
        if (registers_get(registers, pt ? PT_ADDR0_A + 2 * i + 1 : RTIT_LIP2 + i, &value)) {
            config->range_limit[i] = sign_extend(value);
            config->ranges_known = true;
        }
    }
}

void registers_apply(struct registers *registers, struct cofi_flow_config *config)
{
    uint64_t value;
    if (registers_get(registers, config->gen == COFI_PT ? PT_CTL : RTIT_CTL, &value)) {
        config->ctl_known = true;
        config->ctl = value;
    }
    apply_ranges(registers, config);
    if (config->gen == COFI_PT)
        return;
    if (registers_get(registers, RTIT_EVENTS, &value)) {
        config->events = (uint32_t)value;
        config->ranges_known = true;
    }
    config->ends_in_overflow = registers_get(registers, RTIT_STATUS, &value) && value >> 3 & 1;
    if (registers_get(registers, RTIT_TNT_BUFF, &value) && value > 1 && value < 0x80) {
        registers->tail[0] = (uint8_t)value;
        registers->tail[1] = 1; /* a full one in cycle-accurate mode would have a cycle count: 0 */
        config->tail = registers->tail;
        config->tail_n = value >> 6 && config->ctl >> 1 & 1 ? 2 : 1;
    }
}

uint8_t *registers_unroll(const struct registers *registers, enum cofi_gen gen, const uint8_t *bytes, size_t n)
{
    uint64_t offset;
    if (gen != COFI_RTIT || !registers_get(registers, RTIT_OFFSET, &offset) || offset >= n)
        return NULL;
    uint8_t *made = malloc(n);
    if (!made)
        return NULL;
    memcpy(made, bytes + offset, n - offset);
    memcpy(made + (n - offset), bytes, offset);
    return made;
}
