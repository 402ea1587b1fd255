/* SPDX-License-Identifier: MIT
 * Every register field under every capability, with TraceEn 0 and 1: which writes and reads are #GP, and what a write leaves.
 * The judge is written from [PTREF 1.2; PTREF 1.3; PTREF 2; PTREF 2.1; PTREF 2.2; PTREF 2.3; PTREF 2.4; PTREF 2.5; PTREF 2.6; SDM
 * CPUID Leaf 14H Enumeration of Intel Processor Trace Capabilities; SDM IA32_RTIT_CTL fields] alone; processors are random. */
#include "pt_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSORS = 3000, WRITES = 300 };

static const uint32_t msrs[] = {0x560, 0x561, 0x570, 0x571, 0x572, 0x580, 0x581, 0x582, 0x583, 0x584, 0x585, 0x586, 0x587};
enum { MSRS = sizeof msrs / sizeof msrs[0] };

struct judge {
    uint64_t random;
    struct cofi_unit_cpu cpu;
    uint64_t value[MSRS]; /* as it must read */
    bool traced, counted; /* TraceEn has been 1 since OUTPUT_MASK_PTRS was written; since STATUS was */
};

static uint64_t draw(struct judge *j)
{
    j->random ^= j->random << 13;
    j->random ^= j->random >> 7;
    j->random ^= j->random << 17;
    return j->random * UINT64_C(0x2545f4914f6cdd1d);
}

static bool ebx(const struct judge *j, unsigned bit) { return j->cpu.leaf14_ebx >> bit & 1; }
static bool ecx(const struct judge *j, unsigned bit) { return j->cpu.leaf14_ecx >> bit & 1; }

static unsigned ranges(const struct judge *j)
{
    unsigned n = j->cpu.leaf14_1_eax & 7;
    return !ebx(j, 2) ? 0 : n > 4 ? 4 : n;
}

static bool exists(const struct judge *j, uint32_t msr)
{
    if (msr == 0x560 || msr == 0x561)
        return ecx(j, 0) || ecx(j, 2);
    if (msr == 0x572)
        return ebx(j, 0);
    return msr < 0x580 || (msr - 0x580) / 2 < ranges(j);
}

/* The bits of CTL that are not reserved. */
static uint64_t ctl_bits(const struct judge *j)
{
    uint64_t mask = TRACE_EN | OS | USER | TSC_EN | DIS_RETC | BRANCH_EN;
    mask |= ebx(j, 0) ? CR3_FILTER : 0;
    mask |= ebx(j, 1) ? CYC_EN | CYC_THRESH(15) | PSB_FREQ(15) : 0;
    mask |= ebx(j, 3) ? MTC_EN | MTC_FREQ(15) : 0;
    mask |= ebx(j, 4) ? PTW_EN | FUP_ON_PTW : 0;
    mask |= ebx(j, 5) ? PWR_EVT_EN : 0;
    mask |= ebx(j, 6) ? INJECT : 0;
    mask |= ebx(j, 7) ? EVENT_EN : 0;
    mask |= ebx(j, 8) ? DIS_TNT : 0;
    mask |= ecx(j, 0) ? TOPA : 0;
    mask |= ecx(j, 3) ? FABRIC_EN : 0;
    for (unsigned i = 0; i < ranges(j); i++)
        mask |= ADDR_CFG(i, 15);
    return mask;
}

static bool in_map(uint64_t map, uint64_t encoding) { return encoding == 0 || map >> encoding & 1; }

static bool ctl_legal(const struct judge *j, uint64_t value)
{
    bool legal = !(value & ~ctl_bits(j)) && in_map(j->cpu.leaf14_1_eax >> 16, value >> 14 & 15) &&
                 in_map(j->cpu.leaf14_1_ebx & 0xffff, value >> 19 & 15) && in_map(j->cpu.leaf14_1_ebx >> 16, value >> 24 & 15);
    for (unsigned i = 0; i < 4; i++)
        legal &= (value >> (32 + 4 * i) & 15) <= 2;
    if (!(value & TRACE_EN))
        return legal;
    bool somewhere = value & (TOPA | FABRIC_EN) || ecx(j, 2);
    bool branches = value & BRANCH_EN || ebx(j, 3);
    return legal && somewhere && branches;
}

/* Does the register take value, with TraceEn 0? */
static bool takes(const struct judge *j, uint32_t msr, uint64_t value)
{
    uint64_t status = UINT64_C(0x37) | (ebx(j, 1) ? UINT64_C(0x1ffff) << 32 : 0) | (ebx(j, 6) ? 0xc0 : 0);
    int64_t top = (int64_t)value >> 47;
    switch (msr) {
    case 0x560: return !(value & 0x7f) && !(value >> j->cpu.maxphyaddr);
    case 0x561: return true;
    case 0x570: return ctl_legal(j, value);
    case 0x571: return !(value & ~status);
    case 0x572: return !(value & 0x1f);
    default: return top == 0 || top == -1;
    }
}

