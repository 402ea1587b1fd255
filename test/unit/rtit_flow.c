/* SPDX-License-Identifier: MIT
 * RTIT: what each kind of instruction and event makes [RTIT 2.2, RTIT 4.3]. */
#include "unit/rtit_rig.h"

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_open(&rig, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* [RTIT Table 3, RTIT 2.5.1]. Step 2 stands at 100 in the table though step 1 jumps to 102. */
static void table_3_comes_out_packet_by_packet(void **state)
{
    (void)state;
    rig_field(&rig, "filter_event_id", 0);
    rig_field(&rig, "tracestop_event_id", 6);
    rig_field(&rig, "lip0", 0x100);
    rig_field(&rig, "lip2", 0x110);
    rig_write(&rig, MSR_CTL, 1 | 1 << 2 | 1 << 3);
    rig_field(&rig, "trace_active", 1);
    assert_packets(&rig, "psb");
    branch(&rig, COFI_EV_JMP, 0x20, 0x23, 0x102);
    assert_packets(&rig, "pge 102");
    insn(&rig, 0x100, 0x102);
    assert_packets(&rig, "");
    far_to(&rig, COFI_EV_FAR, COFI_FAR_JMP, 0x102, 0x105, 0x983, 3);
    assert_packets(&rig, "pgd 105; tip 983");
    far_to(&rig, COFI_EV_FAR, COFI_FAR_JMP, 0x983, 0x985, 0x10e, 3);
    assert_packets(&rig, "pge 10e");
    far_to(&rig, COFI_EV_EVENT, COFI_CAUSE_FAULT, 0x10e, 0, 0x345, 0);
    assert_packets(&rig, "pgd 10e; tip 345");
    insn(&rig, 0x345, 0x348);
    insn(&rig, 0x348, 0x34c);
    insn(&rig, 0x34c, 0x350);
    insn(&rig, 0x350, 0x353);
    far_to(&rig, COFI_EV_FAR, COFI_FAR_IRET, 0x353, 0x357, 0x113, 3);
    assert_packets(&rig, "");
}

/* [RTIT Figure 6] */
static void figure_6_a_return_to_the_last_call_is_one_taken_bit(void **state)
{
    (void)state;
    rig_start(&rig, 1 << 11);
    branch(&rig, COFI_EV_CALL, 0x5, 0xa, 0x400);
    insn(&rig, 0x400, 0x40c);
    branch(&rig, COFI_EV_RET, 0x40c, 0x40d, 0xa);
    assert_packets(&rig, "");
    assert_int_equal(rig_read(&rig, MSR_TNT_BUFF), 3);
    branch(&rig, COFI_EV_JMP_IND, 0xa, 0xc, 0x700);
    assert_packets(&rig, "tnt T; tip 700");
}

/* [RTIT Figure 7] */
static void figure_7_only_the_innermost_return_is_compressed(void **state)
{
    (void)state;
    rig_start(&rig, 1 << 11);
    branch(&rig, COFI_EV_CALL, 0x5, 0xa, 0x400);
    branch(&rig, COFI_EV_CALL, 0x405, 0x409, 0x500);
    branch(&rig, COFI_EV_RET, 0x502, 0x503, 0x409);
    insn(&rig, 0x409, 0x40c);
    branch(&rig, COFI_EV_RET, 0x40c, 0x40d, 0xa);
    assert_packets(&rig, "tnt T; tip a");
}

/* [RTIT 3.3.9]: Pkt_Cnt goes from 0xffc to 0xE. */
static void a_psb_comes_between_the_packets_of_one_far_transfer(void **state)
{
    (void)state;
    rig_start(&rig, 0);
    rig_write(&rig, MSR_PKT_CNT, 0x10000 | 0xffc);
    far_to(&rig, COFI_EV_FAR, COFI_FAR_JMP, 0x123456780000, 0x123456780003, 0x12345678, 3);
    assert_packets(&rig, "far 123456780003; psb; tip 12345678");
    assert_int_equal(rig_read(&rig, MSR_PKT_CNT), 0x1000e);
}

static void user_only_tracing_ends_and_starts_at_system_calls(void **state)
{
    (void)state;
    rig_start(&rig, 0);
    rig_field(&rig, "os", 0);
    assert_packets(&rig, "");
    jcc(&rig, 0x401000, 0x401002, 0x401010, true);
    far_to(&rig, COFI_EV_FAR, COFI_FAR_SYSCALL, 0x401010, 0x401012, 0xffffffff81000000, 0);
    assert_packets(&rig, "tnt T; pgd 401012");
    jcc(&rig, 0xffffffff81000000, 0xffffffff81000002, 0xffffffff81000010, true);
    assert_packets(&rig, "");
    far_to(&rig, COFI_EV_FAR, COFI_FAR_SYSRET, 0xffffffff81000010, 0xffffffff81000012, 0x401012, 3);
    assert_packets(&rig, "pge 401012");
}

/* [RTIT 4.2.2] */
static void six_outcomes_make_a_full_tnt(void **state)
{
    (void)state;
    rig_start(&rig, 0);
    for (int i = 0; i < 7; i++)
        jcc(&rig, 0x1000, 0x1002, 0x1010, i % 3 == 0);
    assert_packets(&rig, "tnt TNNTNN");
    assert_int_equal(rig_read(&rig, MSR_TNT_BUFF), 3);
}

static void the_narrow_door_makes_the_same_bytes(void **state)
{
    (void)state;
    static struct rig other;
    rig_open(&other, NULL);
    rig_start(&rig, 0);
    rig_start(&other, 0);
    for (int i = 0; i < 64; i++)
        jcc(&rig, 0x1000, 0x1002, 0x1010, i * 7 % 5 < 2);
    branch(&rig, COFI_EV_JMP_IND, 0x1002, 0x1004, 0x123400000000);
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits = bits << 1 | (i * 7 % 5 < 2);
    assert_int_equal(cofi_unit_tnt(other.unit, bits, 64), 0);
    assert_int_equal(cofi_unit_tip(other.unit, 0x123400000000), 0);
    cofi_unit_drain(rig.unit);
    cofi_unit_drain(other.unit);
    assert_int_equal(rig.n, other.n);
    assert_memory_equal(rig.bytes, other.bytes, rig.n);
    rig_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(table_3_comes_out_packet_by_packet, setup, teardown),
        cmocka_unit_test_setup_teardown(figure_6_a_return_to_the_last_call_is_one_taken_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(figure_7_only_the_innermost_return_is_compressed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_psb_comes_between_the_packets_of_one_far_transfer, setup, teardown),
        cmocka_unit_test_setup_teardown(user_only_tracing_ends_and_starts_at_system_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(six_outcomes_make_a_full_tnt, setup, teardown),
        cmocka_unit_test_setup_teardown(the_narrow_door_makes_the_same_bytes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
