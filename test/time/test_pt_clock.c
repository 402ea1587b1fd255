/* SPDX-License-Identifier: MIT
 * TMA and MTC of PT -> ticks [SDM TSC/MTC Alignment (TMA) Packet], [SDM (MTC) Packet]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/packet.h>

#include "time/clock.h"

static struct cofi__clock the;

static uint64_t tell(const struct cofi_packet *packet)
{
    cofi__clock_packet(&the, packet);
    return cofi__clock_ticks(&the);
}

static void start(uint32_t num, uint32_t den, unsigned freq, uint64_t tsc)
{
    const struct cofi_time_info info = {.tsc_num = num, .tsc_den = den, .mtc_freq = (uint8_t)freq, .tsc = true, .mtc = true};
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    packet.tsc.tsc = tsc;
    tell(&packet);
    tell(&(struct cofi_packet){.kind = COFI_PT_TMA});
}

static uint64_t mtc(unsigned ctc)
{
    struct cofi_packet packet = {.kind = COFI_PT_MTC};
    packet.mtc.ctc = (uint8_t)ctc;
    return tell(&packet);
}

static uint64_t cycles(uint64_t count)
{
    struct cofi_packet packet = {.kind = COFI_PT_CYC};
    packet.cyc.count = count;
    return tell(&packet);
}

static uint32_t random_next(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 8; }

static uint64_t art_ticks(uint64_t num, uint64_t den, uint64_t x) { return (uint64_t)((unsigned __int128)x * num / den); }

static void tsc_tma(uint64_t tsc, uint64_t art, unsigned fc)
{
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    packet.tsc.tsc = tsc;
    tell(&packet);
    packet = (struct cofi_packet){.kind = COFI_PT_TMA};
    packet.tma.ctc = (uint16_t)art;
    packet.tma.fc = (uint16_t)fc;
    assert_int_equal(tell(&packet), tsc);
}

/* One after the other, and after some that were lost: each is what the division of the whole gives. The CTC of a TMA has 16 bits: with
 * a period of so many that fewer than 8 are above it, the first MTC tells the others. */
static void an_mtc_is_that_many_art_ticks_behind_the_tma(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (unsigned round = 0; round < 400; round++) {
        uint64_t num = 1 + random_next(&seed) % 1000, den = 1 + random_next(&seed) % 100, art = 0, from = 0, base = 0, tsc = 1 << 20;
        unsigned freq = random_next(&seed) % 16, most = freq > 8 ? (1u << (16 - freq)) - 1 : 200;
        bool first = true;
        start((uint32_t)num, (uint32_t)den, freq, tsc);
        the.info.mtc = round & 1; /* a recording that does not say that there are any has them all the same */
        for (unsigned i = 0; i < 300; i++) {
            if (!i || random_next(&seed) % 50 == 0) {
                unsigned fc = random_next(&seed) % (unsigned)(num / den + 1);
                art += random_next(&seed);
                tsc += random_next(&seed) + (UINT64_C(100) << 32);
                from = art >> freq << freq;
                base = tsc - fc - art_ticks(num, den, art - from);
                tsc_tma(tsc, art, fc);
                first = true;
            }
            unsigned steps = random_next(&seed) % 8 ? 1 : 1 + random_next(&seed) % (first ? most : 200);
            art = ((art >> freq) + steps) << freq;
            tsc = base + art_ticks(num, den, art - from);
            assert_int_equal(mtc((unsigned)(art >> freq)), tsc);
            first = false;
        }
    }
}

/* What a TMA has told before holds no more: the first MTC tells no time, the next ones how much passed since. */
static void a_tsc_without_a_tma_begins_anew(void **state)
{
    (void)state;
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    start(100, 1, 0, 1000);
    assert_int_equal(mtc(1), 1100);
    packet.tsc.tsc = 5000;
    assert_int_equal(tell(&packet), 5000);
    assert_int_equal(mtc(9), 5000);
    assert_int_equal(mtc(10), 5100);
    assert_int_equal(mtc(12), 5300);
}

