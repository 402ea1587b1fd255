/* SPDX-License-Identifier: MIT
 * [PTREF 9.9], a row a test: where libipt and perf differ, what we do with what either of them writes or takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;

static const char *decode(const char *code, const char *trace)
{
    static char *kept;
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig_trace(&rig, trace);
    free(kept);
    kept = strdup(rig_run(&rig));
    rig_close(&rig);
    return kept;
}

/* libipt: byte 2 bit 3; SDM and perf: byte 2 bit 7. */
static void pwre_hw_is_the_manuals_bit(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 0f05", "H 02228020 02220820 06 01"),
        "[psb] [enabled >401000] [pwre a2 b0 c1] [pwre a2 b0 c0] 401000 401002 [disabled 401002]");
}

/* 401000 call 401008; 401005 jmp *rax; 401008 call 401010; 40100d jmp *rax; 401010 ret */
#define CALLS "e803000000 ffe0 90 e803000000 ffe0 90 c3"

/* libipt leaves the address on its stack: its next compressed RET would go behind the inner CALL. */
static void an_uncompressed_ret_takes_its_address_off_the_stack(void **state)
{
    (void)state;
    assert_string_equal(decode(CALLS, "H 2d1010 06 01"), /* RET with a TIP, to itself; then a compressed one */
        "[psb] [enabled >401000] 401000 401008 401010 401010 401005 [disabled 401005]");
}

/* perf puts far CALLs on its stack, and takes one off at far RETs. */
static void far_calls_and_returns_leave_the_stack_alone(void **state)
{
    (void)state;
    /* 401000 call 401008; 401005 jmp *rax; 401008 call far [rax]; 40100a ret; 40100b retf */
    const char *code = "e803000000 ffe0 90 ff18 c3 cb";
    assert_string_equal(decode(code, "H 2d0a10 06 01"),
        "[psb] [enabled >401000] 401000 401008 40100a 401005 [disabled 401005]");
    assert_string_equal(decode(code, "H 2d0b10 2d0a10 06 01"),
        "[psb] [enabled >401000] 401000 401008 40100b 40100a 401005 [disabled 401005]");
}

/* libipt keeps its stack: what a unit that does so too writes behind a PSB is a gap here, never a guess. */
static void a_return_over_a_psb_is_not_guessed(void **state)
{
    (void)state;
    assert_string_equal(decode(CALLS, "H P 9901 7d1010400000 00 0223 06 6d0510400000 00 01"),
        "[psb] [enabled >401000] 401000 401008 [psb 401010] 401010 [gap BAD_RETC] 401005 [disabled 401005]");
}

/* perf keeps it: an address of two bytes is then one near the last one. Ours is of the first 64 KiB: nothing there. */
static void last_ip_is_zero_behind_an_overflow(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 7500 0f05", "H 06 02f3 5d02104000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] 401002 401004 [disabled 401004]");
    assert_string_equal(decode("7500 7500 0f05", "H 06 02f3 3d0210 04 6d041040000000 01"),
        "[psb] [enabled >401000] 401000 [overflow >1002] [gap 1002 NO_CODE] 401004 [disabled 401004]");
}

static void a_long_tnt_without_outcomes_says_nothing(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 0f05", "H 02a3010000000000 06 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002]");
}

/* libipt goes on with an unknown mode, perf ends with an error: the address behind it is not decoded in a guessed one. */
static void mode_exec_of_both_sizes_is_a_gap(void **state)
{
    (void)state;
    assert_string_equal(decode("ffe0 7500 0f05", "H 9903 2d0210 06 P 0223 9901 71021040000000 06 01"),
        "[psb] [enabled >401000] [gap 401000 BAD_PACKET] [psb] [enabled >401002] 401002 401004 [disabled 401004]");
}

/* libipt: five bits; perf, and the reserved types: six. */
static void the_type_of_an_evd_has_six_bits(void **state)
{
    (void)state;
    assert_non_null(strstr(decode("9090 0f05", "H 02533f 8877665544332211 0213010e 3d0110 2d0010 3d0110 01"),
        "[evd 401001 a3f b0 c0 v1122334455667788] [cfe 401001 a1 be c0] [async 401001 >401000]"));
}

