/* SPDX-License-Identifier: MIT
 * The PT unit's state and what its files call of each other. README.md has the order to read them
 * in. */
#ifndef COFI_UNIT_PT_PT_H
#define COFI_UNIT_PT_PT_H

#include "output/pt_output.h"
#include "unit/common/buffer.h"
#include "unit/pt/caps.h"
#include "unit/unit.h"

enum cofi__pt_msr {
#define MSR(name, address, need) PT_MSR_##name,
#include "unit/pt/regs.def"
    PT_MSRS
};

/* Lowest bit and width of each field: PT_CTL_TRACE_EN_LSB, … */
enum {
#define FIELD(msr, NAME, name, lsb, width, need, kind) \
    PT_##msr##_##NAME##_LSB = lsb, PT_##msr##_##NAME##_WIDTH = width,
#include "unit/pt/regs.def"
};

#define PT_GET(value, field) bits(value, PT_##field##_LSB, PT_##field##_WIDTH)
#define PT_BIT(field) (UINT64_C(1) << PT_##field##_LSB)

/* Why a packet is there, or why none is: rules.def. */
enum cofi__pt_rule {
#define RULE(NAME, tag, text) PT_RULE_##NAME,
#include "unit/pt/rules.def"
    PT_RULES
};

/* A packet to explain, or (kind COFI_PKT_NONE) why there is none. */
struct pt_said {
    struct cofi_packet packet;
    uint32_t at; /* in the stage */
    uint8_t rule; /* enum cofi__pt_rule */
};

enum {
    PT_STAGE_BYTES = 4096,
    PT_OP_BYTES = 1024,    /* no operation makes more; an MTC burst commits in between */
    PT_SAID = 64,          /* packets of an operation that wait to be explained; of more the first are
                            * before it is known whether they leave */
    PT_RET_STACK = 64,     /* [SDM Indirect Transfer Compression for Returns (RET)] */
    PT_DEFERRED = 16,      /* TIPs held back at most */
    PT_ENTRY_BYTES = 32
};

/* What the next event must see to before anything else. */
enum {
    PT_DO_PENDING = 1, /* an EVENT or FAR waits for its target */
    PT_DO_PSB = 2,     /* a PSB+ is due */
    PT_DO_RESUME = 4,  /* the internal buffer overflowed */
    PT_DO_CLOCK = 8    /* the host is to be asked for the time */
};

struct cofi__pt_range {
    uint64_t base, limit; /* inclusive */
};

struct cofi__pt {
    struct cofi_unit unit;
    struct cofi_unit_config config;
    const struct cofi__pt_caps *caps;
    struct cofi__pt_caps own_caps; /* of config.cpu */

    /* Registers, as rdmsr gives them; those of output live in `out` while TraceEn=1. */
    uint64_t msr[PT_MSRS];
    struct cofi__pt_output out;

    /* Enables [SDM Packet Generation Enable Controls]. */
    bool trigger_en, context_en, filter_en, packet_en;
    bool disabling;   /* TraceEn is being cleared */
    bool stopping; /* the last filter update found a TraceStop range */
    struct cofi__pt_range filters[4], stops[4];
    uint8_t filter_count, stop_count;

    /* The processor, as of the last event. */
    struct cofi_context context;
    uint64_t ip; /* next instruction to run (linear) */
    uint8_t attention; /* PT_DO_* */
    bool compound; /* between INIT and SIPI: no PSB here */
    struct cofi_event pending;
    const struct cofi_event *rsm; /* the RSM that turns tracing on now */
    uint8_t sleeping; /* C-state, 0 none */
    bool block_open;

    /* Packets. */
    struct cofi_packet_context codec;
    uint64_t tnt;
    uint8_t tnt_count, tnt_max;
    bool take_tnt;  /* !DisTNT */
    bool eligible[COFI_PKT_KINDS]; /* CYC-eligible, all false without CYCEn */
    uint64_t deferred[PT_DEFERRED]; /* as payloads: the mode may have changed when they are written */
    uint8_t deferred_count;
    bool tip_held;     /* errata: held_ip is a TIP not written yet */
    uint64_t held_ip;
    uint64_t last_ip;
    bool ip_full;   /* next IP must not be compressed against LastIP [PTREF 5.4] */
    uint8_t mode_sent; /* byte of the last MODE.Exec, MODE_NONE: none since the last PSB */
    uint64_t ret[PT_RET_STACK];
    uint8_t ret_top, ret_count;
    bool event_made; /* the current event made a packet or a bit */

