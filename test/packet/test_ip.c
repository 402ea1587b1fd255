/* SPDX-License-Identifier: MIT
 * IP compression: every row of RTIT Table 18, every code of PT, and both directions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/packet.h>

#include "random.h"

/* [RTIT Table 18]: what matches LastLIP, what is zero -> CNT, Zext. -1: either. Both 16-bit groups,
 * high is 47:32, middle 31:16. */
struct table18 {
    int cnt, zext, match_high, match_middle, zero_high, zero_middle;
};
static const struct table18 table18[] = {
    {0, 0, 1, 1, 0, -1}, {0, 0, 1, 1, 1, 0}, {0, 1, -1, -1, 1, 1}, {1, 0, 1, 0, 0, -1},
    {1, 1, -1, 0, 1, 0}, {1, 1, 0, -1, 1, 0}, {2, 0, 0, -1, 0, -1},
};

static void table_18_chooses_cnt_and_zext(void **state)
{
    (void)state;
    unsigned used[7] = {0};
    /* Every pair of groups, out of three values each, against every LastLIP of the same. */
    static const uint64_t group[] = {0, 0x40, 0x7fff};
    for (int i = 0; i < 81 * 2; i++) {
        uint64_t high = group[i % 3], middle = group[i / 3 % 3];
        uint64_t last_high = group[i / 9 % 3], last_middle = group[i / 27 % 3];
        bool valid = i / 81;
        struct cofi_packet p = {.kind = COFI_RTIT_TIP};
        uint64_t ip = high << 32 | middle << 16 | 0x1234,
                 last = last_high << 32 | last_middle << 16 | 0x4321, back;
        int found = -1;
        for (int k = 0; k < 7; k++) {
            const struct table18 *t = &table18[k];
            bool match_high = valid && high == last_high,
                 match_middle = valid && middle == last_middle;
            if ((t->match_high < 0 || t->match_high == match_high) &&
                (t->match_middle < 0 || t->match_middle == match_middle) && t->zero_high == !high &&
                (t->zero_middle < 0 || t->zero_middle == !middle)) {
                if (found >= 0) /* The two rows CNT 1, Zext 1 overlap. */
                    assert_true(table18[found].cnt == t->cnt && table18[found].zext == t->zext);
                found = k;
                used[k]++;
            }
        }
        assert_true(found >= 0);
        cofi_ip_compress(&p, ip, last, valid);
        assert_int_equal(p.ip.code & 3, table18[found].cnt);
        assert_int_equal(p.ip.code >> 2, table18[found].zext);
        assert_true(cofi_ip_expand(&p, last, &back));
        assert_int_equal(back, ip);
    }
    for (int k = 0; k < 7; k++)
        assert_true(used[k]);
}

static void rtit_addresses_extend_bit_47(void **state)
{
    (void)state;
    struct cofi_packet p = {.kind = COFI_RTIT_TIP};
    uint64_t ip;
    cofi_ip_compress(&p, UINT64_C(0xffffffff81000010), 0, false);
    assert_int_equal(p.ip.code, 2);
    assert_int_equal(p.ip.payload, UINT64_C(0xffff81000010));
    assert_true(cofi_ip_expand(&p, 0, &ip));
    assert_int_equal(ip, UINT64_C(0xffffffff81000010));
    cofi_ip_compress(&p, UINT64_C(0xffffffff81000020), ip, true);
    assert_int_equal(p.ip.code, 0);
    assert_true(cofi_ip_expand(&p, ip, &ip));
    assert_int_equal(ip, UINT64_C(0xffffffff81000020));
}

