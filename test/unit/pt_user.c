/* SPDX-License-Identifier: MIT
 * A user program as the step host reports it: system calls and signals leave and enter the trace. */
#include "pt_rig.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t user = TRACE_EN | USER | BRANCH_EN;

static int setup(void **state)
{
    *state = malloc(sizeof(struct pt_rig));
    rig_open(*state, NULL);
    return 0;
}

static int teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

static void enabling_in_the_kernel_makes_psb_plus_without_fup(void **state)
{
    struct pt_rig *rig = *state;
    cofi_unit_context(rig->unit, &rig->context, 0);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CTL, user), 0);
    rig_expect(rig, "psb cbr(24) psbend");
}

/* [SDM Filtering by Current Privilege Level (CPL); SDM Context Enable (ContextEn)] */
static void return_to_user_code_is_mode_exec_and_pge(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 0, 0);
    rig_far(rig, COFI_FAR_SYSRET, 0xffffffff81000000, 0x401000, 3);
    rig_expect(rig, "mode.exec(64) tip.pge(401000)");
}

static void system_call_is_pgd_without_address(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    rig_jcc(rig, 0x401000, 0x401010, true);
    rig_far(rig, COFI_FAR_SYSCALL, 0x401010, 0xffffffff81000000, 0);
    rig_expect(rig, "tnt.8(T) tip.pgd()");
}

static void signal_is_fup_pgd_then_pge_at_the_handler(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    rig_interrupt(rig, COFI_CAUSE_INTR, 0x401004, 0xffffffff81000000, 0);
    rig_far(rig, COFI_FAR_IRET, 0xffffffff81000100, 0x402000, 3);
    rig_expect(rig, "fup(401004) tip.pgd() mode.exec(64) tip.pge(402000)");
}

static void deferred_target_out_of_the_trace_needs_no_boundary(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    struct cofi_event event = {.kind = COFI_EV_FAR, .cause = COFI_FAR_SYSCALL, .ip = 0x401000, .next = 0x401002,
                               .deferred = true, .context_set = true, .after = rig->context};
    event.after.cpl = 0;
    rig_event(rig, &event);
    rig_expect(rig, "tip.pgd()");
}

static void deferred_target_waits_for_the_boundary(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    struct cofi_event event = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = 0x401000, .deferred = true,
                               .vector = COFI_NO_VECTOR};
    rig_event(rig, &event);
    rig_expect(rig, "");
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_BOUNDARY, .ip = 0x402000});
    rig_expect(rig, "fup(401000) tip(402000)");
}

static void matching_return_is_one_bit(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    rig_near(rig, COFI_EV_CALL, 0x401000, 5, 0x402000);
    rig_near(rig, COFI_EV_RET, 0x402000, 1, 0x401005);
    rig_near(rig, COFI_EV_JMP_IND, 0x401005, 2, 0x403000);
    rig_expect(rig, "tnt.8(T) tip(403000)");
}

static void psb_plus_comes_when_the_period_is_over(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    for (unsigned i = 0; i < 3000; i++)
        rig_near(rig, COFI_EV_JMP_IND, 0x401000 + 16 * (i & 1), 2, 0x401000 + 16 * (~i & 1));
    const char *text = rig_packets(rig), *psb = strstr(text, "psb");
    assert_non_null(psb);
    assert_memory_equal(psb, "psb cbr(24) mode.tsx(commit) mode.exec(64) fup(401", 50);
    assert_true(rig->size > 2048);
}

/* [SDM Disabling Packet Generation; SDM Packet Generation Enable Controls] */
static void disabling_by_wrmsr_is_fup_and_pgd(void **state)
{
    struct pt_rig *rig = *state;
    rig_start(rig, user, 3, 0x401000);
    rig_jcc(rig, 0x401000, 0x401010, false);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CTL, user & ~TRACE_EN), 0);
    rig_expect(rig, "tnt.8(N) fup(401002) tip.pgd()");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(enabling_in_the_kernel_makes_psb_plus_without_fup),
        T(return_to_user_code_is_mode_exec_and_pge),
        T(system_call_is_pgd_without_address),
        T(signal_is_fup_pgd_then_pge_at_the_handler),
        T(deferred_target_out_of_the_trace_needs_no_boundary),
        T(deferred_target_waits_for_the_boundary),
        T(matching_return_is_one_bit),
        T(psb_plus_comes_when_the_period_is_over),
        T(disabling_by_wrmsr_is_fup_and_pgd),
    };
    return cmocka_run_group_tests_name("a user program under PT", tests, NULL, NULL);
}
