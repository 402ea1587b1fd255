/* SPDX-License-Identifier: MIT
 * A processor that traces itself: a random program is run with random outcomes and events, and each operation makes the packets that the
 * manual's tables give it, with the liberties that these leave. Written without a look at the trace unit; nothing is shared with it. Truth
 * is told in the terms of the flow's events. */
#ifndef TEST_REFERENCE_HW_H
#define TEST_REFERENCE_HW_H

#include <cofi/flow.h>

#include "reference/hw_code.h"

/* What the processor is, and how it was told to trace. Chances are in 4096. */
struct hw_config {
    bool os, user, cr3_filter, disretc, dis_tnt, branch, tsc, mtc, cyc, power, ptw, ptw_fup, event; /* IA32_RTIT_CTL */
    unsigned range_use[4]; /* 1: filter, 2: stop */
    uint64_t range_base[4], range_limit[4];
    unsigned mtc_freq;
    bool defer;             /* TIPs of indirect branches wait for outcomes [PTREF 7.3] */
    bool defer_without_tnt; /* also where no outcome waits */
    unsigned tnt_most;      /* outcomes in a TNT packet */
    unsigned tnt_early;     /* chance to write it before it is full */
    bool ip_best;           /* the shortest compression, else any that is right */
    bool mode_always;       /* MODE.Exec at each TIP.PGE and far transfer, else only where it must be */
    bool ret_clear;         /* an uncompressed RET empties the stack [PTREF 7.2] */
    bool pge_first;         /* enabling: MODE.Exec, TIP.PGE, then the PSB+ [PTREF 6.1] */
    bool vmx;
    bool plain;             /* mostly what libipt 2.0.5 knows [PTREF 9.9] */
    bool gaps;              /* what ran need not follow from the packets */
    unsigned interrupt, fault, loss, loss_end, psb, filler, power_event, toggle, abort, block;
    unsigned family, model; /* whose errata it has [PTREF 9.8]; 0: none */
};

struct hw_event {
    uint8_t kind, a, b, c; /* enum cofi_flow_event_kind; as in struct cofi_flow_event */
    uint64_t ip, target, value;
    uint64_t offset;       /* of its packet; the truth does not have it */
    uint64_t ticks;        /* when; 0: not known; nor has it this */
    size_t lo, at;         /* how many instructions were shown before it: one of [lo, at] */
};

/* A packet, and how many instructions had run where execution is as it tells. */
struct hw_told {
    size_t offset, n;
    uint64_t ticks; /* the last time that TSC and MTC packets have told; 0: none */
    bool resumes;  /* it alone tells where execution is, and that tracing is on */
    bool outcomes; /* TNT packets stand before it, and nothing that would force out TIPs that wait since */
    bool doubtful; /* an overflow's FUP, which may as well be an event's */
    bool afresh;   /* the first one behind an overflow that tells where, though not its own */
};

enum { HW_APART = 0x3020 /* a CR3 */ };

/* What a decoder can know, of what ran. */
struct hw_truth {
    uint64_t *ran;
    bool *compressed; /* a RET by an outcome */
    bool *apart;      /* in the address space of HW_APART, as far as packets have told */
    struct hw_told *places;
    size_t places_n, places_max;
    size_t n, max;
    size_t known; /* so many follow from packets that were written */
    struct hw_event *events;
    size_t events_n, events_max;
    struct { size_t offset, n; bool cut, doubtful; } *psbs; /* each PSB, how many ran before; cut: by an overflow; doubtful: before its FUP */
    size_t psbs_n, psbs_max;
    /* What was told and applies to an address that comes */
    struct hw_event waiting[16];
    unsigned waiting_n;
    bool paging, vmcs, mode, tsx, overflow;
    uint64_t paging_cr3, vmcs_base;
    unsigned mode_bits;
    bool paging_nr, mode_if, tsx_in, tsx_abort;
    /* What was shown */
    uint64_t shown_cr3, shown_vmcs, disabled_ip;
    bool shown_nr, shown_tsx, enabled, cut_psb;
    unsigned shown_mode, shown_cbr;
};