static void blocks_of_pebs_are_shown(void **state)
{
    (void)state;
    assert_string_equal(decode("9090 0f05", "H 026304 041122334455667788 0c1122334455667788 02b3 3d0110 01"),
        "[psb] [enabled >401000] [bbp a4 b0 c0] [bip v8877665544332211] [bip a1 b0 c0 v8877665544332211] 401000 "
        "[bep 401001] 401001 401002 [disabled 401002]");
}

static void triggers_are_shown(void **state)
{
    (void)state;
    assert_string_equal(decode("9090 0f05", "H d940010300 d9c0010000 3d0110 d9000f d960010500 01"),
        "[psb] [enabled >401000] [trig a1 b1 c0 v3] 401000 [trig 401001 a1 b1 c0] [trig af b0 c0] [trig a1 b1 c1 v5] "
        "401001 401002 [disabled 401002]");
}

/* libipt shows a TRIG at the instruction that its ICNT leads to, counted from the last FUP, TIP, outcome or TRIG. 401000 nop; 401001 jmp 401004;
 * 401004 nop; 401005 jnz 401005; 401007 ptwrite eax; 40100b nop; 40100c syscall */
static void a_trigger_is_where_its_count_leads(void **state)
{
    (void)state;
    const char *code = "90 eb01 90 90 75fe f30faee0 90 0f05";
    assert_string_equal(decode(code, "H d940010300 04 d940020000 021278563412 d940030200 d940040000 3d0c10 01"),
        "[psb] [enabled >401000] 401000 401001 401004 [trig 401005 a1 b1 c0 v3] 401005 [trig 401007 a2 b1 c0] 401007 "
        "[ptwrite 401007 a4 b0 c0 v12345678] 40100b [trig 40100c a3 b1 c0 v2] [trig 40100c a4 b1 c0] [async-disabled 40100c]");
    /* from the FUPs of a PSB+ and of an EXSTOP, and from an interrupt's TIP; without a count, while tracing is off */
    assert_string_equal(decode(code, "P 9901 7d0010400000 00 0223 d940010000 d940020100 02e2 3d0410 d940030000 3d0410 2d0b10 d940040100 3d0c10 01 d9000f"),
        "[psb 401000] [enabled >401000] [trig 401000 a1 b1 c0] 401000 [trig 401001 a2 b1 c0 v1] 401001 [exstop 401004] "
        "[trig 401004 a3 b1 c0] [async 401004 >40100b] 40100b [trig 40100c a4 b1 c0 v1] [async-disabled 40100c] [trig af b0 c0]");
}

/* Behind a branch whose outcome has not come; behind that TRIG; and where a PTWRITE is further already. */
static void a_trigger_beyond_what_is_known_is_shown_without_a_place(void **state)
{
    (void)state;
    const char *code = "90 90 7500 f30faee0 90 0f05";
    assert_string_equal(decode(code, "H d940010300 d940020000 06 021278563412 d940030000 3d0810 2d0810 d940040100 3d0910 01"),
        "[psb] [enabled >401000] [trig a1 b1 c0 v3] [trig a2 b1 c0] 401000 401001 401002 401004 [ptwrite 401004 a4 b0 c0 v12345678] "
        "[trig a3 b1 c0] [async 401008 >401008] 401008 [trig 401009 a4 b1 c0 v1] [async-disabled 401009]");
}

static void event_trace_is_shown(void **state)
{
    (void)state;
    assert_string_equal(decode("9090 0f05", "H 025300 00f0ad0b00000000 0213010e 3d0110 2d0010 02138200 3d0010 01"),
        "[psb] [enabled >401000] 401000 [evd 401001 vbadf000] [cfe 401001 a1 be c0] [async 401001 >401000] "
        "[cfe 401000 a2 b0 c1] 401000 401001 401002 [disabled 401002]");
}

/* libipt: the payload shifted; perf: the payload. */
static void a_vmcs_address_has_its_lower_twelve_bits(void **state)
{
    (void)state;
    assert_string_equal(decode("90 0fc730 7500 0f05", "H 02c85634120000 06 01"),
        "[psb] [enabled >401000] 401000 401001 [vmcs 401001 v123456000] 401004 401006 [disabled 401006]");
}

