/* SPDX-License-Identifier: MIT
 * Configuration -> an RTIT unit; its life, its narrow door, and its row in the frame. */
#include <stdlib.h>

#include "unit/rtit/rtit.h"

static int drain_out(void *opaque, const uint8_t *bytes, size_t n)
{
    struct rtit *u = opaque;
    return cofi__lines_write(&u->lines, bytes, n);
}

static void reset(struct cofi_unit *unit, enum cofi_reset kind)
{
    struct rtit *u = rtit_of(unit);
    if (kind == COFI_RESET_INIT) /* RTIT MSRs survive it [RTIT 3.3.1] */
        return;
    cofi__rtit_reset_regs(u);
    u->context = (struct cofi_context){.vmcs = UINT64_MAX, .mode = 16};
    u->attention = u->psb_owed = u->psb_late = u->stop_pending = u->sleeping = u->clock_set = false;
    u->deferred = u->clear_due = u->pkt_cnt_carry = u->e8_armed = false;
    u->clear_packets = u->e8_count = u->e8_held_size = 0;
    u->ip = u->tsc = u->cycles = u->acbr = u->ecbr = 0;
    u->overflow_target = UINT64_MAX;
    u->buffer.fill = u->buffer.head = 0; /* what was in it is lost */
    u->lines.line.first = u->lines.line.end = 0;
    u->lines.waiting = 0;
    cofi__lines_region(&u->lines, u->reg[RTIT_BASE_ADDR], u->reg[RTIT_LIMIT_MASK], 0);
    cofi__rtit_update_enables(u);
}

static int open(struct cofi_unit **unit, const struct cofi_unit_config *config)
{
    /* The longest packet, PSB, must fit [RTIT 4.2.1]; TIP with cycle count is 10 bytes. */
    if (config->buffer_bytes > 0 && config->buffer_bytes < 10)
        return COFI_ERR_RANGE;
    struct rtit *u = calloc(1, sizeof *u + config->buffer_bytes);
    if (!u)
        return COFI_ERR_NOMEM;
    u->base.ops = &cofi__rtit_ops;
    u->config = *config;
    u->codec.gen = COFI_RTIT;
    cofi__buffer_init(&u->buffer, u->ring, config->buffer_bytes, config->drain_bytes, config->drain_cycles,
                      (struct cofi__drain){drain_out, u});
    cofi__lines_init(&u->lines, config->memory, config->sink, config->weak_lines, config->weak_seed);
    reset(&u->base, COFI_RESET_COLD);
    *unit = &u->base;
    return COFI_OK;
}

static void close(struct cofi_unit *unit) { free(unit); }

/* RTIT is not enumerated in any way [RTIT 3.1]. */
static int cpuid(const struct cofi_unit *unit, uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
    (void)unit, (void)leaf, (void)subleaf, (void)regs;
    return COFI_ERR_RANGE;
}

static void context(struct cofi_unit *unit, const struct cofi_context *ctx, uint64_t ip)
{
    struct rtit *u = rtit_of(unit);
    u->context = *ctx;
    u->ip = ip;
    u->ip_known = true;
    cofi__rtit_update_enables(u);
}

static int tnt(struct cofi_unit *unit, uint64_t bits, unsigned n)
{
    struct rtit *u = rtit_of(unit);
    if (u->attention) {
        if (u->ip_known)
            cofi__rtit_start_instruction(u, u->ip, u->ip);
        /* else the address that FUP.BuffOvf needs comes with the next tip() or event */
    }
    u->ip_known = false;
    cofi__rtit_push_run(u, bits, n);
    return cofi__buffer_status(&u->buffer);
}

static int tip(struct cofi_unit *unit, uint64_t target)
{
    struct rtit *u = rtit_of(unit);
    if (u->attention && u->ip_known)
        cofi__rtit_start_instruction(u, u->ip, u->ip);
    cofi__rtit_emit_lip(u, COFI_RTIT_TIP, target, (struct rtit_rule){"indirect branch", "[RTIT 4.2.3]"});
    u->ip = target;
    u->ip_known = true;
    return cofi__buffer_status(&u->buffer);
}

static void drain(struct cofi_unit *unit) { cofi__rtit_drain(rtit_of(unit)); }
static uint64_t bytes_made(const struct cofi_unit *unit)
{
    return cofi__buffer_pushed(&rtit_of_const(unit)->buffer);
}

static unsigned wants(const struct cofi_unit *unit) { return rtit_of_const(unit)->ip_ranges ? COFI_WANTS_INSN : 0; }

const struct cofi__unit_ops cofi__rtit_ops = {
    .open = open, .close = close, .reset = reset, .rdmsr = cofi__rtit_rdmsr, .wrmsr = cofi__rtit_wrmsr,
    .load = cofi__rtit_load, .cpuid = cpuid, .set_field = cofi__rtit_set_field, .context = context,
    .event = cofi__rtit_event, .tnt = tnt, .tip = tip, .drain = drain, .bytes = bytes_made, .wants = wants,
    .get_field = cofi__rtit_get_field, .register_at = cofi__rtit_register_at, .field = cofi__rtit_field,
};