static uint64_t left_by(uint32_t msr, uint64_t value)
{
    return msr == 0x561 ? value | 0x7f : msr == 0x571 ? value & ~UINT64_C(7) : value;
}

/* Values that are near what is legal, and others. */
static uint64_t pick(struct judge *j, uint32_t msr)
{
    uint64_t value = draw(j);
    switch (draw(j) % 4) {
    case 0: value = UINT64_C(1) << draw(j) % 64; break;
    case 1: value &= draw(j) & draw(j); break;
    case 2: break;
    default: value = msr == 0x570 ? value & ctl_bits(j) & ~UINT64_C(0xcccc00000000) : value & ~UINT64_C(0xffff80000000007f);
    }
    if (msr == 0x570 && draw(j) % 2)
        value &= ~(MTC_FREQ(15) | CYC_THRESH(15) | PSB_FREQ(15));
    if (msr == 0x560 && draw(j) % 2)
        value &= (UINT64_C(2) << j->cpu.maxphyaddr) - 1;
    return value;
}

static int nothing_there(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address, (void)bytes, (void)n;
    return COFI_ERR_RANGE;
}

static int not_taken(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address, (void)bytes, (void)n;
    return COFI_ERR_RANGE;
}

static void write_one(struct judge *j, struct cofi_unit *unit, unsigned i)
{
    bool tracing = j->value[2] & TRACE_EN;
    uint64_t value = pick(j, msrs[i]);
    if (msrs[i] == 0x570 && tracing)
        value = draw(j) % 3 == 0 ? j->value[2] : draw(j) % 2 ? value & ~TRACE_EN : value;
    bool good = exists(j, msrs[i]) && takes(j, msrs[i], value);
    if (tracing)
        good &= msrs[i] == 0x570 && (value == j->value[2] || !(value & TRACE_EN));
    int result = cofi_unit_wrmsr(unit, msrs[i], value);
    if (result != (good ? 0 : COFI_ERR_GP))
        fail_msg("WRMSR %x of %" PRIx64 " gives %d, TraceEn %d; EBX %x ECX %x EAX1 %x EBX1 %x MAXPHYADDR %u", msrs[i], value, result,
                 tracing, j->cpu.leaf14_ebx, j->cpu.leaf14_ecx, j->cpu.leaf14_1_eax, j->cpu.leaf14_1_ebx, j->cpu.maxphyaddr);
    if (!good)
        return;
    j->value[i] = left_by(msrs[i], value);
    bool enabled = msrs[i] == 0x570 && value & TRACE_EN;
    j->traced = enabled || (j->traced && msrs[i] != 0x561);
    j->counted = enabled || (j->counted && msrs[i] != 0x571);
}

static void read_all(struct judge *j, struct cofi_unit *unit)
{
    for (unsigned i = 0; i < MSRS; i++) {
        uint64_t value = 0;
        int result = cofi_unit_rdmsr(unit, msrs[i], &value);
        assert_int_equal(result, exists(j, msrs[i]) ? 0 : COFI_ERR_GP);
        /* The unit's own bits: the enables, and what tracing comes to: bytes, a stop or error, the offset. */
        uint64_t moves = msrs[i] == 0x571 ? 7 | (j->counted ? UINT64_C(0x1ffff000000f0) : 0)
                         : msrs[i] == 0x561 && j->traced ? ~(uint64_t)UINT32_MAX : 0;
        j->value[i] = (j->value[i] & ~moves) | (value & moves);
        if (result == 0)
            assert_int_equal(value, j->value[i]);
    }
}

static void writes_are_gp_as_the_reference_says(void **state)
{
    struct judge j = {.random = 0x9e3779b97f4a7c15};
    unsigned tracing = 0;
    (void)state;
    for (unsigned n = 0; n < PROCESSORS; n++) {
        j.cpu = (struct cofi_unit_cpu){.leaf14_ebx = (uint32_t)draw(&j) & 0x3ff, .leaf14_ecx = (uint32_t)draw(&j) & 0x8000000f,
                                       .leaf14_1_eax = (uint32_t)draw(&j) & 0xffff0007, .leaf14_1_ebx = (uint32_t)draw(&j),
                                       .maxphyaddr = (uint8_t)(32 + draw(&j) % 21), .vmx = true};
        struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .cpu = &j.cpu,
                                          .memory = {nothing_there, not_taken, NULL}};
        struct cofi_unit *unit;
        assert_int_equal(cofi_unit_open(&unit, &config), 0);
        memset(j.value, 0, sizeof j.value);
        j.value[1] = 0x7f;
        j.traced = j.counted = false;
        for (unsigned i = 0; i < WRITES; i++) {
            write_one(&j, unit, (unsigned)(draw(&j) % 3 ? draw(&j) % MSRS : 2));
            read_all(&j, unit);
            tracing += j.value[2] & 1;
        }
        cofi_unit_close(unit);
    }
    assert_true(tracing > PROCESSORS * 20);
}

