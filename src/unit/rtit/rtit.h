/* SPDX-License-Identifier: MIT
 * The RTIT unit's state, and what its files call of each other. */
#ifndef COFI_UNIT_RTIT_RTIT_H
#define COFI_UNIT_RTIT_RTIT_H

#include <stdbool.h>

#include "output/lines.h"
#include "unit/common/buffer.h"
#include "unit/common/fields.h"
#include "unit/common/tnt.h"
#include "unit/unit.h"

enum rtit_reg {
#define RTIT_MSR(name, number, tag) RTIT_##name,
#define RTIT_FIELD(reg, name, lsb, width, access, reset, tag)
#include "unit/rtit/rtit.def"
    RTIT_REGS
};

/* RTIT_CTL's bits, and the event ids of RTIT_EVENTS [RTIT Table 4, Table 7]. */
enum {
    CTL_TRACE_EN = 1 << 0, CTL_CYCLE_ACC = 1 << 1, CTL_OS = 1 << 2, CTL_USER = 1 << 3,
    CTL_STS_ON_CR3 = 1 << 4, CTL_CR3_EN = 1 << 7, CTL_DEST = 1 << 8, CTL_MTC_EN = 1 << 9,
    CTL_STS_EN = 1 << 10, CTL_CMPRS_RET = 1 << 11, CTL_LESS_PKTS = 1 << 12,
    CTL_TRACE_ACTIVE = 1 << 13, CTL_MTC_RANGE_LSB = 14,
    CNTP_MSB = 1 << 21, CNTP_MASK = (1 << 22) - 1,
    TNT_LIMIT = 6, PKT_CNT_MASK = 0x3fff,
    EVENT_RANGE0 = 0, EVENT_RANGE1 = 1, EVENT_EITHER = 2, EVENT_OFF = 6, EVENT_ON = 7,
};
#define NLIP_VALID (UINT64_C(1) << 48)
#define LAST_LIP_VALID (UINT64_C(1) << 32)
#define LIP_MASK ((UINT64_C(1) << 48) - 1)

struct rtit {
    struct cofi_unit base;
    struct cofi_unit_config config;
    /* RTIT_STATUS, RTIT_TNT_BUFF and RTIT_OFFSET live in the members below; the others here. */
    uint64_t reg[RTIT_REGS];
    cofi__tnt tnt;             /* RTIT_TNT_BUFF */
    bool unlocked;             /* RTIT_CTL has been read [RTIT 3.3.1] */
    bool trigger_en, context_en, filter_en, packet_en; /* [RTIT 2.1] */
    bool overflow;             /* RTIT_STATUS.Buffer_Overflow */
    bool ip_ranges;            /* an event id looks at a range: every instruction matters */
    bool ip_blind;             /* no IP can change an enable: filter always on, TraceStop off */
    /* Anything that the start of the next instruction has to look at: an overflow to clear, a half-full
     * cycle counter, a full TNT left over, an owed PSB. Keeps the common path short. */
    bool attention;
    bool pkt_cnt_carry;        /* bit 14 of the last sum of Pkt_Cnt */
    bool psb_owed;             /* TriggerEn rose, but the PSB found no room [RTIT 4.2.5] */
    bool psb_late;             /* [ERR E3] */
    bool stop_pending;         /* TraceStop hit during an overflow [RTIT 4.2.5] */
    bool sleeping, clock_set;
    bool deferred;             /* pending waits for the next BOUNDARY */
    struct cofi_event pending;
    struct cofi_context context;
    uint64_t ip;               /* where the next instruction starts */
    bool ip_known;             /* not after outcomes through the narrow door */
    uint64_t tsc, cycles;      /* of the last event that told */
    uint8_t acbr, ecbr;
    /* LAST_LIP and LAST_CALL_NLIP are cleared only when the packet that called for the PSB has left the
     * internal buffer [RTIT 3.3.9]. */
    bool clear_due;
    uint64_t clear_at;         /* when so many bytes have drained … */
    uint32_t clear_packets;    /* … or this many more packets have been made */
    uint64_t overflow_target;  /* of the last indirect branch during the overflow [ERR E5]; or UINT64_MAX */
    uint32_t e8_count;         /* PSBs, for [ERR E8] */
    uint8_t e8_case, e8_wait;  /* which of its cases; packets until the next step of it */
    uint8_t e8_held_size, e8_held[16]; /* the packet that [ERR E8] delays */
    bool e8_armed;
    uint32_t made;             /* packets that this event made, for explain */
    bool told;                 /* or why it made none */
    struct cofi_packet_context codec;
    struct cofi__buffer buffer;
    struct cofi__lines lines;
    uint8_t ring[];
};

