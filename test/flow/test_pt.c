/* SPDX-License-Identifier: MIT
 * PT streams made by hand, with their code, and what they say ran [PTREF 12]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

/* [PTREF 12] item 16: mov; L: call 401018; dec; jnz L; lea; jmp *rax; 401018 nop; ret; 40101a mov …
 * 401021 syscall. */
#define CODE16                                                                                     \
    "b903000000 e80e000000 ffc9 75f7 488d0505000000 90 ffe0 90 c3 b83c000000 31ff 0f05"
/* 401000 b903000000 mov; 401005 call 401018; 40100a dec ecx; 40100c jnz 401005; 40100e lea; 401015 90;
 * 401016 jmp rax; 401018 nop; 401019 ret; 40101a mov; 40101f xor; 401021 syscall */
#define FLOW16                                                                                     \
    "401000 401005 401018 401019 40100a 40100c 401005 401018 401019 40100a 40100c 40100e 401015 "  \
    "401016 40101a 40101f 401021"

static struct rig rig;

/* What the rig shows, which is closed then; valid until the next one. */
static const char *shown(void)
{
    static char *kept;
    free(kept);
    kept = strdup(rig_run(&rig));
    rig_close(&rig);
    return kept;
}

static const char *decode(uint64_t addr, const char *code, const char *trace)
{
    rig_open(&rig, COFI_PT, addr, code);
    rig_trace(&rig, trace);
    return shown();
}

static void a_loop_with_compressed_returns(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, CODE16, "P 02031800 0223 9901 71001040000000 1e 04 2d1a10 01"),
        "[cbr a18 b0 c0] [psb] [enabled >401000] " FLOW16 " [disabled 401021]");
}

static void a_psb_in_mid_trace_is_walked_to(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, CODE16,
        "P 02031800 0223 9901 71001040000000 06 P 02031800 9901 7d0a1040000000 0223 0e 04 6d1a1040000000 01"),
        "[cbr a18 b0 c0] [psb] [enabled >401000] 401000 401005 401018 401019 [psb 40100a] 40100a 40100c 401005 "
        "401018 401019 40100a 40100c 40100e 401015 401016 40101a 40101f 401021 [disabled 401021]");
}

static void interrupts_bind_to_their_addresses(void **state)
{
    (void)state;
    /* nop; int 80h; iret at 7; ud2 at 4 … [PTREF 12] item 17 */
    assert_string_equal(decode(0x401000, "90 cd80 90 0f0b 90 48cf",
        "H 3d0110 2d0710 2d0310 3d0410 2d0710 2d0610 3d0610 01"),
        "[psb] [enabled >401000] 401000 [async 401001 >401007] 401007 401003 [async 401004 >401007] 401007 "
        "[async-disabled 401006]");
}

/* jnz N; jmp *rdx; N at …: [PTREF 7.3] immediate and deferred. */
#define DEFER_CODE "7502 ffe2 90 7502 ffe2 7502 9090 90 ffe2"

static void deferred_tips_give_the_same_list(void **state)
{
    (void)state;
    /* 401000 jnz 401004; 401002 jmp rdx; 401005 jnz 401009; 401007 jmp rdx; 401009 jnz 40100d;
     * 40100b nop nop; 40100d nop; 40100e jmp rdx */
    const char *want = "[psb] [enabled >401000] 401000 401002 401005 401007 401009 40100d 40100e 401000 401004 "
                       "401005 401009 40100b 40100c 40100d 40100e [disabled 40100e]";
    assert_string_equal(decode(0x401000, DEFER_CODE, "H 04 2d0510 04 2d0910 06 2d0010 1c 01"), want);
    assert_string_equal(decode(0x401000, DEFER_CODE, "H 9c 2d0510 2d0910 2d0010 01"), want);
}

static void the_filter_is_left_in_three_ways(void **state)
{
    (void)state;
    /* 401000 jnz +3 (401005); 401002 jnz 401022; 401004 nop; 401005 jmp 401022; 401007 nop;
     * 401008 jmp *rax [PTREF 12] item 19 */
    assert_string_equal(decode(0x401000, "7503 751e 90 eb1b 90 ffe0",
        "H 04 01 310510 212210 310810 213010"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [enabled 401002 >401005] 401005 "
        "[disabled 401005 >401022] [enabled 401005 >401008] 401008 [disabled 401008 >401030]");
}

static void overflow_resumes_at_its_fup(void **state)
{
    (void)state;
    /* 401000: jnz +0 ; 401002 …  */
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05",
        "H 06 02f3 7d041040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401004] 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05",
        "H 06 02f3 5955 9901 71041040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow] [enabled >401004] 401004 401006 [disabled 401006]");
}

/* 401000 nop; 401001 jnz: an address of two bytes fits no branch there, and is no place to go on at. Behind the overflow one is. */
static void an_overflow_ends_a_gap(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "90 7500 7500 0f05", "H 2d0310 02f3 7d031040000000 04 01"),
        "[psb] [enabled >401000] [gap 401000 MISMATCH] [overflow >401003] 401003 401005 [disabled 401005]");
}

/* The address before that it would rest on may be missing with the overflow's own FUP. */
static void a_short_address_behind_an_overflow_is_none(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 02f3 2d0210 6d041040000000 04 01"),
        "[psb] [enabled >401000] [overflow >401004] 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 02f3 6d041040000000 04 01"),
        "[psb] [enabled >401000] [overflow >401004] 401004 401006 [disabled 401006]");
}

/* Packets went off in it: what binds to an instruction does not bind to one before it. */
static void what_an_overflow_hides_is_not_invented(void **state)
{
    (void)state;
    /* 401002 nop; 401003 mov cr3, rax; 401006 nop; 401007 ptwrite eax; 40100b vmptrld [rax]; 40100e syscall */
    const char *code = "7500 90 0f22d8 90 f30faee0 0fc730 0f05";
    assert_string_equal(decode(0x401000, code, "H 06 02f3 0243000500000000 9901 710e1040000000 01"),
        "[psb] [enabled >401000] 401000 [paging v5000] [overflow] [enabled >40100e] 40100e [disabled 40100e]");
    assert_string_equal(decode(0x401000, code, "H 06 02f3 021278563412 9901 710e1040000000 01"),
        "[psb] [enabled >401000] 401000 [ptwrite a4 b0 c0 v12345678] [overflow] [enabled >40100e] 40100e [disabled 40100e]");
    assert_string_equal(decode(0x401000, code, "H 06 02f3 02c80100000000 02130200 9901 710e1040000000 01"),
        "[psb] [enabled >401000] 401000 [vmcs v1000] [cfe a2 b0 c0] [overflow] [mode 40100e a40 b0 c1] [enabled >40100e] 40100e [disabled 40100e]");
}

static void overflows_while_tracing_is_off_are_each_told(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "H 06 02f3 5955 02f3 5956 02f3 9901 71041040000000 01"),
        "[psb] [enabled >401000] 401000 [overflow] [overflow] [overflow] [enabled >401004] 401004 [disabled 401004]");
}

/* The mode changed while packets were lost. 401002: 64-bit code has jnz with a prefix there, 32-bit code inc eax, and jnz behind. */
static void a_mode_told_behind_an_overflow_holds_where_it_goes_on(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 407500 0f05", "H 06 02f3 9902 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [mode 401002 a20 b0 c0] 401002 401003 401005 [disabled 401005]");
    /* where the FUP is missing, too [ERR SKD010] */
    assert_string_equal(decode(0x401000, "7500 407500 0f05", "H 06 02f3 9902 6d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [mode 401002 a20 b0 c0] 401002 401003 401005 [disabled 401005]");
}

/* A MODE.Exec's FUP where execution is (EventEn) says that the code is of another mode from there on, as in the test before. */
static void a_mode_told_at_a_fup_holds_from_there_on(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 407500 0f05", "H 06 9902 7d021040000000 04 01"),
        "[psb] [enabled >401000] 401000 [mode 401002 a20 b0 c0] 401002 401003 401005 [disabled 401005]");
}

/* MODE.Exec was among what was lost: 32-bit code cannot be there. */
static void an_overflow_that_goes_on_above_4_gib_goes_on_in_64_bit_code(void **state)
{
    (void)state;
    assert_string_equal(decode(0xffffffff81000000, "7500 407500 0f05", "P 0223 9902 d10000008100000000 06 02f3 7d0200 0081ffff 04 01"),
        "[psb] [mode 81000000 a20 b0 c0] [enabled >81000000] [gap 81000000 NO_CODE] [overflow >ffffffff81000002] "
        "[mode ffffffff81000002 a40 b0 c0] ffffffff81000002 ffffffff81000005 [disabled ffffffff81000005]");
}

static const char *decode_with_offsets(uint64_t addr, const char *code, const char *trace)
{
    rig_open(&rig, COFI_PT, addr, code);
    rig.offsets = true;
    rig_trace(&rig, trace);
    return shown();
}

/* P takes 16 bytes, H 27. Of two packets that tell one thing, the first is its place. */
static void each_event_is_told_where_its_packet_is(void **state)
{
    (void)state;
    assert_string_equal(decode_with_offsets(0xffffffff81000000, "7500 407500 0f05", "P 0223 9902 d10000008100000000 06 02f3 7d0200 0081ffff 04 01"),
        "[psb@0] [mode@18 81000000 a20 b0 c0] [enabled@20 >81000000] [gap@20 81000000 NO_CODE] [overflow@30 >ffffffff81000002] [mode@32 ffffffff81000002 a40 b0 c0] ffffffff81000002 ffffffff81000005 [disabled@40 ffffffff81000005]");
    assert_string_equal(decode_with_offsets(0x401000, "7500 407500 0f05", "H 06 9902 7d021040000000 04 01"),
        "[psb@0] [enabled@20 >401000] 401000 [mode@28 401002 a20 b0 c0] 401002 401003 401005 [disabled@38 401005]");
    assert_string_equal(decode_with_offsets(0x401000, "7500 90 0f22d8 90 f30faee0 0fc730 0f05", "H 06 0243000500000000 02c80100000000 021278563412 2d0e10 01"),
        "[psb@0] [enabled@20 >401000] 401000 401002 401003 [paging@28 401003 v5000] 401006 401007 40100b [vmcs@36 40100b v1000] [ptwrite@43 a4 b0 c0 v12345678] 40100e 40100e [disabled@52 40100e]");
    assert_string_equal(decode_with_offsets(0x401000, "90 cd80 90 0f0b 90 48cf", "H 3d0110 2d0710 2d0310 3d0410 2d0710 2d0610 3d0610 01"),
        "[psb@0] [enabled@20 >401000] 401000 [async@27 401001 >401007] 401007 401003 [async@36 401004 >401007] 401007 [async-disabled@48 401006]");
    assert_string_equal(decode_with_offsets(0x401000, "7500 7500 0f05", "H 06 02f3 02f3 9929 7d021040000000 04 02130200 3d0410 2d0010 01"),
        "[psb@0] [enabled@20 >401000] 401000 [overflow@28] [tsx@32 a1 b0 c0] [overflow@30 >401002] 401002 [cfe@42 401004 a2 b0 c0] [async@46 401004 >401000] 401000 [disabled@52 401000]");
}