/* MTCs 100 ticks apart, 200 cycles between them: a cycle is half a tick, until another interval says another. */
static void cycles_count_as_between_the_last_two_mtcs(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    mtc(1);
    cycles(200);
    assert_int_equal(mtc(2), 1200);
    assert_int_equal(cycles(50), 1225);
    cycles(350);
    assert_int_equal(mtc(3), 1300);
    assert_int_equal(cycles(100), 1325);
    assert_int_equal(cycles(1000), 1399); /* not as far as the next MTC */
}

/* The next MTC is due nobody knows when, once a TSC came without a TMA. */
static void behind_a_tsc_alone_cycles_go_on(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    mtc(1);
    cycles(200);
    mtc(2);
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    packet.tsc.tsc = 5000;
    tell(&packet);
    assert_int_equal(cycles(1000), 5500);
}

/* A step back that no estimate explains: what came before was wrong. A small one is an estimate that ran ahead. */
static void a_large_step_back_is_believed(void **state)
{
    (void)state;
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    start(100, 1, 0, 1 << 20);
    packet.tsc.tsc = (1 << 20) - COFI_CLOCK_BACK;
    the.least = UINT64_MAX;
    assert_int_equal(tell(&packet), 1 << 20);
    assert_int_equal(the.least, (1 << 20) - COFI_CLOCK_BACK);
    packet.tsc.tsc = (1 << 20) - COFI_CLOCK_BACK - 1;
    assert_int_equal(tell(&packet), (1 << 20) - COFI_CLOCK_BACK - 1);
    assert_int_equal(the.least, 0);
}

/* With a threshold an interval may have no CYC: the next one counts for both. */
static void cycles_of_two_intervals_are_those_of_both(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    mtc(1);
    cycles(200);
    mtc(2);
    assert_int_equal(mtc(3), 1300);
    cycles(800);
    assert_int_equal(mtc(4), 1400);
    assert_int_equal(cycles(100), 1425); /* 800 cycles in 200 ticks */
}

/* [ERR SKZ84]: no TMA. The first MTC says nothing, what lies between it and the next ones does. */
static void without_a_tma_mtcs_tell_what_passed_since_the_first(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    packet.tsc.tsc = 5000;
    tell(&packet);
    assert_int_equal(mtc(7), 5000);
    assert_int_equal(mtc(8), 5100);
    assert_int_equal(mtc(10), 5300);
    tell(&(struct cofi_packet){.kind = COFI_PT_TMA}); /* what comes late is believed */
    assert_int_equal(mtc(1), 5400);
}

/* Without a TSC no time is known, and no MTC makes it so. */
static void before_a_tsc_no_mtc_is_a_time(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    cofi__clock_init(&the, COFI_PT, &(struct cofi_time_info){.tsc_num = 100, .tsc_den = 1}, 0);
    assert_int_equal(mtc(1) | mtc(2), 0);
    assert_false(the.known);
}

/* A CBR tells a ratio of its own; the next interval is not trusted to tell one. */
static void a_ratio_packet_counts_from_then_on(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 30;
    mtc(1);
    cycles(200);
    mtc(2);
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    assert_int_equal(cycles(10), 1230);
}

static void cbr(unsigned ratio)
{
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = (uint8_t)ratio;
    cofi__clock_packet(&the, &packet);
}

/* [SDM Core:Bus Ratio (CBR) Packet]: the frequency changes between two exact times. Nobody asks for the time at the CBR. */
static void cycles_before_a_new_ratio_passed_at_the_old_one(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 30;
    the.limit = UINT64_MAX;
    cbr(30);
    assert_int_equal(cycles(1000), 2000);
    cbr(10);
    assert_int_equal(cofi__clock_ticks(&the), 2000);
    struct cofi_packet packet = {.kind = COFI_PT_CYC};
    packet.cyc.count = 10;
    cofi__clock_packet(&the, &packet);
    cbr(30);
    assert_int_equal(cofi__clock_ticks(&the), 2030);
    assert_int_equal(cycles(100), 2130);
    tsc_tma(5000, 50, 0);
    the.limit = UINT64_MAX;
    assert_int_equal(cycles(10), 5010);
}

