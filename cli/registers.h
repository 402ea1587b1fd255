/* SPDX-License-Identifier: MIT
 * --msr: the trace unit's registers as they were read back, for a raw stream; and what commands know of registers. */
#ifndef COFI_CLI_REGISTERS_H
#define COFI_CLI_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/flow.h>

enum { REGISTERS_MAX = 32 };

/* [RTIT 3.3] */
enum {
    RTIT_LIP0 = 0x760, RTIT_LIP2 = 0x762, RTIT_CTL = 0x768, RTIT_STATUS = 0x769, RTIT_EVENTS = 0x76c,
    RTIT_OFFSET = 0x772,
    RTIT_TNT_BUFF = 0x77d,
};
/* ADDRn_B follows ADDRn_A [SDM IA32_RTIT_CTL MSR]. */
enum { PT_CTL = 0x570, PT_STATUS = 0x571, PT_ADDR0_A = 0x580 };
/* Fields of IA32_RTIT_CTL [SDM IA32_RTIT_CTL MSR]. */
enum {
    PT_TRACE_EN = 1, PT_CYC_EN = 1 << 1, PT_OS = 1 << 2, PT_USER = 1 << 3, PT_PWR_EVT_EN = 1 << 4,
    PT_FUP_ON_PTW = 1 << 5, PT_FABRIC_EN = 1 << 6, PT_CR3_FILTER = 1 << 7, PT_TOPA = 1 << 8, PT_MTC_EN = 1 << 9,
    PT_TSC_EN = 1 << 10, PT_PTW_EN = 1 << 12, PT_BRANCH_EN = 1 << 13, PT_PSB_FREQ = 15 << 24,
};
#define PT_EVENT_EN (UINT64_C(1) << 31)
enum { PT_ADDR_CFG_LSB = 32, PT_ADDR_FILTER = 1, PT_ADDR_STOP = 2 };
#define PT_ADDR_CFG (UINT64_C(0xffff) << PT_ADDR_CFG_LSB)
/* ADDRn_CFG. */
static inline unsigned pt_addr_cfg(uint64_t ctl, unsigned n)
{
    return (unsigned)(ctl >> (PT_ADDR_CFG_LSB + 4 * n) & 15);
}

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