/* EventEn: MODE.Exec with a FUP tells a new RFLAGS.IF, here where packets are off. */
static void a_new_interrupt_flag_behind_an_overflow_is_not_where_it_goes_on(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "7500 7500 0f05");
    rig.config.ctl_known = true;
    rig.config.ctl = UINT64_C(1) << 31;
    rig_trace(&rig, "H 06 02f3 9905 7d002040000000 9901 71041040000000 01");
    assert_string_equal(rig_run(&rig), "[psb] [mode 401000 a40 b0 c1] [enabled >401000] 401000 [overflow] [mode 402000 a40 b1 c1] "
        "[mode 401004 a40 b0 c1] [enabled >401004] 401004 [disabled 401004]");
    rig_close(&rig);
}

/* Where nothing has told EventEn, it passes for one, but no longer than up to the CFE that shows it. */
static void a_cfe_shows_that_packets_are_off_behind_an_overflow(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "H 06 02f3 9901 7d041040000000 02138d00 3d0010 9905 3d0210 9901 310410 01"),
        "[psb] [enabled >401000] 401000 [overflow >401004] [cfe 401000 ad b0 c1] [mode 401002 a40 b1 c1] [mode 401004 a40 b0 c1] [enabled >401004] "
        "401004 [disabled 401004]");
}

/* EventEn is known to be off: it is where it goes on. */
static void without_event_trace_a_fup_behind_a_mode_is_the_overflows(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "7500 7500 0f05");
    rig.config.ctl_known = true;
    rig_trace(&rig, "H 06 02f3 9901 7d021040000000 71041040000000 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [overflow >401002] [gap 401002 MISMATCH] [enabled >401004] 401004 [disabled 401004]");
    rig_close(&rig);
}

/* With DisTNT a TIP may be that of what lies behind the conditional branch. */
static void without_tnt_a_tip_behind_a_doubtful_fup_is_a_gap(void **state)
{
    static const char *const expected[] = {
        "[psb] [enabled >401000] 401000 [overflow >401000] [psb 401000] [async 401000 >401004] 401004 [disabled 401004]",
        "[psb] [enabled >401000] 401000 [overflow >401000] [psb 401000] [gap 401000 MISMATCH] 401004 [disabled 401004]"};
    (void)state;
    for (unsigned dis_tnt = 0; dis_tnt < 2; dis_tnt++) {
        rig_open(&rig, COFI_PT, 0x401000, "7500 ffe0 0f05");
        rig.config.ctl_known = true;
        rig.config.ctl = (uint64_t)dis_tnt << 55;
        rig_trace(&rig, "H 06 02f3 P 9901 7d001040000000 0223 7d001040000000 2d0410 01");
        assert_string_equal(rig_run(&rig), expected[dis_tnt]);
        rig_close(&rig);
    }
}

/* The call at 401000 came before: no RET is compressed by it, and such an outcome is wrong. */
static void an_overflow_forgets_calls(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "e801000000 90 c3 0f05", "H 02e2 3d0610 02f3 7d061040000000 06 2d0710 01"),
        "[psb] [enabled >401000] 401000 [exstop 401006] [overflow >401006] 401006 [gap BAD_RETC] [disabled]");
}

/* An EVD may be a PIP with a wrong bit; two are none. */
static void two_evds_show_event_trace(void **state)
{
    (void)state;
    const char *one = "H 0253000000000000000000 02f3 9901 7d041040000000 04 01";
    const char *two = "H 0253000000000000000000 0253000000000000000000 02f3 9901 7d041040000000 71041040000000 04 01";
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", one),
        "[psb] [enabled >401000] [evd] [overflow >401004] 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", two),
        "[psb] [enabled >401000] [evd] [evd] [overflow] [mode 401004 a40 b0 c1] [enabled >401004] 401004 401006 [disabled 401006]");
}

/* A wrong bit made it of a CBR: there is no such type. What that says of a type that there is holds until packets are on where it says that they are off. */
static void a_cfe_that_is_none_shows_nothing_of_event_trace(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "H 02131900 02f3 9901 7d021040000000 04 01"),
        "[psb] [enabled >401000] [cfe a19 b0 c0] [overflow >401002] 401002 401004 [disabled 401004]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05",
        "H 02130a00 P 9901 7d001040000000 0223 02f3 9901 7d001040000000 04 2d0210 02f3 9901 7d041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [mode 401000 a40 b0 c1] [psb 401000] [overflow] [mode 401000 a40 b0 c1] [gap MISMATCH] [overflow >401004] 401004 "
        "401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05",
        "H 02130a00 2d0210 P 9901 7d001040000000 0223 02f3 9901 7d041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [gap 401000 MISMATCH] [psb 401000] [enabled >401000] [overflow >401004] 401004 401006 [disabled 401006]");
    /* Behind a PSB it is taken for sure. */
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05",
        "H 02130a00 P 9901 7d001040000000 0223 2d0210 02f3 9901 7d041040000000 71041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [mode 401000 a40 b0 c1] [psb 401000] [gap 401000 MISMATCH] [overflow] [mode 401004 a40 b0 c1] "
        "[enabled >401004] 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "0f05 7500 7500 0f05",
        "H 02130a00 P 9901 7d001040000000 0223 01 2d0210 02f3 9901 7d041040000000 71041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [mode 401000 a40 b0 c1] [psb 401000] 401000 [disabled 401000] [gap MISMATCH] [overflow] "
        "[mode 401004 a40 b0 c1] [enabled 401000 >401004] 401004 401006 [disabled 401006]");
    /* Where packets are wrong already, two are believed. */
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 2d0210 02130a00 02f3 9901 7d041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [gap 401000 MISMATCH] [overflow >401004] 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 2d0210 02130a00 02130a00 02f3 9901 7d041040000000 71041040000000 04 01"),
        "[psb] [enabled >401000] [cfe aa b0 c0] [cfe aa b0 c0] [gap 401000 MISMATCH] [overflow] [mode 401004 a40 b0 c1] [enabled >401004] 401004 401006 [disabled 401006]");
}

/* A PSB+ that comes with TIP.PGE already has its address [ERR BDM70]; the TIP.PGD before it is what went wrong. */
static void an_early_fup_of_a_psb_behind_what_is_wrong_is_no_other_gap(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "ffe0 ffe0 7500 0f05", "H 00 P 9901 7d041040000000 0223 9901 71041040000000 04 01"),
        "[psb] [enabled >401000] [gap 401000 MISMATCH] [psb 401004] [enabled >401004] 401004 401006 [disabled 401006]");
}

/* Packets were on at 401004 and went off in the overflow: where tracing was disabled last is not 401002. */
static void where_it_went_off_in_an_overflow_is_not_told(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "H 06 01 310410 02f3 71021040000000 04 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [enabled 401002 >401004] [overflow] [enabled >401002] 401002 401004 "
        "[disabled 401004]");
}

/* 401000 nop; 401001 nop; the way from the overflow's address to that of the next PSB+ is no gap and is not passed over. */
static void the_first_psb_may_be_ended_by_an_overflow(void **state)
{
    (void)state;
    const char *rest = "401000 401001 [psb 401002] 401002 401004 [disabled 401004]";
    char want[200];
    snprintf(want, sizeof want, "[overflow >401000] %s", rest);
    assert_string_equal(decode(0x401000, "9090 7500 0f05", "P 02f3 7d001040000000 P 9901 7d021040000000 0223 04 01"), want);
    snprintf(want, sizeof want, "[overflow] [enabled >401000] %s", rest);
    assert_string_equal(decode(0x401000, "9090 7500 0f05", "P 02f3 9901 71001040000000 P 9901 7d021040000000 0223 04 01"), want);
}

/* The overflow's own FUP is missing [ERR SKD010], so that the PSB+ ends it; CR3 is what it was. */
static void a_psb_that_ends_an_overflow_tells_nothing_that_is_known(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05",
        "P 0243000500000000 0223 9901 71001040000000 06 02f3 P 0243000500000000 9901 7d021040000000 0223 04 01"),
        "[paging v5000] [psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 401004 [disabled 401004]");
}

/* The manual of 2016 lets a PSB+ come between OVF and its FUP [SDM Overflow (OVF) Packet]. An interrupt's FUP has a TIP behind it. */
static void a_psb_between_overflow_and_its_fup(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 06 02f3 P 9901 7d021040000000 0223 7d021040000000 06 04 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 401004 401006 [disabled 401006]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 06 02f3 P 9901 7d021040000000 0223 06 3d0210 2d0410"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] 401002 [gap 401004 MISMATCH] [async 401002 >401004]");
    assert_string_equal(decode(0x401000, "7500 7500 7500 0f05", "H 06 02f3 P 9901 7d021040000000 0223 7d021040000000 3d0210 2d0410 06 01"),
        "[psb] [enabled >401000] 401000 [overflow >401002] [psb 401002] [async 401002 >401004] 401004 401006 [disabled 401006]");
}

/* The PSB+ was the first one's; the second has a FUP of its own, so that the third is an interrupt's. */
static void a_psb_between_two_overflows_tells_nothing_of_the_second_ones_fup(void **state)
{
    (void)state;
    for (unsigned family = 0; family <= 6; family += 6) {
        rig_open(&rig, COFI_PT, 0x401000, "7500 7500 90 90 7500 0f05");
        rig.config.family = family;
        rig.config.model = 0x3d;
        rig_trace(&rig, "H 06 02f3 P 9901 7d051040000000 0223 02f3 7d041040000000 3d0510 2d0210 06 04 01");
        assert_string_equal(rig_run(&rig), "[psb] [enabled >401000] 401000 [overflow >401005] [psb 401005] [overflow >401004] 401004 "
            "[async 401005 >401002] 401002 401004 401005 401006 401008 [disabled 401008]");
        rig_close(&rig);
    }
}