/* A ratio that two MTCs told, and that nobody has asked for yet. */
static void cycles_before_a_new_ratio_passed_at_the_learnt_one(void **state)
{
    (void)state;
    start(1000, 1, 0, 1000);
    the.info.nominal_ratio = 30;
    mtc(1);
    cycles(500);
    assert_int_equal(mtc(2), 3000);
    the.limit = UINT64_MAX;
    struct cofi_packet packet = {.kind = COFI_PT_CYC};
    packet.cyc.count = 100;
    cofi__clock_packet(&the, &packet);
    cbr(10);
    assert_int_equal(cycles(10), 3230);
}

/* Damage looks so. */
static void a_ratio_of_zero_tells_nothing(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 30;
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    packet.cbr.ratio = 0;
    tell(&packet);
    assert_int_equal(cycles(10), 1030);
}

static void where_no_time_is_known_a_bound_tells_none(void **state)
{
    (void)state;
    const struct cofi_time_info info = {.tsc = true};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    cofi__clock_at_least(&the, 5000);
    assert_int_equal(cofi__clock_ticks(&the), 0);
    start(100, 1, 0, 1000);
    cofi__clock_at_least(&the, 900);
    assert_int_equal(cofi__clock_ticks(&the), 1000);
    cofi__clock_at_least(&the, 1100);
    assert_int_equal(cofi__clock_ticks(&the), 1100);
    assert_true(the.interpolated);
}