    /* Time. */
    uint64_t tsc, cycles;
    uint64_t tsc_multiplier, tsc_offset; /* what software reads: 48 bits of fraction, 0: 1 */
    uint64_t art_num, art_den;
    uint64_t mtc_tsc;     /* TSC at which the next MTC is due, UINT64_MAX none */
    uint64_t mtc_count;   /* ART >> MTCFreq of the last MTC */
    uint64_t cyc_base;    /* cycles at which the counter was 0 */
    uint64_t cyc_last;    /* cycle of the last CYC, UINT64_MAX none yet */
    uint64_t sleep_cycles;
    uint64_t cyc_threshold, cyc_limit;
    uint8_t ratio;

    /* Bytes. */
    uint64_t psb_bytes, psb_period;
    uint64_t bytes;       /* committed */
    bool lost;            /* the sink refused bytes: cofi__pt_refused */
    bool overflow;
    bool overflow_packets;             /* PacketEn when the overflow began */
    uint8_t overflow_mode;             /* mode_sent then */
    struct cofi_context
        event_context; /* before the current event; as decoders know it in overflow */
    uint32_t stage_count, op_start;    /* stage[op_start, stage_count) is not committed yet */
    uint32_t op_tnt_end;        /* end of the earlier bits that the operation forced out, or 0 */
    struct cofi__buffer buffer; /* internal buffer; with capacity 0 the stage takes its place */
    uint64_t drained_at;  /* cycles up to which the buffer has drained */
    unsigned happened;    /* PT_OUTPUT_* that the output said and react() has not seen yet */
    uint8_t stage[PT_STAGE_BYTES];
    unsigned said_n;           /* what to explain once the operation is committed; none if nobody asked */
    struct pt_said said[PT_SAID];
};

enum { PT_MODE_NONE = 0xff };

static inline struct cofi__pt *cofi__pt_of(struct cofi_unit *unit)
{
    return (struct cofi__pt *)unit;
}

static inline uint64_t cofi__pt_ctl(const struct cofi__pt *pt) { return pt->msr[PT_MSR_CTL]; }

/* regs.c */
int cofi__pt_rdmsr(struct cofi_unit *unit, uint32_t msr, uint64_t *value);
int cofi__pt_wrmsr_at(struct cofi__pt *pt, uint32_t msr, uint64_t value, uint64_t clip,
                      uint64_t nlip);
/* unit.c: the status of a call, or that the output refused bytes since the last one. */
int cofi__pt_refused(struct cofi__pt *pt, int status);
bool cofi__pt_ctl_legal(const struct cofi__pt *pt, uint64_t value);
void cofi__pt_ctl_load(struct cofi__pt *pt, uint64_t value, uint64_t clip, uint64_t nlip);
int cofi__pt_set_field(struct cofi_unit *unit, const char *field, uint64_t value);
int cofi__pt_get_field(const struct cofi_unit *unit, const char *name, uint64_t *value);
int cofi__pt_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field);
int cofi__pt_xsaves(struct cofi_unit *unit, uint8_t *image);
int cofi__pt_xrstors(struct cofi_unit *unit, const uint8_t *image);
void cofi__pt_registers_clear(struct cofi__pt *pt);

/* enables.c */
uint64_t cofi__pt_address(const struct cofi__pt *pt, uint64_t ip);
void cofi__pt_enables_context(struct cofi__pt *pt, const struct cofi_context *context);
bool cofi__pt_passes(const struct cofi__pt *pt, uint64_t ip);
void cofi__pt_enables_filter(struct cofi__pt *pt, uint64_t ip);
void cofi__pt_enables_packet(struct cofi__pt *pt);
bool cofi__pt_context_value(const struct cofi__pt *pt, const struct cofi_context *context);
bool cofi__pt_in_stop(const struct cofi__pt *pt, uint64_t ip);
void cofi__pt_trace_stop(struct cofi__pt *pt);
void cofi__pt_enable(struct cofi__pt *pt, uint64_t clip, uint64_t ip);
void cofi__pt_output_store(struct cofi__pt *pt);
void cofi__pt_disable(struct cofi__pt *pt, uint64_t fup_ip, bool fup);
void cofi__pt_trigger_off(struct cofi__pt *pt);

/* emit.c */
void cofi__pt_emit(struct cofi__pt *pt, const struct cofi_packet *packet, enum cofi__pt_rule rule);
void cofi__pt_emit_kind(struct cofi__pt *pt, enum cofi_packet_kind kind, enum cofi__pt_rule rule);
void cofi__pt_emit_ip(struct cofi__pt *pt, enum cofi_packet_kind kind, uint64_t ip,
                      enum cofi__pt_rule rule);