/* libipt ends with bad_status_update, perf reports an error. */
static void an_overflow_a_psb_with_its_address_and_a_fup(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 7500 0f05", "H 06 02f3 P 9901 7d0210400000 00 0223 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 401004 [disabled 401004]");
    /* and the FUP of the overflow behind the PSB+; with a TIP behind it an asynchronous event's, for all that is known */
    assert_string_equal(decode("7500 7500 0f05", "H 06 02f3 P 9901 7d0210400000 00 0223 7d0210400000 00 2d0410 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] [async 401002 >401004] 401004 [disabled 401004]");
}

/* libipt: an error but for processors with BDM70; perf takes it. */
static void a_psb_with_an_address_before_the_enable(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 0f05", "P 9901 7d0010400000 00 0223 9901 710010400000 00 06 01"),
        "[psb 401000] [enabled >401000] 401000 401002 [disabled 401002]");
}

/* libipt: bad context; perf takes what follows. So begin the pieces of Xen's traces of guests. */
static void a_psb_without_its_end_ends_at_the_enable(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 0f05", "P 9901 00 710010400000 00 06 01 P 9901 7d0010400000 00 710010400000 00 06 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [psb 401000] [enabled 401002 >401000] 401000 401002 [disabled 401002]");
    assert_string_equal(decode("7500 0f05", "P 9901 dd0010400000000000 00 310210 01"),
        "[psb 401000] [enabled >401002] 401002 [disabled 401002]");
    const char *short_address = decode("7500 0f05", "P 9901 310010 06 01 P 0223 9901 710010400000 00 06 01");
    assert_string_equal(short_address, "[gap BAD_PACKET] [disabled] [psb] [enabled >401000] 401000 401002 [disabled 401002]");
}

/* perf needs the filter's text. 401000 jnz 401005; 401002 jnz 401022; 401005 jmp 401022; 401008 jmp *rax */
static void a_filters_region_is_left_without_being_told_of_it(void **state)
{
    (void)state;
    assert_string_equal(decode("7503 751e 90 eb1b 90 ffe0", "H 04 01 310510 212210 310810 213010"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [enabled 401002 >401005] 401005 "
        "[disabled 401005 >401022] [enabled 401005 >401008] 401008 [disabled 401008 >401030]");
}

static void padding_may_stand_between_all_packets(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 ffe0 0f05",
        "00 P 00 0223 000000 9901 00000000000000000000 71001040000000 00 06 00 2d0410 00 01 00"),
        "[gap NO_SYNC] [psb] [enabled >401000] 401000 401002 401004 [disabled 401004]");
}

/* libipt: as long as the shift is at most 64; perf: ten bytes. */
static void a_cycle_count_of_ten_bytes_is_one_packet(void **state)
{
    (void)state;
    assert_string_equal(decode("7500 0f05", "H ff ff ff ff ff ff ff ff ff 02 06 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002]");
    assert_non_null(strstr(decode("7500 0f05", "H ff ff ff ff ff ff ff ff ff ff ff ff 02 06 01"), "BAD_PACKET"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pwre_hw_is_the_manuals_bit),
        cmocka_unit_test(an_uncompressed_ret_takes_its_address_off_the_stack),
        cmocka_unit_test(far_calls_and_returns_leave_the_stack_alone),
        cmocka_unit_test(a_return_over_a_psb_is_not_guessed),
        cmocka_unit_test(last_ip_is_zero_behind_an_overflow),
        cmocka_unit_test(a_long_tnt_without_outcomes_says_nothing),
        cmocka_unit_test(mode_exec_of_both_sizes_is_a_gap),
        cmocka_unit_test(the_type_of_an_evd_has_six_bits),
        cmocka_unit_test(blocks_of_pebs_are_shown),
        cmocka_unit_test(triggers_are_shown),
        cmocka_unit_test(a_trigger_is_where_its_count_leads),
        cmocka_unit_test(a_trigger_beyond_what_is_known_is_shown_without_a_place),
        cmocka_unit_test(event_trace_is_shown),
        cmocka_unit_test(a_vmcs_address_has_its_lower_twelve_bits),
        cmocka_unit_test(an_overflow_a_psb_with_its_address_and_a_fup),
        cmocka_unit_test(a_psb_with_an_address_before_the_enable),
        cmocka_unit_test(a_psb_without_its_end_ends_at_the_enable),
        cmocka_unit_test(a_filters_region_is_left_without_being_told_of_it),
        cmocka_unit_test(padding_may_stand_between_all_packets),
        cmocka_unit_test(a_cycle_count_of_ten_bytes_is_one_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
