/* SPDX-License-Identifier: MIT
 * A row of a packet generation table as a test: enables and state before, one event, the packets it makes. */
#ifndef COFI_TEST_PT_ROW_H
#define COFI_TEST_PT_ROW_H

#include "pt_rig.h"

/* A filter over [401000, 401fff] and a TraceStop range over [600000, 600fff], where ctl says so. */
#define FILTER ADDR_CFG(0, 1)
#define STOP ADDR_CFG(1, 2)
enum { IN = 0x401000, OUT = 0x500000, STOPS = 0x600000 };
#define KERNEL UINT64_C(0xffffffff81000000)

/* Context changes: 0 is "as it was", so values are one more. */
struct change {
    uint8_t cpl, mode, vmx, enclave, intx, iflag, smm;
    uint8_t conceal;
    uint64_t cr3, vmcs;
};

struct row {
    const char *name;
    uint64_t ctl;
    struct change before;
    uint64_t ip;
    struct cofi_event event;
    struct change after;
    const char *packets;
    /* optional */
    unsigned count;          /* PacketByteCnt before */
    unsigned bits;           /* so many taken conditional branches at 401000 before */
    struct cofi_event first; /* an event before this one; packets are those of both */
    struct change first_after;
};

#define BASE_CTL (TRACE_EN | BRANCH_EN)
#define U (BASE_CTL | USER)
#define K (BASE_CTL | OS)
#define UK (BASE_CTL | USER | OS)
#define NOBR (TRACE_EN | USER | OS)
#define CPL(n) .cpl = (n) + 1
#define IN_KERNEL {CPL(0)}

#define EV(k, ip_, ...) {.kind = COFI_EV_##k, .ip = ip_, .next = ip_ + 2, .vector = COFI_NO_VECTOR, __VA_ARGS__}
#define NEAR(k, ip_, target_) EV(k, ip_, .target = target_)
#define JCC(ip_, target_, taken_) EV(JCC, ip_, .target = target_, .taken = taken_)
#define FAR(k, ip_, target_, ...) EV(FAR, ip_, .cause = COFI_FAR_##k, .target = target_, ##__VA_ARGS__)
#define INT(k, ip_, target_, ...) EV(EVENT, ip_, .cause = COFI_CAUSE_##k, .target = target_, ##__VA_ARGS__)
#define CR3(ip_) EV(MOV_CR3, ip_)
#define CTL(ip_, value_) EV(WRMSR, ip_, .msr = MSR_CTL, .value = value_)

/* A cmocka test whose initial state is the row. */
void check_row(void **state);

#endif