/* [PTREF 12.23]: an overflow inside a PSB+ ends that; and OVF, FUP, then a PSB+ at the same address. */
static void overflow_inside_a_psb_resumes_at_its_fup(void **state)
{
    const char *want = " [overflow >40100e] 40100e 401015 401016 40101a 40101f 401021 [disabled 401021]";
    (void)state;
    const char *inside = decode(0x401000, CODE16,
        "H 06 P 02031800 02f3 7d0e1040000000 2d1a10 01");
    assert_non_null(strstr(inside, want));
    assert_non_null(strstr(inside, "[enabled >401000] 401000 401005 401018 401019 "));
    const char *behind = decode(0x401000, CODE16,
        "H 06 02f3 7d0e1040000000 P 02031800 9901 7d0e1040000000 0223 2d1a10 01");
    assert_non_null(strstr(behind, "[overflow >40100e] "));
    assert_non_null(strstr(behind, "[psb 40100e] 40100e 401015 401016 40101a 40101f 401021 [disabled 401021]"));
    assert_null(strstr(behind, "gap"));
}

/* The rig's trace, to be looked at closely. */
static struct cofi_flow *open_flow(void)
{
    struct cofi_flow *flow;
    rig.config.image = rig.image;
    rig.config.bytes = rig.trace;
    rig.config.n = rig.n;
    assert_int_equal(cofi_flow_open(&flow, &rig.config), 0);
    return flow;
}

/* The times that blocks have, as a list without repetition; ~: estimated. */
static const char *times_with(bool mtc, const char *code, const char *trace)
{
    static char text[512];
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_stamp stamps[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event some[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .times = stamps, .events = some, .events_max = 16};
    struct cofi_flow *flow;
    uint64_t last = 0;
    size_t n = 0;
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig_trace(&rig, trace);
    struct cofi_flow_config config = rig.config;
    config.image = rig.image;
    config.bytes = rig.trace;
    config.n = rig.n;
    config.want_time = true;
    config.time = (struct cofi_time_info){.tsc = true, .mtc = mtc, .mtc_freq = 3, .tsc_num = 168, .tsc_den = 2, .nominal_ratio = 24};
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    text[0] = 0;
    while (cofi_flow_next(flow, &batch) > 0)
        for (size_t i = 0; i < batch.blocks_n; last = stamps[i++].ticks)
            if (stamps[i].ticks != last)
                n += (size_t)snprintf(text + n, sizeof text - n, stamps[i].interpolated ? " ~%lu" : " %lu", (unsigned long)stamps[i].ticks);
    cofi_flow_close(flow);
    rig_close(&rig);
    return text;
}

static const char *times(const char *code, const char *trace) { return times_with(true, code, trace); }

/* [PTREF 12.15; PTREF 8.3]: MTC 47, 48 and 4a after a TMA of CTC 1234, FC 64 at TSC 1001000; one MTC is lost. */
static void example_15_has_the_times_of_both_public_decoders(void **state)
{
    (void)state;
    assert_string_equal(times(CODE16, "P 19 28460f00000000 0273 3412 00 6400 02031800 0223 9901 71001040000000"
                                      " 5947 06 5948 06 594a 06 04 2d1a10 01"),
                        " 1001236 1001908 1003252");
}

/* [ERR SKL168]: CYC and MTC are lost before a PSB. The interval between the MTCs around it (672 ticks, 100 cycles that
 * are left) does not tell what a cycle is worth: the 200 behind the second MTC are what CBR says, one tick each. */
static void skl168_cycles_lost_before_a_psb_calibrate_nothing(void **state)
{
    (void)state;
    assert_string_equal(times("7500 7500 0f05", "P 19 00001000000000 0273 0000 00 0000 02031800 0223 9901 71001040000000"
        " 5901 06 P 19 b0041000000000 0273 0e00 00 1800 9901 7d021040000000 0223 2706 5902 470c 06 01"),
        " 1049248 ~1050120");
}

/* So are those of an overflow between two MTCs. */
static void cycles_lost_in_an_overflow_calibrate_nothing(void **state)
{
    (void)state;
    assert_string_equal(times("7500 7500 0f05", "P 19 00001000000000 0273 0000 00 0000 02031800 0223 9901 71001040000000"
        " 5901 06 02f3 7d021040000000 2706 5902 470c 06 01"),
                        " 1049248 ~1050120");
}

/* Without MTCs, a tick a cycle: 20, 200, 74565 and 5000000 of them. Also where nothing follows, which the hot loop leaves to the codec. */
static void long_cycle_counts_are_read_whole(void **state)
{
    (void)state;
    static const char *const cycs[] = {"a3", "470c", "2f3524", "07b58912"};
    static const unsigned cycles[] = {20, 200, 74565, 5000000};
    for (size_t i = 0; i < 2 * sizeof cycs / sizeof *cycs; i++) {
        char trace[200], expected[40];
        snprintf(trace, sizeof trace, "P 19 00001000000000 0273 0000 00 0000 02031800 0223 9901 71001040000000 06 %s 06 01 %.*s", cycs[i / 2],
                 i % 2 ? 60 : 0, "000000000000000000000000000000000000000000000000000000000000");
        snprintf(expected, sizeof expected, " 1048576 ~%u", 1048576 + cycles[i / 2]);
        assert_string_equal(times_with(false, "7500 7500 0f05", trace), expected);
    }
}

/* The guest's TSC begins at 0 when it is made. 401000 vmlaunch; 401003 nop; 401004 jmp *rax; host: 2^40, guest: 1000, 1800;
 * in a PSB+, where NR comes behind the TSC: 2000. */
static void a_guests_tsc_is_not_the_time(void **state)
{
    (void)state;
    assert_string_equal(times("0f01c2 90 ffe0", "P 19 00000000000100 0223 9901 71001040000000 0243010100000000 2d0310"
        " 19 00100000000000 2d0310 19 00180000000000 2d0310"
        " P 19 00200000000000 0243010100000000 9901 7d031040000000 0223 6d031040000000 2d0310"),
        " 1099511627776 1099511629824 1099511631872");
    /* Decoding begins in the guest: the packet in the PSB+ tells no time that is known; the next is that of the host. */
    assert_string_equal(times("90 ffe0 90 ffe0",
        "P 19 00000000000100 0223 P 19 00200000000000 0243010100000000 9901 7d001040000000 0223 6d031040000000"
        " 19 00280000000000 2d0310"),
        " 1099511627776 1099511629824");
}

static void transactions_begin_commit_and_abort(void **state)
{
    (void)state;
    /* nop*5; xbegin at 5 … simplified: nops, FUPs at 401002, 401004, 401006, abort at 401008 -> 401000 */
    assert_string_equal(decode(0x401000, "90909090909090909090 0f05",
        "H 9921 3d0210 9920 3d0410 9921 3d0610 9922 3d0810 2d0010 01"),
        "[psb] [enabled >401000] 401000 401001 [tsx 401002 a1 b0 c0] 401002 401003 [tsx 401004] 401004 401005 "
        "[tsx 401006 a1 b0 c0] 401006 401007 [async 401008 >401000] [tsx 401000 a0 b1 c0] 401000 401001 401002 401003 "
        "401004 401005 401006 401007 401008 401009 40100a [disabled 40100a]");
}

/* In a PSB+ MODE.TSX tells what is; it is shown where that is another thing than what was shown last. */
static void a_psb_tells_of_a_transaction_what_is_not_known(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "90909090 0f05",
        "H 9921 3d0110 P 9921 9901 7d021040000000 0223 9920 3d0310 P 9920 9901 7d031040000000 0223 01"),
        "[psb] [enabled >401000] 401000 [tsx 401001 a1 b0 c0] 401001 [psb 401002] 401002 [tsx 401003] [psb 401003] 401003 401004 "
        "[disabled 401004]");
    assert_string_equal(decode(0x401000, "90909090 0f05", "H 9921 3d0110 02f3 7d021040000000 P 9920 9901 7d021040000000 0223 01"),
        "[psb] [enabled >401000] 401000 [tsx 401001 a1 b0 c0] [overflow >401002] [tsx 401002] [psb 401002] 401002 401003 401004 "
        "[disabled 401004]");
}

static void ptwrite_with_and_without_an_address(void **state)
{
    (void)state;
    /* nop; ptwrite eax; nop; ptwrite rax; syscall */
    assert_string_equal(decode(0x401000, "90 f30faee0 90 f3480faee0 0f05",
        "H 021278563412 02b2efcdab8967452301 3d0610 01"),
        "[psb] [enabled >401000] 401000 401001 [ptwrite 401001 a4 b0 c0 v12345678] 401005 "
        "[ptwrite 401006 a8 b0 c0 v123456789abcdef] 401006 40100b [disabled 40100b]");
}

static void power_events_share_a_fup(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "9090 0f05",
        "H 02c26000000001000000 02228020 02e2 3d0110 02a22201000000 01"),
        "[psb] [enabled >401000] 401000 [mwait 401001 a60 b1 c0] [pwre 401001 a2 b0 c1] [exstop 401001] "
        "[pwrx a2 b2 c1] 401001 401002 [disabled 401002]");
}

/* HLT, or the processor itself: no MWAIT comes before. It fell asleep at 401001, and not before 401000 ran. */
static void a_c_state_is_entered_where_its_exstop_is(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "9090 0f05", "H 02228050 02e2 3d0110 02031800 02a25508000000 01"),
        "[psb] [enabled >401000] 401000 [pwre 401001 a5 b0 c1] [exstop 401001] [cbr a18 b0 c0] [pwrx a5 b5 c8] 401001 401002 [disabled 401002]");
    /* others before it wakes up are entered there, too */
    assert_string_equal(decode(0x401000, "9090 0f05", "H 02c26000000001000000 02220000 02e2 3d0110 02220020 02220050 02a25501000000 02220050 02e2 3d0210 01"),
        "[psb] [enabled >401000] 401000 [mwait 401001 a60 b1 c0] [pwre 401001] [exstop 401001] [pwre 401001 a2 b0 c0] [pwre 401001 a5 b0 c0] "
        "[pwrx a5 b5 c1] 401001 [pwre 401002 a5 b0 c0] [exstop 401002] 401002 [disabled 401002]");
}

