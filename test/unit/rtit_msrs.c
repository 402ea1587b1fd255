/* SPDX-License-Identifier: MIT
 * RTIT's registers: presence, reset, every field, every #GP [RTIT 3.3]. The rows are typed from the tables. */
#include "unit/rtit_rig.h"

#include <stdio.h>

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

/* writable, read-only and must-be-one bits; all others are reserved. */
static const struct msr {
    uint32_t number;
    uint64_t reset, writable, ignored, ones;
    const char *name;
} msrs[] = {
    {0x760, 0, 0xffffffffffff, 0xffff000000000000, 0, "LIP0 [RTIT 3.3.6, Table 8]"},
    {0x761, 0, 0xffffffffffff, 0xffff000000000000, 0, "LIP1 [RTIT Table 8]"},
    {0x762, 0, 0xffffffffffff, 0xffff000000000000, 0, "LIP2 [RTIT Table 8]"},
    {0x763, 0, 0xffffffffffff, 0xffff000000000000, 0, "LIP3 [RTIT Table 8]"},
    {0x768, 0, 0xff9f, 0, 0, "CTL [RTIT 3.3.2, Table 4]"},
    {0x769, 0, 0x9, 0x6, 0, "STATUS [RTIT 3.3.3]"},
    {0x76b, 0, 0x3fffff, 0, 0, "CNTP [RTIT 3.3.4, Table 5]"},
    {0x76c, 0, 0x3f, 0, 0, "EVENTS [RTIT 3.3.5, Table 6]"},
    {0x76e, 0, 0x1ffffffff, 0, 0, "LAST_LIP [RTIT 3.3.7, Table 9]"},
    {0x76f, 0, 0x1ffffffffffff, 0, 0, "LAST_CALL_NLIP [RTIT 3.3.14, Table 16]"},
    {0x770, 0xfdc00000, 0xfffffffc0, 0, 0, "BASE_ADDR [RTIT 3.3.10, Table 12]"},
    {0x771, 0x7f, 0x3fffc0, 0, 0x3f, "LIMIT_MASK [RTIT 3.3.11, Table 13]"},
    {0x772, 0, 0x3fffff, 0, 0, "OFFSET [RTIT 3.3.12, Table 14]"},
    {0x777, 0, 0xfffffffe0, 0, 0, "CR3_MATCH [RTIT 3.3.8, Table 10]"},
    {0x77c, 0x20000, 0x33fff, 0, 0, "PKT_CNT [RTIT 3.3.9, Table 11]"},
    {0x77d, 1, 0x7f, 0, 0, "TNT_BUFF [RTIT 3.3.13, Table 15]"},
};
enum { MSRS = sizeof msrs / sizeof msrs[0] };

static const struct msr *row(void **state) { return *state; }

static void reset_value(void **state) { assert_int_equal(rig_read(&rig, row(state)->number), row(state)->reset); }

static void each_writable_bit_reads_back(void **state)
{
    const struct msr *m = row(state);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t one = UINT64_C(1) << bit;
        if (!(m->writable & one))
            continue;
        rig_write(&rig, m->number, one | m->ones);
        uint64_t expected = one | m->ones;
        if (m->number == MSR_STATUS && bit == 3)
            expected &= ~UINT64_C(1);
        assert_int_equal(rig_read(&rig, m->number) & ~m->ignored, expected);
    }
}

static void each_reserved_bit_faults(void **state)
{
    const struct msr *m = row(state);
    uint64_t base = m->ones | (m->number == MSR_TNT_BUFF);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t one = UINT64_C(1) << bit;
        if ((m->writable | m->ignored | m->ones) & one)
            continue;
        uint64_t before = rig_read(&rig, m->number);
        assert_int_equal(cofi_unit_wrmsr(rig.unit, m->number, base | one), COFI_ERR_GP);
        assert_int_equal(rig_read(&rig, m->number), before);
    }
}

static void ignored_bits_do_not_fault_and_do_not_change(void **state)
{
    const struct msr *m = row(state);
    uint64_t before = rig_read(&rig, m->number) & m->ignored;
    rig_write(&rig, m->number, m->ignored | m->ones | (m->number == MSR_TNT_BUFF));
    assert_int_equal(rig_read(&rig, m->number) & m->ignored, before);
}

