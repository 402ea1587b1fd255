/* SPDX-License-Identifier: MIT
 * See pt_row.h. */
#include "pt_row.h"

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
    assert_int_equal(rig_event(rig, &event), 0);
}

void check_row(void **state)
{
    const struct row *row = *state;
    struct pt_rig *rig = malloc(sizeof *rig);
    rig_open(rig, &(struct cofi_unit_config){.model = "all", .tsc_art_num = 84, .tsc_art_den = 1});
    rig->context.cpl = 3;
    apply(&rig->context, &row->before);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A, IN), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B, IN + 0xfff), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_A + 2, STOPS), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_ADDR0_B + 2, STOPS + 0xfff), 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CR3_MATCH, 0x5000), 0);
    if (row->count)
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_STATUS, (uint64_t)row->count << 32), 0);
    rig_start(rig, row->ctl, rig->context.cpl, row->ip);
    for (unsigned i = 0; i < row->bits; i++)
        rig_jcc(rig, IN, IN, true);
    if (row->first.ip)
        play(rig, row->first, &row->first_after);
    play(rig, row->event, &row->after);
    assert_string_equal(rig_packets(rig), row->packets);
    rig_close(rig);
    free(rig);
}