struct hw_deferred {
    uint64_t ip;
    size_t mark;
};

struct hw_wire {
    uint8_t *bytes;
    size_t n, max;
    uint64_t last_ip;
    bool whole_ip;            /* the next address is sent whole */
    bool outcomes;            /* as in struct hw_told */
    uint64_t bits;
    unsigned bits_n, tips_n;
    size_t bits_mark;         /* how many ran, with the branch of the last outcome */
    struct hw_deferred tips[16];
    bool losing;
    bool adrift;              /* packets are written again, but the one that tells where is missing [ERR SKD010] */
    bool adrift_on;           /* … and that they are on is told by now */
    bool in_psb, in_block;
    uint64_t tsc, cycles, cyc_sent; /* clocks */
    uint64_t mtc_sent, told_ticks; /* the last one's counter; the time that it or a TSC has told, 0: none */
};

struct hw_frame {
    uint64_t ip, cr3;
    unsigned segment, floor;
};

struct hw {
    struct hw_config config;
    struct hw_code code;
    uint64_t seed;
    struct hw_truth truth;
    struct hw_wire wire;
    /* the processor */
    uint64_t ip, cr3, vmcs;
    unsigned segment;
    bool nr, iflag, in_tx;
    enum hw_enclave { HW_OUTSIDE, HW_DEBUG, HW_PRODUCTION } enclave;
    uint64_t fallback;
    unsigned tx_depth;         /* of the stack, as the transaction began */
    uint64_t stack[256];
    unsigned depth, floor;
    struct hw_frame frames[8], host;
    unsigned frames_n;
    /* the enables [SDM Packet Generation Enable Controls] */
    bool trace_en, stopped, context_en, filter_en;
    unsigned mode_sent;        /* MODE.Exec's byte, 0xff: none since the last PSB */
    bool mode_in_doubt;        /* none was sent since the last PSB, whatever has been lost since */
    uint64_t rets[64];
    unsigned rets_n;
    bool mov_cr3_was_last;     /* of what has packets */
    size_t anchor;             /* how many ran up to what has told a place last, from which a TRIG counts; SIZE_MAX: up to a TRIG that nobody can place */
    uint64_t behind_mov_cr3;
    bool beyond_libipt;        /* there is what libipt 2.0.5 does not know, or judges otherwise */
};

/* hw.c: defects of the processors [PTREF 9.8] */
bool hw_has_bdm70(const struct hw *h);
bool hw_has_bdm64(const struct hw *h);
bool hw_has_skd007(const struct hw *h);
bool hw_has_skd010(const struct hw *h);
bool hw_has_skd022(const struct hw *h);
bool hw_has_skl014(const struct hw *h);
bool hw_has_skz84(const struct hw *h);
bool hw_has_apl11(const struct hw *h);
bool hw_has_apl12(const struct hw *h);

/* hw_truth.c */
struct hw_event hw_event(unsigned kind, uint64_t ip, uint64_t target);
void hw_ran(struct hw *h, uint64_t ip);
/* The packet that begins at the wire's end. */
void hw_truth_place(struct hw *h, size_t n, bool resumes);
void hw_truth_add(struct hw *h, struct hw_event e);
/* Not before the packet's place and not behind it; its place is not told. */
void hw_truth_somewhere(struct hw *h, struct hw_event e);
/* Of what stands before a FUP or a TIP. */
void hw_truth_wait(struct hw *h, struct hw_event e);
void hw_truth_flush(struct hw *h, uint64_t ip);
void hw_truth_paging(struct hw *h, uint64_t ip);
void hw_truth_vmcs(struct hw *h, uint64_t ip);
void hw_truth_mode(struct hw *h, uint64_t ip);
void hw_truth_tsx(struct hw *h, uint64_t ip);
/* All that applies where execution goes on. */
void hw_truth_target(struct hw *h, uint64_t ip);
void hw_truth_cut(struct hw *h);
/* The first packet that tells where execution is, behind an overflow whose own is missing. */
void hw_truth_found(struct hw *h, uint64_t ip);
void hw_truth_overflow(struct hw *h, uint64_t ip);
void hw_truth_other_fup(struct hw *h, uint64_t ip);
void hw_truth_end(struct hw *h);

