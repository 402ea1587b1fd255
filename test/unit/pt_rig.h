/* SPDX-License-Identifier: MIT
 * A PT unit on a bench: events in by short calls, packets out as one line of text. */
#ifndef COFI_TEST_PT_RIG_H
#define COFI_TEST_PT_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/unit.h>

enum { RIG_BYTES = 1 << 20, RIG_TEXT = 1 << 16 };

struct pt_rig {
    struct cofi_unit *unit;
    struct cofi_unit_config config;
    struct cofi_context context; /* as last reported */
    size_t size, limit;          /* bytes made, and how many the sink takes */
    size_t shown;                /* bytes that rig_packets has shown */
    unsigned pmis;
    uint64_t last_ip;            /* the reader's LastIP */
    struct cofi_packet_context codec;
    char text[RIG_TEXT];
    uint8_t bytes[RIG_BYTES];
};

/* CTL bits, transcribed from [SDM IA32_RTIT_CTL MSR]. */
#define TRACE_EN (UINT64_C(1) << 0)
#define CYC_EN (UINT64_C(1) << 1)
#define OS (UINT64_C(1) << 2)
#define USER (UINT64_C(1) << 3)
#define PWR_EVT_EN (UINT64_C(1) << 4)
#define FUP_ON_PTW (UINT64_C(1) << 5)
#define FABRIC_EN (UINT64_C(1) << 6)
#define CR3_FILTER (UINT64_C(1) << 7)
#define TOPA (UINT64_C(1) << 8)
#define MTC_EN (UINT64_C(1) << 9)
#define TSC_EN (UINT64_C(1) << 10)
#define DIS_RETC (UINT64_C(1) << 11)
#define PTW_EN (UINT64_C(1) << 12)
#define BRANCH_EN (UINT64_C(1) << 13)
#define MTC_FREQ(n) ((uint64_t)(n) << 14)
#define CYC_THRESH(n) ((uint64_t)(n) << 19)
#define PSB_FREQ(n) ((uint64_t)(n) << 24)
#define EVENT_EN (UINT64_C(1) << 31)
#define ADDR_CFG(i, n) ((uint64_t)(n) << (32 + 4 * (i)))
#define DIS_TNT (UINT64_C(1) << 55)
#define INJECT (UINT64_C(1) << 56)

enum {
    MSR_OUTPUT_BASE = 0x560, MSR_OUTPUT_MASK_PTRS = 0x561, MSR_CTL = 0x570, MSR_STATUS = 0x571,
    MSR_CR3_MATCH = 0x572, MSR_ADDR0_A = 0x580, MSR_ADDR0_B = 0x581
};

/* A unit of "all" (or config->model) with a sink into rig->bytes. config may be null. */
void rig_open(struct pt_rig *rig, const struct cofi_unit_config *config);
void rig_close(struct pt_rig *rig);
/* Set the context (64-bit, cpl, cr3 1000) and ip, then write CTL; what that makes is not shown by the next
 * rig_packets. */
void rig_start(struct pt_rig *rig, uint64_t ctl, unsigned cpl, uint64_t ip);
/* Open one and start it at CPL 3. */
struct pt_rig *rig_new(const struct cofi_unit_config *config, uint64_t ctl, uint64_t ip);
void rig_free(struct pt_rig *rig);
/* The packets since the last call, as "fup(401000) pip(1000) tip.pgd()"; drains the unit. */
const char *rig_packets(struct pt_rig *rig);
#define rig_expect(rig, packets) assert_string_equal(rig_packets(rig), packets)

int rig_event(struct pt_rig *rig, const struct cofi_event *event);
void rig_jcc(struct pt_rig *rig, uint64_t ip, uint64_t target, bool taken); /* 2 bytes long */
void rig_near(struct pt_rig *rig, enum cofi_event_kind kind, uint64_t ip, unsigned length, uint64_t target);
/* Far transfer and event; cpl < 0: the context stays. */
void rig_far(struct pt_rig *rig, enum cofi_far far, uint64_t ip, uint64_t target, int cpl);
void rig_interrupt(struct pt_rig *rig, enum cofi_cause cause, uint64_t ip, uint64_t target, int cpl);
void rig_mov_cr3(struct pt_rig *rig, uint64_t ip, uint64_t cr3);
void rig_clock(struct pt_rig *rig, uint64_t tsc, uint64_t cycles);
uint64_t rig_msr(struct pt_rig *rig, uint32_t msr);

#endif