/* Without EXSTOP, with one that has no address, behind an overflow, which may hide that it woke up, and where something has run; not in a PSB+. */
static void a_c_state_without_an_address_is_shown_where_it_is_told(void **state)
{
    (void)state;
    const char *code = "7500 9090 0f05";
    assert_string_equal(decode(0x401000, code, "H 02228050 06 02228050 02a25508000000 02228050 0262 02228050 3d0410 2d0210 02228050 01"),
        "[psb] [enabled >401000] [pwre a5 b0 c1] 401000 [pwre a5 b0 c1] [pwrx a5 b5 c8] [pwre a5 b0 c1] [exstop] [pwre a5 b0 c1] 401002 401003 "
        "[async 401004 >401002] [pwre a5 b0 c1] 401002 401003 401004 [disabled 401004]");
    assert_string_equal(decode(0x401000, code, "H 02228050 02e2 3d0010 02f3 02228050 7d041040000000 01"),
        "[psb] [enabled >401000] [pwre 401000 a5 b0 c1] [exstop 401000] [pwre a5 b0 c1] [overflow >401004] 401004 [disabled 401004]");
    assert_string_equal(decode(0x401000, code, "H 02228050 02e2 3d0010 P 9901 7d001040000000 0223 02228050 06 01"),
        "[psb] [enabled >401000] [pwre 401000 a5 b0 c1] [exstop 401000] [psb 401000] [pwre 401000 a5 b0 c1] 401000 401002 401003 401004 [disabled 401004]");
    assert_string_equal(decode(0x401000, code, "H 02228050 02e2 3d0010 06 02228050"),
        "[psb] [enabled >401000] [pwre 401000 a5 b0 c1] [exstop 401000] 401000 [pwre a5 b0 c1]");
    /* back there again, and further on without an outcome */
    assert_string_equal(decode(0x401000, "75fe 0f05", "H 02228050 02e2 3d0010 06 02228050 04 01"),
        "[psb] [enabled >401000] [pwre 401000 a5 b0 c1] [exstop 401000] 401000 [pwre a5 b0 c1] 401000 401002 [disabled 401002]");
    assert_string_equal(decode(0x401000, "9090 0f05", "H 02228050 02e2 3d0010 029278563412 3d0110 02228050 01"),
        "[psb] [enabled >401000] [pwre 401000 a5 b0 c1] [exstop 401000] 401000 [ptwrite 401001 a4 b0 c0 v12345678] [pwre a5 b0 c1] 401001 401002 [disabled 401002]");
}

/* EXSTOP waits for its FUP; TSC and CBR may stand before that. The last of the four events is EXSTOP's. */
static void what_waits_for_an_address_is_not_earlier_than_what_was_shown(void **state)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event some[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = some, .events_max = 16};
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "9090 0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 02e2 1900200000000000 02031900 3d0110");
    struct cofi_flow *flow = open_flow();
    assert_int_equal(cofi_flow_next(flow, &batch), 1);
    assert_int_equal(batch.events_n, 4);
    assert_int_equal(some[2].kind, COFI_FLOW_CBR);
    assert_int_equal(some[2].time.ticks, 0x2000);
    assert_int_equal(some[3].kind, COFI_FLOW_EXSTOP);
    assert_int_equal(some[3].time.ticks, 0x2000);
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* When packets were lost is what was known of the time before. */
static void an_overflow_tells_since_when(void **state)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event some[16];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = some, .events_max = 16};
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "9090 0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 1900200000000000 02f3 1900300000000000 7d011040000000 01");
    struct cofi_flow *flow = open_flow();
    uint64_t since = 0;
    while (cofi_flow_next(flow, &batch) > 0)
        for (size_t i = 0; i < batch.events_n; i++)
            if (some[i].kind == COFI_FLOW_OVERFLOW)
                since = some[i].since;
    assert_int_equal(since, 0x2000);
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* ContextEn is 0: EXSTOP has no FUP [PTREF 6.5], and the next one is the interrupt's. */
static void an_mwait_where_no_context_is_traced_takes_no_fup(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "9090 0f05",
        "H 3d0110 01 02c26000000001000000 02220020 0262 02a22201000000 310110 3d0210 01"),
        "[psb] [enabled >401000] 401000 [async-disabled 401001] [mwait a60 b1 c0] [pwre a2 b0 c0] [exstop] "
        "[pwrx a2 b2 c1] [enabled 401001 >401001] 401001 [async-disabled 401002]");
}

/* A second PSB+ with an address, or a PIP: what ran up to there shows that the first one's word was right. */
static void tracing_is_enabled_before_what_it_shows(void **state)
{
    (void)state;
    const char *psb = "P 9901 7d001040000000 0223";
    char trace[200];
    snprintf(trace, sizeof trace, "%s P 9901 7d011040000000 0223 3d0210 01", psb);
    assert_string_equal(decode(0x401000, "9090 0f05", trace),
        "[psb 401000] [enabled >401000] 401000 [psb 401001] 401001 [async-disabled 401002]");
    snprintf(trace, sizeof trace, "%s 0243 00a000000000 3d0310 01", psb);
    assert_string_equal(decode(0x401000, "0f22d8 90", trace), /* mov cr3, rax */
        "[psb 401000] [enabled >401000] 401000 [paging 401000 va0000] [async-disabled 401003]");
}

/* OVF ends a PSB+; what of it comes behind tells nothing new. */
static void the_rest_of_a_psb_that_an_overflow_ended_is_no_gap(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "P 9901 02f3 7d001040000000 0223 04 04 01"),
        "[overflow >401000] 401000 401002 401004 [disabled 401004]");
}

static void events_of_event_trace_bind(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "9090 0f05",
        "H 025300 00f0ad0b00000000 0213010e 3d0110 2d0010 02138200 3d0010 01"),
        "[psb] [enabled >401000] 401000 [evd 401001 vbadf000] [cfe 401001 a1 be c0] [async 401001 >401000] "
        "[cfe 401000 a2 b0 c1] 401000 401001 401002 [disabled 401002]");
}

static void a_cr3_change_in_an_interrupt_applies_at_its_target(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "9090 0f05",
        "H 3d0110 024300002468ac00 9901 2d0010 01"),
        "[psb] [enabled >401000] 401000 [async 401001 >401000] [paging 401000 vac682400000] 401000 401001 401002 "
        "[disabled 401002]");
}

static void missing_code_is_a_gap_up_to_the_next_address(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "ffe0 0f05",
        "H 2d0050 06 2d0210 01"),
        "[psb] [enabled >401000] 401000 [gap 405000 NO_CODE] 401002 [disabled 401002]");
}

/* 401000 mov cr3; 401003 jmp to where there is no code; 401008 nop; 401009 jmp 401008: the JMP leaves, not the MOV CR3 before the gap. */
static void a_mov_cr3_before_a_gap_does_not_end_tracing_behind_it(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "0f22d8 eb50 909090 90 ebfd", "H 0243000500000000 9921 3d0810 210810"),
        "[psb] [enabled >401000] 401000 [paging 401000 v5000] 401003 [gap 401055 NO_CODE] [tsx 401008 a1 b0 c0] 401008 401009 "
        "[disabled 401009 >401008]");
}

static void bytes_that_are_no_packet_are_a_gap_up_to_the_next_psb(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 0f05",
        "00 H 06 05 0606 P 0223 9901 71001040000000 06 01"),
        "[gap NO_SYNC] [psb] [enabled >401000] 401000 [gap 401002 BAD_PACKET] [psb] [enabled >401000] 401000 401002 "
        "[disabled 401002]");
}

/* Buffers end in the middle of a packet where the tracer stops, and the next one begins with a PSB, which the packet's rest
 * would be read from: whatever it is and wherever it is cut, in pieces of any size, nothing behind the PSB is lost. */
static void a_packet_cut_by_a_psb_costs_nothing_behind_it(void **state)
{
    (void)state;
    static const char *const packets[] = {"6d021040000000", "cd0210400000000000", "7d021040000000", "2d0210", "1911223344556677",
        "02828202820282028202820282", "02c3881122334455667788", "02321111111111111111", "0243000000000000", "02731122003300"};
    static const size_t pieces[] = {0, 1, 2, 5, 16, 31};
    const char *end = "[psb 401000] [enabled >401000] 401000 401002 401004 [disabled 401004]";
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++)
        for (int cut = 2; cut < (int)strlen(packets[i]); cut += 2)
            for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
                char trace[300];
                snprintf(trace, sizeof trace, "H 06 %.*s P 9901 7d001040000000 0223 04 04 01", cut, packets[i]);
                rig_open(&rig, COFI_PT, 0x401000, "7500 7500 0f05");
                rig.piece = pieces[k];
                rig_trace(&rig, trace);
                const char *said = rig_run(&rig);
                if (strlen(said) < strlen(end) || strcmp(said + strlen(said) - strlen(end), end))
                    fail_msg("%s in pieces of %zu: %s", trace, pieces[k], said);
                rig_close(&rig);
            }
}

static void an_endless_loop_is_noticed(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "eb00 ebfc", "H 3d5010 2d0010"),
        "[psb] [enabled >401000] [gap 401000 MISMATCH] [async 401050 >401000]");
    assert_string_equal(decode(0x401000, "eb00 ebfc", "H 2d5010"), "[psb] [enabled >401000] [gap 401002 MISMATCH]");
}

static void a_return_without_a_call_is_not_trusted(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "c3", "H 06 01"), "[psb] [enabled >401000] 401000 [gap BAD_RETC] [disabled]");
}

/* A PSB empties the stack of both: what was missing before it excuses no RET behind it, and the next address may be as wrong as that. */
static void behind_a_psb_missing_code_excuses_no_compressed_ret(void **state)
{
    (void)state;
    static const char code[] = "ffe0 0000000000000000000000000000 c3 000000000000000000000000000000 ffe0 0000000000000000000000000000 ffe0";
    assert_string_equal(decode(0x401000, code, "H 2d0050 2d1010 06 02031800 2d2010 6d301040000000 01"),
        "[psb] [enabled >401000] 401000 [gap 405000 NO_CODE] 401010 [cbr a18 b0 c0] [gap BAD_RETC] 401020 401030 [disabled 401030]");
    assert_string_equal(decode(0x401000, code, "H 2d0050 P 9901 7d101040000000 0223 06 02031800 2d2010 6d301040000000 01"),
        "[psb] [enabled >401000] 401000 [gap 405000 NO_CODE] [psb 401010] 401010 [cbr a18 b0 c0] [gap BAD_RETC] 401030 [disabled 401030]");
}

static void new_code_is_used_from_its_time_on(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x401000, "0f05");
    /* TSC 1000, run, TSC 2000 between PGD and PGE, run again */
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 1900200000000000 9901 310010 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 401001 [disabled 401001] [code v1] [enabled 401001 >401000] 401000 "
        "[disabled 401000]");
    rig_close(&rig);
}