void cofi__pt_emit_no_ip(struct cofi__pt *pt, enum cofi_packet_kind kind, enum cofi__pt_rule rule);
void cofi__pt_emit_pip(struct cofi__pt *pt, bool entry, enum cofi__pt_rule rule);
void cofi__pt_emit_vmcs(struct cofi__pt *pt, enum cofi__pt_rule rule);
uint8_t cofi__pt_mode_byte(const struct cofi__pt *pt, struct cofi_packet *packet);
void cofi__pt_emit_mode(struct cofi__pt *pt, bool always, enum cofi__pt_rule rule);
void cofi__pt_emit_tsx(struct cofi__pt *pt, bool intx, bool abort, enum cofi__pt_rule rule);
void cofi__pt_tip(struct cofi__pt *pt, uint64_t target, enum cofi__pt_rule rule);
void cofi__pt_bits(struct cofi__pt *pt, uint64_t outcomes, unsigned n);
void cofi__pt_bit(struct cofi__pt *pt, bool taken);
void cofi__pt_flush_tnt(struct cofi__pt *pt);
void cofi__pt_psb(struct cofi__pt *pt, bool enabling, uint64_t ip, enum cofi__pt_rule rule);
void cofi__pt_explain_none(struct cofi__pt *pt, enum cofi__pt_rule rule);
/* Explain the operation's packets, those that begin before `end` in the stage; the others are lost. */
void cofi__pt_explain(struct cofi__pt *pt, uint32_t end);

void cofi__pt_emit_cyc(struct cofi__pt *pt, uint64_t count, enum cofi__pt_rule rule);

/* ret.c */
void cofi__pt_ret_clear(struct cofi__pt *pt);
void cofi__pt_ret_push(struct cofi__pt *pt, uint64_t next);
bool cofi__pt_ret_pop(struct cofi__pt *pt, uint64_t target);

/* clock.c */
void cofi__pt_clock_ask(struct cofi__pt *pt);
void cofi__pt_clock_set(struct cofi__pt *pt, uint64_t tsc, uint64_t cycles);
void cofi__pt_clock_start(struct cofi__pt *pt);
void cofi__pt_clock_load(struct cofi__pt *pt);
void cofi__pt_clock_reschedule(struct cofi__pt *pt);
void cofi__pt_cyc(struct cofi__pt *pt);
void cofi__pt_tsc_tma(struct cofi__pt *pt, enum cofi__pt_rule rule);
void cofi__pt_cbr(struct cofi__pt *pt, enum cofi__pt_rule rule);

/* buffer.c */
int cofi__pt_leave(void *opaque, const uint8_t *bytes, size_t n);
void cofi__pt_commit(struct cofi__pt *pt);
void cofi__pt_drain_to_now(struct cofi__pt *pt);
void cofi__pt_drain_all(struct cofi__pt *pt);
void cofi__pt_overflow(struct cofi__pt *pt);
void cofi__pt_resume(struct cofi__pt *pt, uint64_t ip, bool ip_known);

/* errata.c: what config.errata makes wrong; nothing without its bit */
void cofi__pt_erratum_abort(struct cofi__pt *pt);
void cofi__pt_erratum_cyc_before_ovf(struct cofi__pt *pt, uint32_t start);
void cofi__pt_erratum_after_ovf(struct cofi__pt *pt, uint64_t ip, bool was_on);
void cofi__pt_erratum_before_psb(struct cofi__pt *pt);
void cofi__pt_erratum_tma(struct cofi__pt *pt);

/* near.c, far.c, power.c, other.c: what each kind of event makes */
void cofi__pt_jcc(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_direct(struct cofi__pt *pt, const struct cofi_event *event, bool call);
void cofi__pt_indirect(struct cofi__pt *pt, const struct cofi_event *event, bool call);
void cofi__pt_return(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_mov_cr3(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_far(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_abandon(struct cofi__pt *pt);
void cofi__pt_tell_rsm(struct cofi__pt *pt);
void cofi__pt_interrupt(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_tsx(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_state(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_ptwrite(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_vmptrld(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_mwait(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_sleep(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_wake(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_freq(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_stop_clock(struct cofi__pt *pt, uint64_t ip, uint8_t state, uint8_t sub, bool hw);
void cofi__pt_block(struct cofi__pt *pt, const struct cofi_event *event);
void cofi__pt_trigger(struct cofi__pt *pt, const struct cofi_event *event);

#endif