static inline struct rtit *rtit_of(struct cofi_unit *unit) { return (struct rtit *)unit; }
static inline const struct rtit *rtit_of_const(const struct cofi_unit *unit)
{
    return (const struct rtit *)unit;
}
static inline bool rtit_has(const struct rtit *u, uint64_t ctl_bits)
{
    return (u->reg[RTIT_CTL] & ctl_bits) == ctl_bits;
}

/* regs.c */
int cofi__rtit_find(uint32_t msr); /* enum rtit_reg, or COFI_ERR_NOT_FOUND */
/* What the register holds after a write that does not fault. COFI_ERR_GP. */
int cofi__rtit_check(const struct rtit *u, enum rtit_reg reg, uint64_t value, uint64_t *result);
/* Check a write and store it, without any effect on the trace. COFI_ERR_GP. */
int cofi__rtit_store(struct rtit *u, enum rtit_reg reg, uint64_t value);
void cofi__rtit_reset_regs(struct rtit *u);
int cofi__rtit_rdmsr(struct cofi_unit *unit, uint32_t msr, uint64_t *value);
int cofi__rtit_load(struct cofi_unit *unit, uint32_t msr, uint64_t value);
int cofi__rtit_set_field(struct cofi_unit *unit, const char *name, uint64_t value);
int cofi__rtit_get_field(const struct cofi_unit *unit, const char *name, uint64_t *value);
int cofi__rtit_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field);
int cofi__rtit_register_at(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg);

/* enable.c */
void cofi__rtit_update_enables(struct rtit *u);
/* The instruction or event ended at ip: the range comparisons. Updates FilterEn; returns whether the
 * TraceStop condition holds. */
bool cofi__rtit_compare_ip(struct rtit *u, uint64_t ip, bool taken);
/* Which enable keeps PacketEn at 0, in words. */
const char *cofi__rtit_why_disabled(const struct rtit *u);

/* emit.c: each makes one packet, or drops it during an overflow. */
struct rtit_rule {
    const char *text, *tag;
};
bool cofi__rtit_emit(struct rtit *u, struct cofi_packet *packet, bool with_cycles, struct rtit_rule rule);
/* The same without a look at Pkt_Cnt, for TraceSTOP. */
bool cofi__rtit_send(struct rtit *u, struct cofi_packet *packet, bool with_cycles, struct rtit_rule rule);
void cofi__rtit_emit_lip(struct rtit *u, enum cofi_packet_kind kind, uint64_t lip, struct rtit_rule rule);
void cofi__rtit_emit_psb(struct rtit *u, struct rtit_rule rule);
void cofi__rtit_force_tnt(struct rtit *u);
void cofi__rtit_push_tnt(struct rtit *u, bool taken);
/* n outcomes, the oldest at bit n-1. */
void cofi__rtit_push_run(struct rtit *u, uint64_t bits, unsigned n);
void cofi__rtit_settle(struct rtit *u);
/* A packet that went around the buffer: count and explain it. True. */
bool cofi__rtit_count_direct(struct rtit *u, struct cofi_packet *packet, struct rtit_rule rule);
void cofi__rtit_overflow(struct rtit *u);
void cofi__rtit_check_pkt_cnt(struct rtit *u);
void cofi__rtit_clear_compression(struct rtit *u);
void cofi__rtit_explain_none(struct rtit *u, struct rtit_rule rule);
void cofi__rtit_drain(struct rtit *u);

/* silence.c: why this event made no packet; before: PacketEn when it began. */
void cofi__rtit_explain_silence(struct rtit *u, const struct cofi_event *event, bool before);

/* start.c: what happens at the start of an instruction. */
void cofi__rtit_start_instruction(struct rtit *u, uint64_t ip, uint64_t next);
void cofi__rtit_trace_stop(struct rtit *u);

/* time.c */
void cofi__rtit_time(struct rtit *u, const struct cofi_event *event);
void cofi__rtit_sleep(struct rtit *u, unsigned c_state);
void cofi__rtit_sts(struct rtit *u, struct rtit_rule rule);
void cofi__rtit_mtc(struct rtit *u, uint64_t tsc, struct rtit_rule rule);

/* retire.c */
/* Does it retire as an instruction? */
static inline bool is_instruction(const struct cofi_event *event) { return event->kind < COFI_EV_EVENT; }
int cofi__rtit_event(struct cofi_unit *unit, const struct cofi_event *event);
int cofi__rtit_wrmsr(struct cofi_unit *unit, uint32_t msr, uint64_t value);

#endif