static void bits_reserved_as_one_fault_when_cleared(void **state)
{
    const struct msr *m = row(state);
    for (unsigned bit = 0; bit < 64; bit++)
        if (m->ones >> bit & 1)
            assert_int_equal(cofi_unit_wrmsr(rig.unit, m->number, m->reset & ~(UINT64_C(1) << bit)), COFI_ERR_GP);
}

/* [RTIT 3.3.1] */
static void faults_until_ctl_was_read(void **state)
{
    const struct msr *m = row(state);
    uint64_t value;
    cofi_unit_reset(rig.unit, COFI_RESET_COLD);
    assert_int_equal(cofi_unit_wrmsr(rig.unit, m->number, m->reset), COFI_ERR_GP);
    struct cofi_event write = {.kind = COFI_EV_WRMSR, .msr = m->number, .value = m->reset, .ip = 1, .next = 3};
    assert_int_equal(cofi_unit_event(rig.unit, &write), COFI_ERR_GP);
    if (m->number != MSR_CTL)
        assert_int_equal(cofi_unit_rdmsr(rig.unit, m->number, &value), COFI_ERR_GP);
    assert_int_equal(cofi_unit_rdmsr(rig.unit, MSR_CTL, &value), 0);
    assert_int_equal(cofi_unit_wrmsr(rig.unit, m->number, m->reset), 0);
    assert_int_equal(cofi_unit_rdmsr(rig.unit, m->number, &value), 0);
}

/* "RTIT MSRs are not cleared by INIT" [RTIT 3.3.1]; cold and warm reset clear. */
static void survives_init_and_not_a_reset(void **state)
{
    const struct msr *m = row(state);
    uint64_t value = (m->writable & ~(uint64_t)0x2001) | m->ones; /* not enabling */
    if (m->number == MSR_STATUS)
        value = 1;
    rig_write(&rig, m->number, value);
    uint64_t held = rig_read(&rig, m->number);
    cofi_unit_reset(rig.unit, COFI_RESET_INIT);
    assert_int_equal(rig_read(&rig, m->number), held);
    cofi_unit_reset(rig.unit, COFI_RESET_WARM);
    rig_read(&rig, MSR_CTL);
    assert_int_equal(rig_read(&rig, m->number), m->reset);
}

static void tnt_buff_of_zero_faults(void **state)
{
    (void)state;
    assert_int_equal(cofi_unit_wrmsr(rig.unit, MSR_TNT_BUFF, 0), COFI_ERR_GP);
    assert_int_equal(rig_read(&rig, MSR_TNT_BUFF), 1);
}

/* docs/decisions/0201 */
static void lip_reads_zero_above_bit_47(void **state)
{
    (void)state;
    rig_write(&rig, MSR_LIP0, 0xffff800000001000);
    assert_int_equal(rig_read(&rig, MSR_LIP0), 0x800000001000);
}

static void another_number_is_no_register(void **state)
{
    (void)state;
    uint64_t value;
    for (uint32_t n = 0x750; n < 0x790; n++) {
        bool known = false;
        for (size_t i = 0; i < MSRS; i++)
            known |= msrs[i].number == n;
        assert_int_equal(cofi_unit_rdmsr(rig.unit, n, &value), known ? 0 : COFI_ERR_NOT_FOUND);
        if (!known)
            assert_int_equal(cofi_unit_wrmsr(rig.unit, n, 0), COFI_ERR_NOT_FOUND);
    }
}

/* [RTIT 3.3.3]: every combination of the enables shows in RTIT_STATUS. */
static void status_shows_the_enables(void **state)
{
    (void)state;
    rig_fields(&rig, "");
    assert_int_equal(rig_read(&rig, MSR_STATUS), 2);
    rig_field(&rig, "trace_en", 1);
    assert_int_equal(rig_read(&rig, MSR_STATUS), 3);
    rig_field(&rig, "trace_active", 1);
    assert_int_equal(rig_read(&rig, MSR_STATUS), 7);
    rig_field(&rig, "user", 0);
    assert_int_equal(rig_read(&rig, MSR_STATUS), 5);
    rig_field(&rig, "buffer_overflow", 1);
    assert_int_equal(rig_read(&rig, MSR_STATUS), 13);
}