static void pt_codes_expand_as_the_table_says(void **state)
{
    (void)state;
    const uint64_t last = UINT64_C(0x1111222233334444);
    static const struct { uint8_t code; uint64_t payload, ip;
    } rows[] = {
        {1, 0xabcd, UINT64_C(0x111122223333abcd)},
        {2, 0xabcd0123, UINT64_C(0x11112222abcd0123)},
        {3, UINT64_C(0x7fffabcd0123), UINT64_C(0x7fffabcd0123)},
        {3, UINT64_C(0x8000abcd0123), UINT64_C(0xffff8000abcd0123)},
        {4, UINT64_C(0x8000abcd0123), UINT64_C(0x11118000abcd0123)},
        {6, UINT64_C(0xfedcba9876543210), UINT64_C(0xfedcba9876543210)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cofi_packet p = {.kind = COFI_PT_FUP, .ip = {rows[i].payload, rows[i].code}};
        uint64_t ip;
        assert_true(cofi_ip_expand(&p, last, &ip));
        assert_int_equal(ip, rows[i].ip);
    }
    struct cofi_packet none = {.kind = COFI_PT_TIP_PGD};
    uint64_t ip = 5;
    assert_false(cofi_ip_expand(&none, last, &ip));
    assert_int_equal(ip, 5);
}

static void reserved_codes_carry_no_address(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        struct cofi_packet pt = {.kind = COFI_PT_TIP, .ip = {1, (uint8_t)code}}, rtit = {.kind = COFI_RTIT_TIP, .ip = {1, (uint8_t)code}};
        uint64_t ip = 5;
        bool none = !code || code == 5 || code > 6;
        assert_int_equal(cofi_ip_expand(&pt, 0, &ip), !none);
        assert_int_equal(ip, none ? 5 : 1);
        ip = 5;
        none = code > 7 || (code & 3) == 3 || code == 6;
        assert_int_equal(cofi_ip_expand(&rtit, 0, &ip), !none);
        assert_int_equal(ip, none ? 5 : 1);
    }
}

static void pt_takes_the_first_code_that_fits(void **state)
{
    (void)state;
    static const struct { uint64_t ip, last; bool valid; uint8_t code;
    } rows[] = {
        {0x401005, 0x401000, true, 1},
        {0x1005, 0, true, 1},
        {0x401000, 0, true, 2},
        {0x401005, 0x401000, false, 3},
        {UINT64_C(0xffffffff81000000), 0x401000, true, 3},
        {UINT64_C(0x1234800000000000), UINT64_C(0x1234000000000000), true, 4},
        {UINT64_C(0x1234800000000000), 0, true, 6},
        {UINT64_C(0x1234800000000000), UINT64_C(0x1234800000000000), false, 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cofi_packet p = {.kind = COFI_PT_TIP};
        cofi_ip_compress(&p, rows[i].ip, rows[i].last, rows[i].valid);
        assert_int_equal(p.ip.code, rows[i].code);
    }
}

static void what_is_compressed_expands_back(void **state)
{
    (void)state;
    struct random r = {9};
    for (int i = 0; i < 200000; i++) {
        uint64_t last = random_u64(&r) >> random_below(&r, 64),
                 ip = last ^ random_u64(&r) >> random_below(&r, 64), back;
        struct cofi_packet p = {.kind = COFI_PT_TIP}, q = {.kind = COFI_RTIT_FAR};
        cofi_ip_compress(&p, ip, last, i & 1);
        assert_true(cofi_ip_expand(&p, last, &back));
        assert_true(back == ip);
        /* RTIT: 48 bits of each. */
        ip = (uint64_t)((int64_t)(ip << 16) >> 16);
        cofi_ip_compress(&q, ip, last, i & 1);
        assert_true(cofi_ip_expand(&q, last, &back));
        assert_true(back == ip);
        uint8_t bytes[COFI_PACKET_MAX];
        struct cofi_packet_context pt = {.gen = COFI_PT}, rtit = {.gen = COFI_RTIT};
        assert_true(cofi_packet_encode(&pt, &p, bytes, sizeof bytes) > 0);
        assert_true(cofi_packet_encode(&rtit, &q, bytes, sizeof bytes) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_18_chooses_cnt_and_zext),
        cmocka_unit_test(rtit_addresses_extend_bit_47),
        cmocka_unit_test(pt_codes_expand_as_the_table_says),
        cmocka_unit_test(reserved_codes_carry_no_address),
        cmocka_unit_test(pt_takes_the_first_code_that_fits),
        cmocka_unit_test(what_is_compressed_expands_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