/* A TSC that is wrong by much (bytes of two packets that look like one) has shown the code of later: behind the next one it is that of before again. */
static void code_is_that_of_its_time_behind_a_wrong_tsc(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x200000, 0x401000, "0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 1900000000008000 1900300000000000 9901 310010 01"
              "1900003000000000 9901 310010 01");
    for (rig.piece = 0; rig.piece < 3; rig.piece++)
        assert_string_equal(rig_run(&rig),
            "[psb] [enabled >401000] 401000 401001 [disabled 401001] [code v1] [code v1] [enabled 401001 >401000] 401000 401001 [disabled 401001] "
            "[code v1] [enabled 401001 >401000] 401000 [disabled 401000]");
    rig_close(&rig);
}

/* An overflow may have hidden the TSC of where code came; without one, code is not seen before its time. */
static void behind_an_overflow_code_may_have_come(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x402000, "90 0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 02f3 7d002040000000 01");
    for (rig.piece = 0; rig.piece < 3; rig.piece++)
        assert_string_equal(rig_run(&rig),
            "[psb] [enabled >401000] 401000 401001 [disabled 401001] [overflow >402000] [code v1] 402000 402001 [disabled 402001]");
    rig.piece = 0;
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 71002040000000 01");
    assert_string_equal(rig_run(&rig), "[psb] [enabled >401000] 401000 401001 [disabled 401001] [enabled 401001 >402000] [gap 402000 NO_CODE] [disabled]");
    rig_close(&rig);
}

/* No packet tells the time: bounds do, or it is the image's end. Code that comes between two of them is seen where it runs. */
static void where_no_packet_tells_the_time_bounds_do(void **state)
{
    (void)state;
    static const struct cofi_time_bound bounds[] = {{0, 0x1000, 0x3000}, {28, 0x3000, 0x5000}};
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x401000, "0f05");
    rig_code(&rig, 0x4000, 0x402000, "0f05");
    rig.config.ctl_known = true;
    rig.config.ctl = 1 << 13; /* BranchEn */
    rig_trace(&rig, "P 0223 9901 71001040000000 01 9901 310010 01 9901 71002040000000 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [disabled 401000] [enabled 401000 >401000] 401000 [disabled 401000] [enabled 401000 >402000] 402000 [disabled 402000]");
    rig.config.bounds = bounds;
    rig.config.bounds_n = 2;
    for (rig.piece = 0; rig.piece < 3; rig.piece++)
        assert_string_equal(rig_run(&rig),
            "[psb] [enabled >401000] 401000 401001 [disabled 401001] [enabled 401001 >401000] [code v1] 401000 [disabled 401000] "
            "[enabled 401000 >402000] [code v1] 402000 [disabled 402000]");
    rig_close(&rig);
}

static struct cofi_flow_stats stats_of_all(struct cofi_flow *flow)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event some[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = some, .events_max = 64};
    struct cofi_flow_stats stats;
    while (cofi_flow_next(flow, &batch) > 0)
        continue;
    cofi_flow_stats(flow, &stats);
    return stats;
}

/* 401000 jnz 401100, where there is no code until 2000; 401006 jmp rax. That way, and a target that is not there, are kept in mind. */
static void code_that_comes_where_it_was_missing_is_used(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "0f85fa000000 ffe0");
    rig_code(&rig, 0x2000, 0x401100, "ffe0");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 06 6d001040000000 06 6d001040000000 04 2d0011 6d001040000000 04 2d0011 "
                    "6d001040000000 06 71001040000000 01 1900200000000000 9901 310010 06 2d0010 04 2d0011 2d0010 04 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [gap 401100 NO_CODE] 401000 [gap 401100 NO_CODE] 401000 401006 [gap 401100 NO_CODE] "
        "401000 401006 [gap 401100 NO_CODE] 401000 [gap 401100 MISMATCH] [enabled >401000] 401000 [disabled 401000] "
        "[code v1] [enabled 401000 >401000] 401000 401100 401000 401006 401100 401000 401006 [disabled 401006]");
    rig_close(&rig);
}

/* 401000 call 401100 (no code); 401005 jnz 401100; 40100b ret: behind the gap the stack is empty. */
static void ways_that_end_in_a_gap_are_looked_for_once(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "e8fb000000 0f85f5000000 c3");
    char trace[8000] = "H ";
    /* To 401100, and behind the call; N and a compressed RET; T and to 401100. The CBR: no TIP waits for that outcome (decision 0619). */
    for (unsigned i = 0; i < 100; i++)
        strcat(trace, "6d051040000000 0a 6d051040000000 06 02031800 6d001040000000 ");
    rig_trace(&rig, trace);
    struct cofi_flow *flow = open_flow();
    struct cofi_flow_stats stats = stats_of_all(flow);
    assert_int_equal(stats.gaps, 300);
    assert_in_range(stats.run_misses, 1, 10);
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* A view only goes forward; a flow may go back to where the code was another one. */
static void code_is_that_of_its_time_after_seeking_back(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x401000, "0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 1900200000000000 9901 310010 01");
    struct cofi_flow *flow = open_flow();
    for (uint64_t pass = 1; pass <= 3; pass++) {
        assert_int_equal(stats_of_all(flow).insns, 3 * pass); /* nop, syscall; then syscall only */
        assert_int_equal(pass == 1 ? cofi_flow_seek(flow, 0) : cofi_flow_bytes(flow, rig.trace, rig.n), 0);
    }
    cofi_flow_close(flow);
    rig_close(&rig);
}

/* The same code as of its end: two times syscall, decoded once, whichever way it starts afresh. */
static void code_at_end_is_seen_from_the_start_and_stays_decoded(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x401000, "0f05");
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 01 1900200000000000 9901 310010 01");
    rig.config.code_at_end = true;
    struct cofi_flow *flow = open_flow();
    for (uint64_t pass = 1; pass <= 3; pass++) {
        struct cofi_flow_stats stats = stats_of_all(flow);
        assert_int_equal(stats.insns, 2 * pass);
        assert_int_equal(stats.blocks_decoded, 1);
        assert_int_equal(pass == 1 ? cofi_flow_seek(flow, 0) : cofi_flow_bytes(flow, rig.trace, rig.n), 0);
    }
    cofi_flow_close(flow);
    rig_close(&rig);
}

static void a_map_whose_size_is_no_power_of_2_is_refused(void **state)
{
    (void)state;
    uint8_t map[6] = {0};
    rig_open(&rig, COFI_PT, 0x401000, "ffe0");
    rig_trace(&rig, "H 2d0010 2d0010");
    struct cofi_flow *flow = open_flow();
    struct cofi_flow_coverage coverage = {.map = map};
    for (coverage.map_size = 0; coverage.map_size < 6; coverage.map_size += 3) {
        assert_int_equal(cofi_flow_cover(flow, &coverage), COFI_ERR_RANGE);
        assert_int_equal(coverage.insns, 0);
    }
    coverage.map_size = 1;
    assert_int_equal(cofi_flow_cover(flow, &coverage), 0);
    assert_int_equal(coverage.edges, 1);
    assert_int_equal(map[0], 1);
    cofi_flow_close(flow);
    rig_close(&rig);
}

static void code_of_32_bit_programs(void **state)
{
    (void)state;
    /* 40 is INC here, a REX prefix in 64-bit code */
    assert_string_equal(decode(0x401000, "40 7500 40 0f34", "P 0223 9902 71001040000000 04 01"),
        "[psb] [mode 401000 a20 b0 c0] [enabled >401000] 401000 401001 401003 401004 [disabled 401004]");
}

static void a_far_branch_changes_the_mode_at_its_target(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "ff28 40 7500 0f34", "H 9902 2d0210 04 01"),
        "[psb] [enabled >401000] 401000 [mode 401002 a20 b0 c0] 401002 401003 401005 [disabled 401005]");
}

static void a_psb_with_an_address_starts_tracing(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 0f05", "P 9901 7d0010400000 00 0223 06 01"),
        "[psb 401000] [enabled >401000] 401000 401002 [disabled 401002]");
}

static void a_psb_with_an_address_before_pge_is_no_start(void **state)
{
    (void)state; /* [ERR BDM70] */
    assert_string_equal(decode(0x401000, "7500 0f05", "P 9901 7d0010400000 00 0223 9901 710010400000 00 06 01"),
        "[psb 401000] [enabled >401000] 401000 401002 [disabled 401002]");
}

/* DisTNT: what ran up to the next conditional branch is known, and up to the next RET if that may have been compressed. */
static const char *decode_untold(uint64_t ctl, const char *code, const char *trace)
{
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig.config.ctl_known = true;
    rig.config.ctl = UINT64_C(1) << 55 | ctl;
    rig_trace(&rig, trace);
    return shown();
}

/* 401000 jnz; 401002 mov cr3, rax; 401005 nop; 401006 syscall: the PIP is not that of the interrupt's target. */
static void without_tnt_a_pip_behind_a_branch_has_no_address(void **state)
{
    (void)state;
    assert_string_equal(decode_untold(0, "7500 0f22d8 90 0f05", "H 0243000500000000 3d0510 2d0610 01"),
        "[psb] [enabled >401000] [paging v5000] 401000 [gap 401000 NO_OUTCOMES] [async 401005 >401006] 401006 [disabled 401006]");
}

/* A raw stream, of which nothing is known: MODE.Execs have told RFLAGS.IF before. Behind the overflow it does so with packets off, so that the FUP is that's;
 * where none has, or one, which may be damaged bytes, the FUP is the overflow's. */
static void a_mode_that_tells_rflags_if_shows_that_others_do(void **state)
{
    (void)state;
    const char *rest = "06 01 02f3 9901 7d001040000000 71021040000000 04 01";
    char trace[200];
    snprintf(trace, sizeof trace, "P 9905 0223 9905 71001040000000 %s", rest);
    assert_string_equal(decode(0x401000, "7500 7500 0f05", trace),
        "[psb] [mode 401000 a40 b1 c1] [enabled >401000] 401000 401002 [disabled 401002] [overflow] [mode 401000 a40 b0 c1] "
        "[enabled 401002 >401002] 401002 401004 [disabled 401004]");
    for (unsigned mode = 1; mode <= 5; mode += 4) {
        snprintf(trace, sizeof trace, "P 0223 99%02x 71001040000000 %s", mode, rest);
        assert_non_null(strstr(decode(0x401000, "7500 7500 0f05", trace), "[overflow >401000]"));
    }
}