/* hw_wire.c; false: the packet was lost */
bool hw_chance(struct hw *h, unsigned in_4096);
bool hw_flush(struct hw *h);
bool hw_packet(struct hw *h, bool eligible, const uint8_t *bytes, unsigned n);
bool hw_short(struct hw *h, bool eligible, unsigned a, unsigned b); /* of two bytes */
void hw_loss_begin(struct hw *h);
bool hw_tnt(struct hw *h, bool taken);
bool hw_tip(struct hw *h, uint64_t ip, bool may_defer);
enum hw_ip_kind { HW_TIP = 0x0d, HW_PGE = 0x11, HW_PGD = 0x01, HW_FUP = 0x1d };
bool hw_ip(struct hw *h, enum hw_ip_kind kind, uint64_t ip);
bool hw_no_ip(struct hw *h, enum hw_ip_kind kind);
bool hw_tsc(struct hw *h);
bool hw_cbr(struct hw *h);
bool hw_pip(struct hw *h);
bool hw_vmcs(struct hw *h);
bool hw_mode_tsx(struct hw *h, unsigned what);
bool hw_mode_exec(struct hw *h);
void hw_tick(struct hw *h);
/* A CYC, then what an OVF leaves of it [ERR SKD007]. */
void hw_cut_cyc(struct hw *h, bool erratum);

/* hw_psb.c */
enum hw_psb_kind { HW_PSB_STATE, HW_PSB_OFF, HW_PSB_EARLY }; /* with FUP if packets are on; without; before its TIP.PGE [ERR BDM70] */
void hw_psb(struct hw *h, enum hw_psb_kind kind);
void hw_loss_end(struct hw *h);
/* It may end here: what follows is not mistaken for something else. */
bool hw_loss_may_end(const struct hw *h);
void hw_overflow_alone(struct hw *h);
void hw_enable(struct hw *h);
void hw_disable(struct hw *h, uint64_t ip);

/* hw_cpu.c */
struct hw_move {
    enum { HW_DIRECT, HW_COND, HW_INDIRECT, HW_COMPRESSED, HW_FAR, HW_EVENT, HW_ABORT } how;
    uint64_t from, to;
    unsigned segment;
    uint64_t cr3;
    bool nr, iflag, pip; /* pip: CR3 is written */
    enum hw_enclave enclave;
    bool sipi;           /* INIT of a processor that waits for a SIPI before it goes on */
    uint64_t wrong;      /* what of the address is told wrongly [ERR BDM64] */
    int cfe; /* type, -1: none */
    unsigned vector;
};
bool hw_trigger(const struct hw *h);
bool hw_packet_en(const struct hw *h);
bool hw_traced(const struct hw *h); /* its context is, wherever in it */
unsigned hw_mode(const struct hw *h);
unsigned hw_mode_byte(const struct hw *h);
void hw_context(struct hw *h, uint64_t ip);
bool hw_stops(const struct hw *h, uint64_t ip);
void hw_stop(struct hw *h);
void hw_go(struct hw *h, struct hw_move mv);
void hw_leave(struct hw *h, const struct hw_move *mv);
void hw_enter(struct hw *h, uint64_t to);
struct hw_move hw_move(const struct hw *h, uint64_t to);

/* hw_items.c */
void hw_sleeps(struct hw *h, bool mwait, unsigned state);
void hw_halts(struct hw *h); /* C1 at INIT */
void hw_power_event(struct hw *h);
void hw_block(struct hw *h);
void hw_trigger_packet(struct hw *h);

/* hw_events.c */
void hw_before(struct hw *h);
void hw_step(struct hw *h);

/* hw.c: choose a processor and a program by the seed, and run it. gaps: packets may be such that what ran does not follow from them. */
void hw_run(struct hw *h, uint64_t seed, bool gaps);
void hw_free(struct hw *h);
uint64_t hw_ctl(const struct hw_config *config);

#endif
