/* SPDX-License-Identifier: MIT
 * The adapter for hosts that see instructions only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/event.h>
#include <cofi/insn.h>

static const struct cofi_context user = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64}, kernel = {.vmcs = UINT64_MAX, .mode = 64};
static struct cofi_stepper stepper;
static char told[512];

static int setup(void **state)
{
    (void)state;
    cofi_stepper_init(&stepper, &user);
    told[0] = 0;
    return 0;
}

/* The instruction is about to run; what follows from it is added to told. */
static void at(uint64_t ip, const char *bytes, size_t n, const struct cofi_context *context)
{
    struct cofi_insn insn;
    struct cofi_event events[2];
    assert_int_equal(cofi_insn_decode(&insn, 64, ip, (const uint8_t *)bytes, n), n);
    int count = cofi_stepper_next(&stepper, ip, &insn, context, events);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(told);
        cofi_event_print(&events[i], &user, told + used, sizeof told - used - 1);
        strcat(told, "\n");
    }
}
#define AT(ip, bytes) at(ip, bytes, sizeof(bytes) - 1, NULL)

static void sequential_and_direct(void **state)
{
    (void)state;
    AT(0x1000, "\x90");
    AT(0x1001, "\xeb\x10");
    AT(0x1013, "\xe8\x00\x00\x00\x00");
    AT(0x1018, "\x90");
    assert_string_equal(told, "insn ip=1000 next=1001\njmp ip=1001 next=1003 target=1013\ncall ip=1013 next=1018 target=1018\n");
}

/* What a stepper tells, for an instruction alone. */
static void each_class_has_its_kind_of_event(void **state)
{
    (void)state;
    static const struct { enum cofi_class cls; enum cofi_event_kind kind; } rows[] = {
        {COFI_CLASS_OTHER, COFI_EV_INSN}, {COFI_CLASS_JCC, COFI_EV_JCC}, {COFI_CLASS_JMP, COFI_EV_JMP},
        {COFI_CLASS_CALL, COFI_EV_CALL}, {COFI_CLASS_JMP_IND, COFI_EV_JMP_IND},
        {COFI_CLASS_CALL_IND, COFI_EV_CALL_IND}, {COFI_CLASS_RET, COFI_EV_RET},
        {COFI_CLASS_FAR_JMP, COFI_EV_FAR}, {COFI_CLASS_FAR_CALL, COFI_EV_FAR},
        {COFI_CLASS_FAR_RET, COFI_EV_FAR}, {COFI_CLASS_VMENTRY, COFI_EV_FAR},
        {COFI_CLASS_MOV_CR3, COFI_EV_MOV_CR3}, {COFI_CLASS_PTWRITE, COFI_EV_INSN},
        {COFI_CLASS_VMPTRLD, COFI_EV_VMPTRLD}, {COFI_CLASS_TSX, COFI_EV_INSN},
    };
    assert_int_equal(sizeof rows / sizeof rows[0], COFI_CLASS_KINDS);
    for (size_t i = 0; i < COFI_CLASS_KINDS; i++)
        assert_int_equal(cofi_event_of_class(rows[i].cls), rows[i].kind);
}

/* [ERR E1] goes by it. */
static void a_far_transfer_carries_how_many_prefixes_it_has(void **state)
{
    (void)state;
    AT(0x1000, "\x26\x2e\x3e\x64\x48\xcf");
    AT(0x2000, "\x90");
    assert_string_equal(told, "far iret ip=1000 next=1006 target=2000 size=5\n");
}

static void conditional_both_ways(void **state)
{
    (void)state;
    AT(0x1000, "\x74\x10");
    AT(0x1012, "\x74\x10");
    AT(0x1014, "\x90");
    assert_string_equal(told, "jcc ip=1000 next=1002 target=1012 taken\njcc ip=1012 next=1014 target=1024\n");
}

static void indirect_goes_where_the_next_instruction_is(void **state)
{
    (void)state;
    AT(0x1000, "\xff\xd0");
    AT(0x5000, "\xc3");
    AT(0x1002, "\xff\xe0");
    AT(0x1000, "\x90");
    assert_string_equal(told, "call* ip=1000 next=1002 target=5000\nret ip=5000 next=5001 target=1002\njmp* ip=1002 next=1004 target=1000\n");
}

static void a_far_transfer_carries_the_new_state(void **state)
{
    (void)state;
    AT(0x1000, "\x0f\x05");
    at(0xffffffff81000000, "\x90", 1, &kernel);
    assert_string_equal(told, "far syscall ip=1000 next=1002 target=ffffffff81000000 : cpl=0\n");
}

static void where_an_instruction_does_not_lead_an_interrupt_went(void **state)
{
    (void)state;
    AT(0x1000, "\x90");
    at(0xffffffff81000000, "\x48\xcf", 2, &kernel);
    at(0x1001, "\x90", 1, &user);
    assert_string_equal(told, "insn ip=1000 next=1001\nevent intr ip=1001 target=ffffffff81000000 : cpl=0\n"
                              "far iret ip=ffffffff81000000 next=ffffffff81000002 target=1001 size=1 :\n");
}

static void a_string_instruction_is_one_however_often_it_is_seen(void **state)
{
    (void)state;
    AT(0x1000, "\xf3\xa4");
    AT(0x1000, "\xf3\xa4");
    AT(0x1000, "\xf3\xa4");
    AT(0x1002, "\x90");
    assert_string_equal(told, "insn ip=1000 next=1002\n");
}

static void a_loop_to_itself_is_no_string_instruction(void **state)
{
    (void)state;
    AT(0x1000, "\xe2\xfe");
    AT(0x1000, "\xe2\xfe");
    AT(0x1002, "\x90");
    assert_string_equal(told, "jcc ip=1000 next=1002 target=1000 taken\njcc ip=1000 next=1002 target=1000\n");
}

static void a_faulting_instruction_did_not_run(void **state)
{
    (void)state;
    struct cofi_event event;
    AT(0x1000, "\x90");
    AT(0x1001, "\x8b\x00");
    cofi_stepper_fault(&stepper, COFI_CAUSE_FAULT, 14, 0xffffffff81000000, &kernel, &event);
    assert_int_equal(event.ip, 0x1001);
    at(0xffffffff81000000, "\x90", 1, &kernel);
    assert_string_equal(told, "insn ip=1000 next=1001\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sequential_and_direct, setup),
        cmocka_unit_test(each_class_has_its_kind_of_event),
        cmocka_unit_test_setup(a_far_transfer_carries_how_many_prefixes_it_has, setup),
        cmocka_unit_test_setup(conditional_both_ways, setup),
        cmocka_unit_test_setup(indirect_goes_where_the_next_instruction_is, setup),
        cmocka_unit_test_setup(a_far_transfer_carries_the_new_state, setup),
        cmocka_unit_test_setup(where_an_instruction_does_not_lead_an_interrupt_went, setup),
        cmocka_unit_test_setup(a_string_instruction_is_one_however_often_it_is_seen, setup),
        cmocka_unit_test_setup(a_loop_to_itself_is_no_string_instruction, setup),
        cmocka_unit_test_setup(a_faulting_instruction_did_not_run, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