/* INIT's FUP waits for the SIPI's TIP; the SIPI itself has no address [PTREF 6.3; PTREF 5.8]. */
static void an_init_is_where_it_found_the_processor_and_a_sipi_nowhere(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "90 90 7500 0f05", "H 02130600 3d0110 0213059a 2d0210 04 01"),
        "[psb] [enabled >401000] 401000 [cfe 401001 a6 b0 c0] [cfe a5 b9a c0] [async 401001 >401002] 401002 401004 [disabled 401004]");
}

static void without_tnt_a_branch_is_a_gap_up_to_the_next_address(void **state)
{
    enum { DISRETC = 1 << 11 };
    (void)state;
    /* call 401008; nop; jnz 40100e; at 401008 nop; ret; at 40100a jmp *rax; nop; at 40100d nop; syscall; nop; nop */
    const char *code = "e803000000 90 7506 90 c3 ffe0 90 90 0f05 90 90";
    assert_string_equal(decode_untold(DISRETC, code, "H 2d0510 2d0d10 01"),
        "[psb] [enabled >401000] 401000 401008 401009 401005 401006 [gap 401006 NO_OUTCOMES] 40100d 40100e [disabled 40100e]");
    assert_string_equal(decode_untold(0, code, "H 2d0d10 01"),
        "[psb] [enabled >401000] 401000 401008 401009 [gap 401009 NO_OUTCOMES] 40100d 40100e [disabled 40100e]");
    /* an interrupt, a PSB+ and a disable behind it */
    assert_string_equal(decode_untold(DISRETC, code, "H 2d0510 3d0c10 2d0a10 01"),
        "[psb] [enabled >401000] 401000 401008 401009 401005 401006 [gap 401006 NO_OUTCOMES] [async 40100c >40100a] 40100a "
        "[disabled 40100a]");
    assert_string_equal(decode_untold(DISRETC, code, "H 2d0510 P 9901 7d0d1040000000 0223 01"),
        "[psb] [enabled >401000] 401000 401008 401009 401005 401006 [gap 401006 NO_OUTCOMES] [psb 40100d] 40100d 40100e "
        "[disabled 40100e]");
    assert_string_equal(decode_untold(DISRETC, code, "H 2d0510 01 310d10 01"),
        "[psb] [enabled >401000] 401000 401008 401009 401005 401006 [gap 401006 NO_OUTCOMES] [disabled] [enabled >40100d] "
        "40100d 40100e [disabled 40100e]");
}

/* A processor may lose a TIP.PGE, or all packets of some time, without a word (SKL062, and others). */
static void where_tracing_was_not_known_to_be_on_the_next_packet_tells(void **state)
{
    (void)state;
    const char *code = "ffe0 90 7500 0f05";
    assert_string_equal(decode(0x401000, code, "P 0223 6d0210400000 00 06 01"),
        "[psb] [gap MISMATCH] 401002 401003 401005 [disabled 401005]");
    assert_string_equal(decode(0x401000, code, "H 2d0510 01 01 310210 06 01"),
        "[psb] [enabled >401000] 401000 401005 [disabled 401005] [gap MISMATCH] [enabled 401005 >401002] 401002 401003 401005 "
        "[disabled 401005]");
}

static const char *decode_synced(const char *code, const char *trace, size_t piece)
{
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig_trace(&rig, trace);
    rig.config.synced = true;
    rig.piece = piece;
    return shown();
}

/* Traces that fuzzers hand over: their first bytes are those that tracing began with, or what a buffer begins with that was full. */
static void a_stream_that_begins_with_a_packet_needs_no_psb(void **state)
{
    (void)state;
    const char *code = "7500 0f05", *run = "[enabled >401000] 401000 401002 [disabled 401002]";
    for (size_t piece = 0; piece < 40; piece += 3) {
        assert_string_equal(decode_synced(code, "9901 71001040000000 06 01", piece), run);
        assert_string_equal(decode_synced(code, "02034000 511000 4000 06 01", piece), "[cbr a40 b0 c0] [enabled >400010] [gap 400010 NO_CODE] [disabled]");
        assert_string_equal(decode_synced(code, "0223 71001040000000 06 01", piece), run);
        assert_string_equal(decode_synced(code, "9901 71001040000000 06 P 0223 01", piece),
            "[enabled >401000] 401000 [gap 401002 MISMATCH] [psb] [gap MISMATCH]");
        assert_string_equal(decode_synced(code, "9901 71001040000000 06 01 P 0223 71001040000000 06 01", piece),
            "[enabled >401000] 401000 401002 [disabled 401002] [psb] [enabled 401002 >401000] 401000 401002 [disabled 401002]");
    }
}

/* Nothing rests on an address that is not known: neither a short one nor outcomes are believed before a whole one. */
static void before_a_psb_only_a_whole_address_is_believed(void **state)
{
    (void)state;
    const char *code = "7500 0f05", *rest = "[gap NO_SYNC] [enabled >401000] 401000 401002 [disabled 401002]";
    static const char *const cut[] = {"06", "2d0010 06", "01", "7d001040000000", "3d0010 2d0010", "210010", "02f3 3d0010", "06 310010 06 01"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char trace[200];
        snprintf(trace, sizeof trace, "%s 71001040000000 06 01", cut[i]);
        assert_string_equal(decode_synced(code, trace, 0), rest);
        snprintf(trace, sizeof trace, "%s 6d001040000000 06 01", cut[i]);
        assert_string_equal(decode_synced(code, trace, 0), "[gap NO_SYNC] 401000 401002 [disabled 401002]");
        snprintf(trace, sizeof trace, "%s P 0223 71001040000000 06 01", cut[i]);
        assert_string_equal(decode_synced(code, trace, 0), "[gap NO_SYNC] [psb] [enabled >401000] 401000 401002 [disabled 401002]");
        snprintf(trace, sizeof trace, "%s", cut[i]);
        assert_string_equal(decode_synced(code, trace, 0), "[gap NO_SYNC]");
    }
    assert_string_equal(decode_synced(code, "02034000 6d001040000000 06 01", 0), "[cbr a40 b0 c0] [gap NO_SYNC] 401000 401002 [disabled 401002]");
}

/* Outcomes that stood before the first byte may belong behind it: so it does not tell where those go on that come. */
static void before_a_psb_the_first_tip_may_have_waited(void **state)
{
    (void)state;
    const char *code = "7502 9090 7500 0f05", *rest = "[gap NO_SYNC] [psb] [enabled >401004] 401004 401006 [disabled 401006]";
    const char *after = "P 0223 71041040000000 06 01";
    static const char *const first[] = {"6d001040000000 1e", "6d001040000000 2d0010 1e", "00 6d001040000000 59aa 1e"};
    char trace[200];
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        snprintf(trace, sizeof trace, "%s %s", first[i], after);
        assert_string_equal(decode_synced(code, trace, 0), rest);
    }
    snprintf(trace, sizeof trace, "6d001040000000 1e 2d0410 06 %s", after); /* what has forced the outcomes before the second one out is itself */
    assert_string_equal(decode_synced(code, trace, 0), "[gap NO_SYNC] 401004 [gap 401006 MISMATCH] [psb] [enabled >401004] 401004 401006 [disabled 401006]");
    static const char *const next[] = {"0e", "02a3060000000000"}; /* so it has forced this one out */
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        snprintf(trace, sizeof trace, "06 6d001040000000 %s 01", next[i]);
        assert_string_equal(decode_synced(code, trace, 0), "[gap NO_SYNC] 401000 401004 401006 [disabled 401006]");
    }
}

/* Below 4 GiB there are three modes: where nothing has told it, code before the first PSB waits for it. */
static void before_a_psb_code_below_4_gib_waits_for_a_mode(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, "7500 7500 0f05");
    rig.config.synced = true;
    rig.config.mode = COFI_MODE_LATER;
    rig_trace(&rig, "6d001040000000 06 9901 6d021040000000 06 01");
    assert_string_equal(rig_run(&rig), "[gap NO_SYNC] 401002 401004 [disabled 401004]");
    rig.config.mode = 0; /* none will be */
    rig_trace(&rig, "02034000 6d001040000000 06 01");
    assert_non_null(strstr(rig_run(&rig), "[gap NO_SYNC] 401000"));
    rig_close(&rig);
}

/* None waited in 1024 outcomes and 64 targets; then one did, of which the way behind it tells: the packets are good, and the next short address is one. */
static void a_tip_that_waited_after_all_costs_no_short_addresses(void **state)
{
    (void)state;
    char trace[2000] = "H";
    for (unsigned i = 0; i < 180; i++)
        strcat(trace, " fe");
    for (unsigned i = 0; i < 64; i++)
        strcat(trace, " 04 2d0010");
    strcat(trace, " 04 2d0020 1e 2d0410 19010203040506 07 2d0210 2d0610 01");
    const char *said = decode(0x401000, "75fe ffe0 7500 0f05", trace);
    assert_non_null(strstr(said, "[gap"));
    assert_string_equal(strstr(said, "[gap"), "[gap 402000 NO_CODE] [gap 401004 MISMATCH] 401002 401006 [disabled 401006]");
}

/* A PSB+ without FUP tells that packets are off, so that the FUP behind it is that of a MODE.Exec for RFLAGS.IF, known or not. */
static void a_psb_without_an_address_ends_an_overflow(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 7500 0f05", "H 06 02f3 P 0223 9901 7d021040000000 9901 7d041040000000 9901 71021040000000 06 01"),
        "[psb] [enabled >401000] 401000 [overflow] [psb] [enabled >401002] 401002 401004 [disabled 401004]");
}

/* However many TIPs are passed over, to code or to none, those behind one TNT show no more than one of them: also where only outcomes or only
 * TIPs came before. */