/* A PSB+ names another VMCS: time that had run ahead of its TSC stands still all the same. */
static void another_vmcs_in_a_psb_does_not_set_time_back(void **state)
{
    (void)state;
    start(100, 1, 0, 1000);
    the.info.nominal_ratio = 10;
    struct cofi_packet packet = {.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    the.limit = UINT64_MAX;
    assert_int_equal(cycles(500), 1500);
    cofi__clock_psb(&the);
    packet = (struct cofi_packet){.kind = COFI_PT_TSC};
    packet.tsc.tsc = 1400;
    assert_int_equal(tell(&packet), 1500);
    cofi__clock_guest(&the, false, 0x70000, true);
    assert_int_equal(cofi__clock_ticks(&the), 1500);
    assert_int_equal(the.exact, 1400);
}

/* A hypervisor's processor: each guest's TSC has its offset, some none. Time is the host's: exact in the host and in guests without an offset; of
 * another guest late by what its first TSC was behind the one before. PSB+ has its TSC before it tells whose it is, which an overflow may have
 * changed. */
static void guests_tell_the_hosts_time(void **state)
{
    (void)state;
    enum { GUESTS = 3 };
    static const uint64_t offset[GUESTS + 1] = {0, UINT64_C(3) << 40, 0, -(UINT64_C(5) << 50)};
    const uint64_t mask = (UINT64_C(1) << 56) - 1;
    uint32_t seed = 11;
    for (unsigned round = 0; round < 200; round++) {
        uint64_t now = (UINT64_C(1) << 54) + random_next(&seed), late[GUESTS + 1] = {0}, last = 0;
        bool met[GUESTS + 1] = {true};
        unsigned who = 0;
        const struct cofi_time_info info = {.tsc_num = 1, .tsc_den = 1, .tsc = true};
        cofi__clock_init(&the, COFI_PT, &info, 0);
        for (unsigned i = 0; i < 200; i++) {
            struct cofi_packet packet = {.kind = COFI_PT_TSC};
            bool psb = random_next(&seed) % 3 == 0;
            if (i && random_next(&seed) % 2) {
                who = random_next(&seed) % (GUESTS + 1);
                if (!psb) /* else it was lost, and PSB+ is the first to tell */
                    cofi__clock_guest(&the, who, who * 0x1000, false);
            }
            now += 1 + random_next(&seed);
            if (psb)
                cofi__clock_psb(&the);
            packet.tsc.tsc = (now + offset[who]) & mask;
            tell(&packet);
            if (psb)
                cofi__clock_guest(&the, who, who * 0x1000, true);
            if (!met[who] && offset[who])
                late[who] = now - last;
            met[who] = true;
            if (the.exact != now - late[who])
                fail_msg("round %u, packet %u, guest %u%s: %#lx, it is %#lx, late by %#lx", round, i, who, psb ? " in a PSB+" : "",
                         the.exact, now, late[who]);
            assert_in_range(cofi__clock_ticks(&the), the.exact, the.exact + COFI_CLOCK_BACK);
            last = the.exact;
        }
    }
}

static uint64_t time_in(unsigned guest, uint64_t tsc)
{
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    packet.tsc.tsc = tsc;
    cofi__clock_guest(&the, guest, guest * 0x1000, false);
    tell(&packet);
    return the.exact;
}

/* More guests than are remembered: the first ones' offsets stay, the last one's is learnt again. */
static void the_first_guests_of_many_are_remembered(void **state)
{
    (void)state;
    const uint64_t start = UINT64_C(1) << 50, far = UINT64_C(1) << 40;
    const struct cofi_time_info info = {.tsc_num = 1, .tsc_den = 1, .tsc = true};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    assert_int_equal(time_in(0, start), start);
    for (unsigned guest = 1; guest <= 6; guest++) /* at its first packet there is no telling how much time has passed */
        assert_int_equal(time_in(guest, start + guest * far), start);
    for (unsigned guest = 1; guest <= 3; guest++)
        assert_int_equal(time_in(guest, start + guest * far + 10 * guest), start + 10 * guest);
    assert_int_equal(time_in(6, start + 6 * far + 40), start + 40);
    assert_int_equal(time_in(4, start + 4 * far + 50), start + 40);
    assert_int_equal(time_in(5, start + 5 * far + 60), start + 40);
    assert_in_range(the.guests_n, 1, sizeof the.guests / sizeof *the.guests);
}

/* PSB+ has its TSC and TMA before it tells of a guest; what MTCs and cycles behind it tell is the host's time all the same. */
static void mtcs_in_a_guest_tell_the_hosts_time(void **state)
{
    (void)state;
    const uint64_t host = UINT64_C(1) << 50, far = UINT64_C(1) << 40;
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    start(2, 1, 3, host);
    the.info.nominal_ratio = 10;
    cofi__clock_guest(&the, true, 0x1000, false);
    packet.tsc.tsc = host + far;
    assert_int_equal(tell(&packet), host);
    cofi__clock_guest(&the, false, 0, false);
    packet.tsc.tsc = host + 1000;
    assert_int_equal(tell(&packet), host + 1000);
    cofi__clock_psb(&the);
    tsc_tma(host + 2000 + far, 0, 0);
    cofi__clock_guest(&the, true, 0x1000, true);
    assert_int_equal(cofi__clock_ticks(&the), host + 2000);
    packet = (struct cofi_packet){.kind = COFI_PT_CBR};
    packet.cbr.ratio = 10;
    tell(&packet);
    assert_int_equal(cycles(5), host + 2005);
    assert_int_equal(cycles(100), host + 2015); /* not past the next MTC */
    assert_int_equal(mtc(1), host + 2016);
    assert_int_equal(mtc(2), host + 2032);
    assert_int_equal(mtc(5), host + 2080);
    /* An estimate that ran ahead makes time stand still there, too. */
    packet = (struct cofi_packet){.kind = COFI_PT_TSC};
    packet.tsc.tsc = host + far + 3000;
    assert_int_equal(tell(&packet), host + 3000);
    assert_int_equal(cycles(500), host + 3500);
    cofi__clock_guest(&the, false, 0, false);
    cofi__clock_psb(&the);
    packet.tsc.tsc = host + far + 3400;
    tell(&packet);
    cofi__clock_guest(&the, true, 0x1000, true);
    assert_int_equal(cofi__clock_ticks(&the), host + 3500);
    assert_int_equal(cycles(200), host + 3600);
}

/* Where nothing is known of the time, a guest's first TSC is not behind anything. */
static void a_guests_first_time_is_its_own(void **state)
{
    (void)state;
    const struct cofi_time_info info = {.tsc = true};
    struct cofi_packet packet = {.kind = COFI_PT_TSC};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    cofi__clock_guest(&the, true, 0x1000, false);
    packet.tsc.tsc = UINT64_C(1) << 45;
    assert_int_equal(tell(&packet), UINT64_C(1) << 45);
    packet.tsc.tsc += 100;
    assert_int_equal(tell(&packet), (UINT64_C(1) << 45) + 100);
}

/* What an earlier TSC told is not another guest's because a PSB+ that has none tells of one. */
static void a_psb_without_tsc_moves_no_time(void **state)
{
    (void)state;
    const uint64_t start = UINT64_C(1) << 50, far = UINT64_C(1) << 40;
    const struct cofi_time_info info = {.tsc_num = 1, .tsc_den = 1, .tsc = true};
    cofi__clock_init(&the, COFI_PT, &info, 0);
    assert_int_equal(time_in(0, start), start);
    assert_int_equal(time_in(1, start + far), start);
    assert_int_equal(time_in(0, start + 10), start + 10);
    cofi__clock_psb(&the);
    cofi__clock_guest(&the, true, 0x1000, true);
    assert_int_equal(the.exact, start + 10);
}

static void nanoseconds_become_the_first_tick_that_has_them(void **state)
{
    (void)state;
    struct cofi_time_conv conv = {.zero = 1000, .mult = 341, .shift = 10}; /* three ticks a nanosecond, nearly */
    assert_int_equal(cofi_time_ticks(&conv, 0), 0);
    assert_int_equal(cofi_time_ticks(&conv, 999), 0);
    assert_int_equal(cofi_time_ticks(&conv, 1000), 0);
    assert_int_equal(cofi_time_ticks(&conv, 1001), 4);
    assert_int_equal(cofi_time_ns(&conv, 3), 1000);
    assert_int_equal(cofi_time_ns(&conv, 4), 1001);
    conv = (struct cofi_time_conv){.zero = (uint64_t)-1000, .mult = 1024, .shift = 10}; /* a clock that began later than the TSC */
    assert_int_equal(cofi_time_ns(&conv, 1005), 5);
    assert_int_equal(cofi_time_ticks(&conv, 5), 1005);
    assert_int_equal(cofi_time_ticks(&conv, 0), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mtc_is_that_many_art_ticks_behind_the_tma),
        cmocka_unit_test(cycles_count_as_between_the_last_two_mtcs),
        cmocka_unit_test(behind_a_tsc_alone_cycles_go_on),
        cmocka_unit_test(a_large_step_back_is_believed),
        cmocka_unit_test(cycles_of_two_intervals_are_those_of_both),
        cmocka_unit_test(without_a_tma_mtcs_tell_what_passed_since_the_first),
        cmocka_unit_test(before_a_tsc_no_mtc_is_a_time),
        cmocka_unit_test(a_tsc_without_a_tma_begins_anew),
        cmocka_unit_test(a_ratio_packet_counts_from_then_on),
        cmocka_unit_test(cycles_before_a_new_ratio_passed_at_the_old_one),
        cmocka_unit_test(cycles_before_a_new_ratio_passed_at_the_learnt_one),
        cmocka_unit_test(a_ratio_of_zero_tells_nothing),
        cmocka_unit_test(where_no_time_is_known_a_bound_tells_none),
        cmocka_unit_test(another_vmcs_in_a_psb_does_not_set_time_back),
        cmocka_unit_test(guests_tell_the_hosts_time),
        cmocka_unit_test(the_first_guests_of_many_are_remembered),
        cmocka_unit_test(mtcs_in_a_guest_tell_the_hosts_time),
        cmocka_unit_test(a_guests_first_time_is_its_own),
        cmocka_unit_test(a_psb_without_tsc_moves_no_time),
        cmocka_unit_test(nanoseconds_become_the_first_tick_that_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