/* XRSTORS takes what WRMSR takes, all or nothing [PTREF 2.7]. */
static void images_are_gp_as_their_registers_are(void **state)
{
    static const unsigned order[] = {2, 0, 1, 3, 4, 5, 6, 7, 8};
    struct judge j = {.random = 0x1234567};
    unsigned taken = 0;
    (void)state;
    for (unsigned n = 0; n < PROCESSORS * 10; n++) {
        uint8_t image[COFI_XSAVE_BYTES] = {0};
        bool good = true;
        j.cpu = (struct cofi_unit_cpu){.leaf14_ebx = (uint32_t)draw(&j) & 0x3ff, .leaf14_ecx = (uint32_t)draw(&j) & 0x8000000f,
                                       .leaf14_1_eax = (uint32_t)draw(&j) & 0xffff0007, .leaf14_1_ebx = (uint32_t)draw(&j),
                                       .maxphyaddr = 46, .vmx = true};
        struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .cpu = &j.cpu,
                                          .memory = {nothing_there, not_taken, NULL}};
        struct cofi_unit *unit;
        for (unsigned i = 0; i < 9; i++) {
            uint64_t value = draw(&j) % 4 ? 0 : pick(&j, msrs[order[i]]);
            memcpy(image + 8 * i, &value, 8);
            good &= exists(&j, msrs[order[i]]) ? takes(&j, msrs[order[i]], value) : value == 0;
            j.value[order[i]] = exists(&j, msrs[order[i]]) ? left_by(msrs[order[i]], value) : 0;
        }
        for (unsigned i = 9; i < MSRS; i++)
            j.value[i] = 0;
        assert_int_equal(cofi_unit_open(&unit, &config), 0);
        assert_int_equal(cofi_unit_xrstors(unit, image), good ? 0 : COFI_ERR_GP);
        if (!good) {
            memset(j.value, 0, sizeof j.value);
            j.value[1] = 0x7f;
        }
        j.traced = j.counted = good && j.value[2] & TRACE_EN;
        read_all(&j, unit);
        taken += good;
        cofi_unit_close(unit);
    }
    assert_true(taken > PROCESSORS / 10);
}

static void unknown_capability_bits_are_dropped(void **state)
{
    struct cofi_unit_cpu cpu = {.leaf14_ebx = UINT32_MAX, .leaf14_ecx = UINT32_MAX, .leaf14_1_eax = UINT32_MAX, .leaf14_1_ebx = 0x1234,
                                .leaf14_1_ecx = UINT32_MAX, .leaf15_eax = 2, .leaf15_ebx = 84, .leaf15_ecx = 7, .maxphyaddr = 40};
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .cpu = &cpu, .model = "no such model"};
    struct cofi_unit *unit;
    uint32_t a[4], b[4], c[4];
    (void)state;
    assert_int_equal(cofi_unit_open(&unit, &config), 0);
    assert_int_equal(cofi_unit_cpuid(unit, 0x14, 0, a), 0);
    assert_int_equal(cofi_unit_cpuid(unit, 0x14, 1, b), 0);
    assert_int_equal(cofi_unit_cpuid(unit, 0x15, 0, c), 0);
    uint32_t got[] = {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2]};
    uint32_t want[] = {1, 0x3ff, 0x8000000f, 0, 0xffff0707, 0x1234, 0x8003, 0, 2, 84, 7};
    assert_memory_equal(got, want, sizeof want);
    cofi_unit_close(unit);
    cpu.maxphyaddr = 31;
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
    cpu.maxphyaddr = 53;
    assert_int_equal(cofi_unit_open(&unit, &config), COFI_ERR_RANGE);
}

/* A caller of an older header has fewer members, one of a newer has more. */
static void a_config_of_another_version_opens_unless_it_asks_for_what_is_unknown(void **state)
{
    struct { struct cofi_unit_config config; uint64_t more; } newer = {{.size = sizeof newer, .gen = COFI_PT}, 0};
    struct cofi_unit_config older = {.size = offsetof(struct cofi_unit_config, cpu), .gen = COFI_PT, .cpu = (void *)1};
    struct cofi_unit *unit;
    (void)state;
    assert_int_equal(cofi_unit_open(&unit, &newer.config), 0);
    cofi_unit_close(unit);
    newer.more = 1;
    assert_int_equal(cofi_unit_open(&unit, &newer.config), COFI_ERR_UNSUPPORTED);
    assert_int_equal(cofi_unit_open(&unit, &older), 0);
    cofi_unit_close(unit);
    older.size = 0;
    assert_int_equal(cofi_unit_open(&unit, &older), COFI_ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_gp_as_the_reference_says),
        cmocka_unit_test(images_are_gp_as_their_registers_are),
        cmocka_unit_test(unknown_capability_bits_are_dropped),
        cmocka_unit_test(a_config_of_another_version_opens_unless_it_asks_for_what_is_unknown),
    };
    return cmocka_run_group_tests_name("PT: #GP", tests, NULL, NULL);
}