static void many_tips_behind_one_tnt_do_not_end_doubt(void **state)
{
    (void)state;
    static const struct { unsigned full, tips; const char *passed; } rows[] = {
        {0, 0, " 2d0020"}, {0, 0, " 2d0410"}, {180, 0, " 2d0020"}, {180, 0, " 2d0410"}, {0, 64, " 2d0020"}, {0, 64, " 2d0410"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char trace[20000] = "H";
        for (unsigned k = 0; k < rows[i].full; k++)
            strcat(trace, " fe");
        for (unsigned k = 0; k < rows[i].tips; k++)
            strcat(trace, " 04 2d0010");
        strcat(trace, " 04 2d0020 fe");
        for (unsigned k = 0; k < 2000; k++)
            strcat(trace, rows[i].passed);
        strcat(trace, " fe 2d0410 19010203040506 07 2d0610 06 01"); /* the outcomes stand before the TIP to 401004 */
        const char *said = decode(0x401000, "75fe ffe0 7500 7500 0f05", trace);
        assert_non_null(strstr(said, "[gap"));
        assert_null(strstr(said, "401004"));
        assert_string_equal(strrchr(said, '[') - strlen("401006 401008 "), "401006 401008 [disabled 401008]");
    }
}

/* But each one behind outcomes of its own does, or there would be no way back where all may have waited: of 1024 by units an outcome and a TIP
 * before them have taken 2, and 1080 outcomes more all; by TIPs that one has taken 16 of as many [decision 0619]. */
static void tips_behind_outcomes_of_their_own_end_doubt(void **state)
{
    (void)state;
    static const struct { unsigned full, passed; } rows[] = {{0, 1024 - 2}, {180, 1024 - 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned enough = 0; enough < 2; enough++) {
            char trace[20000] = "H";
            for (unsigned k = 0; k < rows[i].full; k++)
                strcat(trace, " fe");
            strcat(trace, " 04 2d0020");
            for (unsigned k = 1; k < rows[i].passed + enough; k++)
                strcat(trace, " fe 2d0020");
            strcat(trace, " fe 2d0410 06 01");
            const char *said = decode(0x401000, "75fe ffe0 7500 0f05", trace);
            assert_non_null(strstr(said, "[gap 402000 NO_CODE] "));
            assert_int_equal(strstr(said, "[gap 402000 NO_CODE] 401004 401006 [disabled 401006]") != NULL, enough);
        }
}

/* What was cut may look like a TRIG, a PTW and the like with a FUP, or like a MODE.Exec. */
static void what_stands_before_the_first_address_claims_nothing_behind_it(void **state)
{
    (void)state;
    assert_string_equal(decode_synced("7500 9090 7500 0f05", "d99480 2d0010 6d001040000000 06 3d0310 01", 0),
        "[trig a80 b0 c0] [gap NO_SYNC] 401000 401002 [async-disabled 401003]");
    rig_open(&rig, COFI_PT, UINT64_C(0x500000401000), "48ffc0 7500 0f05");
    rig_trace(&rig, "9900 6d001040000050 06 01");
    rig.config.synced = true;
    assert_string_equal(rig_run(&rig), "[gap NO_SYNC] 500000401000 500000401003 500000401005 [disabled 500000401005]");
    rig_close(&rig);
}

/* The FUP behind the first PSB+ is an event's; but where an OVF stands before that the branch at its address may have led to the TIP. */
static void an_overflow_before_the_first_psb_is_seen(void **state)
{
    (void)state;
    const char *event = "[psb 401000] [enabled >401000] [async 401000 >401002] 401002 401004 [disabled 401004]";
    const char *doubtful = "[psb 401000] [enabled >401000] [gap 401000 MISMATCH] 401002 401004 [disabled 401004]";
    const struct {
        const char *before, *after;
    } rows[] = {
        {"06", event}, {"06 02f3", doubtful}, {"02f3 19010203040506 07", doubtful}, {"06 02f3 7d021040000000", event},
        {"05 06", event}, {"05 02f3", doubtful}, {"05 02f306", event}, /* not read: the 05 is no packet */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t piece = 0; piece < 40; piece++) {
            char trace[200];
            snprintf(trace, sizeof trace, "%s P 9901 7d001040000000 0223 3d0010 2d0210 06 01", rows[i].before);
            assert_string_equal(strchr(decode_synced("ffe0 7500 0f05", trace, piece), ']') + 2, rows[i].after);
        }
}

/* [libxdc]: it is no packet; anywhere else it is damage. */
static void a_mark_may_stand_behind_the_last_packet(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "7500 0f05", "H 06 01 55"), "[psb] [enabled >401000] 401000 401002 [disabled 401002]");
    assert_string_equal(decode(0x401000, "7500 0f05", "H 06 01 5500"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [gap BAD_PACKET]");
    assert_string_equal(decode(0x401000, "7500 0f05", "H 06 01 55 H 06 01"),
        "[psb] [enabled >401000] 401000 401002 [disabled 401002] [gap BAD_PACKET] [psb] [enabled 401002 >401000] 401000 401002 [disabled 401002]");
}

static void tracestop_comes_after_the_disable(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "ffe0", "H 212210 0283"),
        "[psb] [enabled >401000] 401000 [disabled 401000 >401022] [tracestop 401000]");
}

static void mov_cr3_takes_its_pip(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "90 0f22d8 7500 0f05", "H 0243004068ac0000 06 01"),
        "[psb] [enabled >401000] 401000 401001 [paging 401001 vac6840000] 401004 401006 [disabled 401006]");
}

/* A TraceStop range that began behind the last branch: MOV CR3 is what looks where it is [PTREF 3.3; PTREF 6.2]. */
static void a_mov_cr3_may_end_tracing(void **state)
{
    (void)state;
    assert_string_equal(decode(0x401000, "90 0f22d8 90 ffe0", "H 0243004068ac0000 210410 0283"),
        "[psb] [enabled >401000] 401000 401001 [paging 401001 vac6840000] [disabled 401001 >401004] [tracestop 401001]");
    /* and another branch may lead behind it: 401000 mov cr3; 401003 jnz; 401005 jmp *rax; an interrupt and back */
    assert_string_equal(decode(0x401000, "0f22d8 75fe ffe0", "H 0243004068ac0000 04 210310"),
        "[psb] [enabled >401000] 401000 [paging 401000 vac6840000] 401003 401005 [disabled 401005 >401003]");
    assert_string_equal(decode(0x401000, "0f22d8 75fe ffe0", "H 0243004068ac0000 3d0310 2d0510 210310"),
        "[psb] [enabled >401000] 401000 [paging 401000 vac6840000] [async 401003 >401005] 401005 [disabled 401005 >401003]");
    /* 401003 jmp *rax leaves the known range [401000, 401002], in which nothing stops */
    /* or a direct one: 401000 mov cr3; 401003 xbegin, whose FUP shows that tracing went on; 401009 jmp 401003 */
    assert_string_equal(decode(0x401000, "0f22d8 c7f800000000 ebf8", "H 0243004068ac0000 9921 3d0310 210310"),
        "[psb] [enabled >401000] 401000 [paging 401000 vac6840000] [tsx 401003 a1 b0 c0] 401003 401009 [disabled 401009 >401003]");
    rig_open(&rig, COFI_PT, 0x401000, "0f22d8 ffe0");
    rig.config.ctl_known = rig.config.ranges_known = true;
    rig.config.ctl = UINT64_C(1) << 32;
    rig.config.range_base[0] = 0x401000;
    rig.config.range_limit[0] = 0x401002;
    rig_trace(&rig, "H 0243004068ac0000 210310");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [paging 401000 vac6840000] 401003 [disabled 401003 >401003]");
    rig_close(&rig);
}

static struct cofi_image *other;
static const struct cofi_image *space(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root)
{
    (void)opaque;
    (void)vmcs;
    (void)non_root;
    return cr3 == 0x2000 ? other : rig.image;
}

static void each_cr3_has_its_own_code(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x90, 0x90, 0x0f, 0x05};
    assert_int_equal(cofi_image_open(&other), 0);
    assert_int_equal(cofi_image_map_bytes(other, 0, 0x401000, code, sizeof code, "other"), 0);
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig.config.space = space;
    /* an interrupt at 401001 leads to 401000 in the other space (CR3 2000: payload 200h), and back (1000) */
    rig_trace(&rig, "H 3d0110 0243000200000000 2d0010 3d0210 0243000100000000 2d0010 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [async 401001 >401000] [paging 401000 v2000] 401000 401001 "
        "[async 401002 >401000] [paging 401000 v1000] 401000 401001 [disabled 401001]");
    rig_close(&rig);
    cofi_image_close(other);
}

/* 401000 mov cr3; in the other space 401003 jnz; 401005 nop; 401006 ptwrite; 40100a syscall. The FUP may be an event's, so that the PIP waits; what shows
 * that it was the overflow's is in the new space. */
static void what_follows_a_doubtful_fup_is_in_the_space_of_its_pip(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x0f, 0x22, 0xd8, 0x75, 0x00, 0x90, 0xf3, 0x0f, 0xae, 0xe0, 0x0f, 0x05};
    static const char *const rows[][2] = {
        {"06 01", "401003 401005 401006 40100a [disabled 40100a]"},
        {"9921 3d0310 06 01", "[tsx 401003 a1 b0 c0] 401003 401005 401006 40100a [disabled 40100a]"},
        {"3d0310 2d0510 01", "[async 401003 >401005] 401005 401006 40100a [disabled 40100a]"},
    };
    assert_int_equal(cofi_image_open(&other), 0);
    assert_int_equal(cofi_image_map_bytes(other, 0, 0x401000, code, sizeof code, "other"), 0);
    rig_open(&rig, COFI_PT, 0x401000, "0f22d8");
    rig.config.space = space;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char trace[200], expected[300];
        snprintf(trace, sizeof trace, "H 02f3 P 9901 7d001040000000 0223 7d001040000000 0243000200000000 %s", rows[i][0]);
        snprintf(expected, sizeof expected, "[psb] [enabled >401000] [overflow >401000] [psb 401000] 401000 [paging 401000 v2000] %s", rows[i][1]);
        rig_trace(&rig, trace);
        assert_string_equal(rig_run(&rig), expected);
    }
    rig_close(&rig);
    cofi_image_close(other);
}

static void an_address_space_that_comes_back_shows_what_changed_meanwhile(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x90, 0x90, 0x0f, 0x05};
    assert_int_equal(cofi_image_open(&other), 0);
    assert_int_equal(cofi_image_map_bytes(other, 0, 0x401000, code, sizeof code, "other"), 0);
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x2000, 0x401000, "0f05");
    rig.config.space = space;
    /* as above; while the other space is seen, TSC tells the time of the change */
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 3d0110 0243000200000000 2d0010 1900200000000000 "
                    "3d0210 0243000100000000 2d0010 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [async 401001 >401000] [paging 401000 v2000] 401000 401001 "
        "[async 401002 >401000] [paging 401000 v1000] [code v1] 401000 [disabled 401000]");
    rig_close(&rig);
    cofi_image_close(other);
}

