/* SPDX-License-Identifier: MIT
 * See pt_row.h. */
#include "pt_row.h"

#include "vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void apply(struct cofi_context *context, const struct change *change)
{
    context->cpl = change->cpl ? change->cpl - 1 : context->cpl;
    context->mode = change->mode ? change->mode & ~1 : context->mode;
    context->vmx = change->vmx ? change->vmx - 1 : context->vmx;
    context->enclave = change->enclave ? change->enclave - 1 : context->enclave;
    context->intx = change->intx ? change->intx - 1 : context->intx;
    context->iflag = change->iflag ? change->iflag - 1 : context->iflag;
    context->smm = change->smm ? change->smm - 1 : context->smm;
    context->cr3 = change->cr3 ? change->cr3 : context->cr3;
    context->vmcs = change->vmcs ? change->vmcs : context->vmcs;
    context->conceal = change->conceal ? change->conceal : context->conceal;
}

static bool changes(const struct change *change)
{
    static const struct change none;
    return memcmp(change, &none, sizeof none) != 0;
}

static void play(struct pt_rig *rig, struct cofi_event event, const struct change *after)
{
    event.after = rig->context;
    apply(&event.after, after);
    event.context_set = changes(after) || event.kind == COFI_EV_MOV_CR3 || event.kind == COFI_EV_VMPTRLD;
    vector_event(&event, &rig->context);
    assert_int_equal(rig_event(rig, &event), 0);
}

static void write_msr(struct pt_rig *rig, uint32_t msr, uint64_t value)
{
    assert_int_equal(cofi_unit_wrmsr(rig->unit, msr, value), 0);
}

/* Where tracing begins, and what enables it. */
static void start(struct pt_rig *rig, const struct row *row)
{
    vector_state(row->ip, &rig->context);
    if (row->count) {
        write_msr(rig, MSR_STATUS, (uint64_t)row->count << 32);
        vector_line("wrmsr %x %" PRIx64, MSR_STATUS, (uint64_t)row->count << 32);
    }
    rig_start(rig, row->ctl, rig->context.cpl, row->ip);
    vector_line("wrmsr %x %" PRIx64 "\nevents", MSR_CTL, row->ctl);
}

static void play_bits(struct pt_rig *rig, unsigned n)
{
    static const struct cofi_event taken = JCC(IN, IN, true);
    for (unsigned i = 0; i < n; i++)
        play(rig, taken, &(struct change){0});
}

void check_row(void **state)
{
    const struct row *row = *state;
    struct pt_rig *rig = malloc(sizeof *rig);
    vector_begin(row->name);
    rig_open(rig, &(struct cofi_unit_config){.model = "all", .tsc_art_num = 84, .tsc_art_den = 1,
                                             .explain = vector_wanted() ? vector_packet : NULL});
    rig->context.cpl = 3;
    apply(&rig->context, &row->before);
    write_msr(rig, MSR_ADDR0_A, IN);
    write_msr(rig, MSR_ADDR0_B, IN + 0xfff);
    write_msr(rig, MSR_ADDR0_A + 2, STOPS);
    write_msr(rig, MSR_ADDR0_B + 2, STOPS + 0xfff);
    write_msr(rig, MSR_CR3_MATCH, 0x5000);
    start(rig, row);
    play_bits(rig, row->bits);
    if (row->first.ip)
        play(rig, row->first, &row->first_after);
    play(rig, row->event, &row->after);
    assert_string_equal(rig_packets(rig), row->packets);
    vector_made(rig->bytes, rig->size);
    vector_end();
    rig_close(rig);
    free(rig);
}