/* The field names of the manual, snake case, on their bits. */
static void fields_have_the_manuals_names(void **state)
{
    (void)state;
    static const struct { const char *name; uint32_t msr; unsigned lsb; uint64_t max; } fields[] = {
        {"trace_en", 0x768, 0, 1}, {"cycle_acc", 0x768, 1, 1}, {"os", 0x768, 2, 1}, {"user", 0x768, 3, 1},
        {"sts_on_cr3", 0x768, 4, 1}, {"cr3_en", 0x768, 7, 1}, {"dest", 0x768, 8, 1}, {"mtc_en", 0x768, 9, 1},
        {"sts_en", 0x768, 10, 1}, {"cmprs_ret", 0x768, 11, 1}, {"less_pkts", 0x768, 12, 1},
        {"trace_active", 0x768, 13, 1}, {"mtc_range", 0x768, 14, 3}, {"filter_en", 0x769, 0, 1},
        {"buffer_overflow", 0x769, 3, 1}, {"cntp", 0x76b, 0, 0x3fffff}, {"filter_event_id", 0x76c, 0, 7},
        {"tracestop_event_id", 0x76c, 3, 7}, {"cmprs_lip_low", 0x76e, 0, 0xffff},
        {"cmprs_lip_high", 0x76e, 16, 0xffff}, {"cmprs_lip_valid", 0x76e, 32, 1},
        {"call_nlip", 0x76f, 0, 0xffffffffffff}, {"nlip_valid", 0x76f, 48, 1},
        {"base_phys_addr", 0x770, 6, 0x3fffffff}, {"mask_value", 0x771, 6, 0xffff}, {"offset", 0x772, 0, 0x3fffff},
        {"cr3_match", 0x777, 5, 0x7fffffff}, {"pkt_cnt", 0x77c, 0, 0x3fff}, {"pkt_mask", 0x77c, 16, 3},
        {"tnt_buff", 0x77d, 0, 0x7f}, {"lip0", 0x760, 0, 0xffffffffffff}, {"lip3", 0x763, 0, 0xffffffffffff},
        {"lip1", 0x761, 0, 0xffffffffffff}, {"lip2", 0x762, 0, 0xffffffffffff},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t value;
        cofi_unit_reset(rig.unit, COFI_RESET_COLD);
        rig_field(&rig, fields[i].name, fields[i].max);
        assert_int_equal(cofi_unit_get_field(rig.unit, fields[i].name, &value), 0);
        assert_int_equal(value, fields[i].max);
        uint64_t mask = fields[i].max << fields[i].lsb;
        assert_int_equal(rig_read(&rig, fields[i].msr) & mask, mask);
        assert_int_equal(cofi_unit_set_field(rig.unit, fields[i].name, fields[i].max + 1), COFI_ERR_RANGE);
    }
    assert_int_equal(cofi_unit_set_field(rig.unit, "no_such_field", 0), COFI_ERR_NOT_FOUND);
}

static void units_do_not_share_registers(void **state)
{
    (void)state;
    static struct rig other;
    rig_open(&other, NULL);
    rig_write(&rig, MSR_LIP0, 0x1234);
    assert_int_equal(rig_read(&other, MSR_LIP0), 0);
    rig_close(&other);
}

int main(void)
{
    static const struct { const char *name; CMUnitTestFunction test; } each[] = {
        {"reset value", reset_value},
        {"each writable bit reads back", each_writable_bit_reads_back},
        {"each reserved bit faults", each_reserved_bit_faults},
        {"ignored bits do not fault and do not change", ignored_bits_do_not_fault_and_do_not_change},
        {"bits reserved as one fault when cleared", bits_reserved_as_one_fault_when_cleared},
        {"any access faults until RTIT_CTL was read", faults_until_ctl_was_read},
        {"survives INIT, not a reset", survives_init_and_not_a_reset},
    };
    enum { EACH = sizeof each / sizeof each[0] };
    static struct CMUnitTest rows[MSRS * EACH];
    static char names[MSRS * EACH][96];
    for (size_t i = 0; i < MSRS * EACH; i++) {
        snprintf(names[i], sizeof names[i], "%s: %s", msrs[i / EACH].name, each[i % EACH].name);
        rows[i] = (struct CMUnitTest){names[i], each[i % EACH].test, setup, teardown, (void *)(uintptr_t)&msrs[i / EACH]};
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tnt_buff_of_zero_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(lip_reads_zero_above_bit_47, setup, teardown),
        cmocka_unit_test_setup_teardown(another_number_is_no_register, setup, teardown),
        cmocka_unit_test_setup_teardown(status_shows_the_enables, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_have_the_manuals_names, setup, teardown),
        cmocka_unit_test_setup_teardown(units_do_not_share_registers, setup, teardown),
    };
    ADD_TESTS(rows);
    ADD_TESTS(tests);
    return run_suite();
}