/* In both a wrong TSC has shown the code of later. */
static void behind_a_wrong_tsc_each_address_space_shows_its_time_again(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x90, 0x90, 0x0f, 0x05}, later[] = {0x0f, 0x05};
    assert_int_equal(cofi_image_open(&other), 0);
    assert_int_equal(cofi_image_map_bytes(other, 0, 0x401000, code, sizeof code, "other"), 0);
    assert_int_equal(cofi_image_map_bytes(other, 0x200000, 0x401000, later, sizeof later, "later"), 0);
    rig_open(&rig, COFI_PT, 0x401000, "90 0f05");
    rig_code(&rig, 0x200000, 0x401000, "0f05");
    rig.config.space = space;
    rig_trace(&rig, "P 1900100000000000 0223 9901 71001040000000 3d0110 0243000200000000 2d0010 1900000000008000 "
                    "3d0010 0243000100000000 2d0010 1900300000000000 3d0110 0243000200000000 2d0010 3d0210 0243000100000000 2d0010 01");
    assert_string_equal(rig_run(&rig),
        "[psb] [enabled >401000] 401000 [async 401001 >401000] [paging 401000 v2000] [code v1] [async 401000 >401000] [paging 401000 v1000] [code v1] "
        "[code v1] 401000 [async 401001 >401000] [paging 401000 v2000] [code v1] 401000 401001 [async 401002 >401000] [paging 401000 v1000] 401000 "
        "401001 [disabled 401001]");
    rig_close(&rig);
    cofi_image_close(other);
}

/* Every prefix of a stream, and the stream in pieces of 1 to 40 bytes. */
static void cutting_and_feeding_in_pieces_change_nothing(void **state)
{
    (void)state;
    rig_open(&rig, COFI_PT, 0x401000, CODE16);
    rig_trace(&rig, "P 02031800 0223 9901 71001040000000 06 P 02031800 9901 7d0a1040000000 0223 0e 04 6d1a1040000000 01");
    char *whole = strdup(rig_run(&rig));
    for (rig.piece = 1; rig.piece <= 40; rig.piece++)
        assert_string_equal(rig_run(&rig), whole);
    char *insns = strdup(rig_insns(&rig));
    rig.piece = 0;
    for (size_t n = rig.n; n--;) {
        rig.n = n;
        const char *part = rig_insns(&rig);
        assert_memory_equal(part, insns, strlen(part));
    }
    free(whole);
    free(insns);
    rig_close(&rig);
}

static const char *outcomes(const char *code, const char *trace)
{
    static char *kept;
    rig_open(&rig, COFI_PT, 0x401000, code);
    rig_trace(&rig, trace);
    free(kept);
    kept = strdup(rig_outcomes(&rig));
    rig_close(&rig);
    return kept;
}

/* 401000 jne 401004; 401002 none; 401004 jne 401008; 401006 none; 401008 none */
static void a_branch_that_leads_to_no_code_has_its_outcome(void **state)
{
    (void)state;
    const char *code = "7502 06 90 7502 06 90 06";
    assert_string_equal(outcomes(code, "H 0a"), "401000-1");        /* not taken; what follows is lost */
    assert_string_equal(outcomes(code, "H 0e"), "401000+1 401004+1");
    assert_string_equal(outcomes(code, "H 0c"), "401000+1 401004-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_with_compressed_returns),
        cmocka_unit_test(a_psb_in_mid_trace_is_walked_to),
        cmocka_unit_test(interrupts_bind_to_their_addresses),
        cmocka_unit_test(deferred_tips_give_the_same_list),
        cmocka_unit_test(the_filter_is_left_in_three_ways),
        cmocka_unit_test(overflow_resumes_at_its_fup),
        cmocka_unit_test(a_psb_between_overflow_and_its_fup),
        cmocka_unit_test(a_psb_between_two_overflows_tells_nothing_of_the_second_ones_fup),
        cmocka_unit_test(overflow_inside_a_psb_resumes_at_its_fup),
        cmocka_unit_test(an_overflow_ends_a_gap),
        cmocka_unit_test(what_an_overflow_hides_is_not_invented),
        cmocka_unit_test(overflows_while_tracing_is_off_are_each_told),
        cmocka_unit_test(where_it_went_off_in_an_overflow_is_not_told),
        cmocka_unit_test(the_first_psb_may_be_ended_by_an_overflow),
        cmocka_unit_test(a_psb_that_ends_an_overflow_tells_nothing_that_is_known),
        cmocka_unit_test(a_mode_told_behind_an_overflow_holds_where_it_goes_on),
        cmocka_unit_test(each_event_is_told_where_its_packet_is),
        cmocka_unit_test(a_mode_told_at_a_fup_holds_from_there_on),
        cmocka_unit_test(an_overflow_that_goes_on_above_4_gib_goes_on_in_64_bit_code),
        cmocka_unit_test(a_new_interrupt_flag_behind_an_overflow_is_not_where_it_goes_on),
        cmocka_unit_test(a_cfe_shows_that_packets_are_off_behind_an_overflow),
        cmocka_unit_test(without_event_trace_a_fup_behind_a_mode_is_the_overflows),
        cmocka_unit_test(without_tnt_a_tip_behind_a_doubtful_fup_is_a_gap),
        cmocka_unit_test(an_overflow_forgets_calls),
        cmocka_unit_test(two_evds_show_event_trace),
        cmocka_unit_test(a_cfe_that_is_none_shows_nothing_of_event_trace),
        cmocka_unit_test(before_a_psb_the_first_tip_may_have_waited),
        cmocka_unit_test(a_short_address_behind_an_overflow_is_none),
        cmocka_unit_test(an_early_fup_of_a_psb_behind_what_is_wrong_is_no_other_gap),
        cmocka_unit_test(example_15_has_the_times_of_both_public_decoders),
        cmocka_unit_test(skl168_cycles_lost_before_a_psb_calibrate_nothing),
        cmocka_unit_test(cycles_lost_in_an_overflow_calibrate_nothing),
        cmocka_unit_test(long_cycle_counts_are_read_whole),
        cmocka_unit_test(a_guests_tsc_is_not_the_time),
        cmocka_unit_test(transactions_begin_commit_and_abort),
        cmocka_unit_test(a_psb_tells_of_a_transaction_what_is_not_known),
        cmocka_unit_test(ptwrite_with_and_without_an_address),
        cmocka_unit_test(power_events_share_a_fup),
        cmocka_unit_test(a_c_state_is_entered_where_its_exstop_is),
        cmocka_unit_test(a_c_state_without_an_address_is_shown_where_it_is_told),
        cmocka_unit_test(what_waits_for_an_address_is_not_earlier_than_what_was_shown),
        cmocka_unit_test(an_overflow_tells_since_when),
        cmocka_unit_test(an_mwait_where_no_context_is_traced_takes_no_fup),
        cmocka_unit_test(tracing_is_enabled_before_what_it_shows),
        cmocka_unit_test(the_rest_of_a_psb_that_an_overflow_ended_is_no_gap),
        cmocka_unit_test(events_of_event_trace_bind),
        cmocka_unit_test(a_cr3_change_in_an_interrupt_applies_at_its_target),
        cmocka_unit_test(missing_code_is_a_gap_up_to_the_next_address),
        cmocka_unit_test(a_mov_cr3_before_a_gap_does_not_end_tracing_behind_it),
        cmocka_unit_test(bytes_that_are_no_packet_are_a_gap_up_to_the_next_psb),
        cmocka_unit_test(a_packet_cut_by_a_psb_costs_nothing_behind_it),
        cmocka_unit_test(an_endless_loop_is_noticed),
        cmocka_unit_test(a_return_without_a_call_is_not_trusted),
        cmocka_unit_test(behind_a_psb_missing_code_excuses_no_compressed_ret),
        cmocka_unit_test(new_code_is_used_from_its_time_on),
        cmocka_unit_test(code_is_that_of_its_time_behind_a_wrong_tsc),
        cmocka_unit_test(behind_an_overflow_code_may_have_come),
        cmocka_unit_test(where_no_packet_tells_the_time_bounds_do),
        cmocka_unit_test(code_that_comes_where_it_was_missing_is_used),
        cmocka_unit_test(ways_that_end_in_a_gap_are_looked_for_once),
        cmocka_unit_test(code_is_that_of_its_time_after_seeking_back),
        cmocka_unit_test(code_at_end_is_seen_from_the_start_and_stays_decoded),
        cmocka_unit_test(a_map_whose_size_is_no_power_of_2_is_refused),
        cmocka_unit_test(code_of_32_bit_programs),
        cmocka_unit_test(a_far_branch_changes_the_mode_at_its_target),
        cmocka_unit_test(a_psb_with_an_address_starts_tracing),
        cmocka_unit_test(a_psb_with_an_address_before_pge_is_no_start),
        cmocka_unit_test(without_tnt_a_pip_behind_a_branch_has_no_address),
        cmocka_unit_test(a_mode_that_tells_rflags_if_shows_that_others_do),
        cmocka_unit_test(an_init_is_where_it_found_the_processor_and_a_sipi_nowhere),
        cmocka_unit_test(without_tnt_a_branch_is_a_gap_up_to_the_next_address),
        cmocka_unit_test(where_tracing_was_not_known_to_be_on_the_next_packet_tells),
        cmocka_unit_test(a_stream_that_begins_with_a_packet_needs_no_psb),
        cmocka_unit_test(before_a_psb_only_a_whole_address_is_believed),
        cmocka_unit_test(an_overflow_before_the_first_psb_is_seen),
        cmocka_unit_test(what_stands_before_the_first_address_claims_nothing_behind_it),
        cmocka_unit_test(before_a_psb_code_below_4_gib_waits_for_a_mode),
        cmocka_unit_test(a_tip_that_waited_after_all_costs_no_short_addresses),
        cmocka_unit_test(a_psb_without_an_address_ends_an_overflow),
        cmocka_unit_test(many_tips_behind_one_tnt_do_not_end_doubt),
        cmocka_unit_test(tips_behind_outcomes_of_their_own_end_doubt),
        cmocka_unit_test(a_mark_may_stand_behind_the_last_packet),
        cmocka_unit_test(tracestop_comes_after_the_disable),
        cmocka_unit_test(mov_cr3_takes_its_pip),
        cmocka_unit_test(a_mov_cr3_may_end_tracing),
        cmocka_unit_test(each_cr3_has_its_own_code),
        cmocka_unit_test(what_follows_a_doubtful_fup_is_in_the_space_of_its_pip),
        cmocka_unit_test(an_address_space_that_comes_back_shows_what_changed_meanwhile),
        cmocka_unit_test(behind_a_wrong_tsc_each_address_space_shows_its_time_again),
        cmocka_unit_test(cutting_and_feeding_in_pieces_change_nothing),
        cmocka_unit_test(a_branch_that_leads_to_no_code_has_its_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
