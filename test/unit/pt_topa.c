/* SPDX-License-Identifier: MIT
 * Output to memory: single range and ToPA, their errors, STOP, INT, links, wrap, and the readers.
 * [SDM Trace Output, PTREF 4] */
#include "pt_memory.h"
#include "pt_rig.h"

#include <stdlib.h>
#include <string.h>

enum { T0 = 0x10000, T1 = 0x11000, R0 = 0x100000, R1 = 0x200000, R2 = 0x300000 };
static const uint64_t ctl = TRACE_EN | USER | BRANCH_EN | DIS_RETC;

struct bench {
    struct pt_rig rig, plain; /* plain: the same events into a sink */
    struct pt_memory *memory;
};

static int setup(void **state)
{
    struct bench *bench = malloc(sizeof *bench);
    bench->memory = memory_new();
    rig_open(&bench->rig, &(struct cofi_unit_config){.memory = memory_access(bench->memory)});
    rig_open(&bench->plain, NULL);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    rig_close(&bench->rig);
    rig_close(&bench->plain);
    free(bench->memory);
    free(bench);
    return 0;
}

static void start(struct bench *bench, uint64_t base, uint64_t mask_ptrs, uint64_t more)
{
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_OUTPUT_BASE, base), 0);
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_OUTPUT_MASK_PTRS, mask_ptrs), 0);
    bench->rig.context.cpl = bench->plain.context.cpl = 3;
    cofi_unit_context(bench->rig.unit, &bench->rig.context, 0x401000);
    cofi_unit_context(bench->plain.unit, &bench->plain.context, 0x401000);
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, ctl | more), 0);
    assert_int_equal(cofi_unit_wrmsr(bench->plain.unit, MSR_CTL, ctl), 0);
}

/* n indirect jumps, each a TIP of up to 7 bytes, of a pattern that differs everywhere. */
static void jump(struct bench *bench, unsigned n)
{
    uint64_t target = 0x401000;
    for (unsigned i = 0; i < n; i++) {
        uint64_t from = target;
        target = 0x401000 + (i * 2654435761u & 0x7ffffff0) + ((uint64_t)(i % 3) << 40);
        rig_near(&bench->rig, COFI_EV_JMP_IND, from, 2, target);
        rig_near(&bench->plain, COFI_EV_JMP_IND, from, 2, target);
    }
}

static void stop(struct bench *bench)
{
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, 0), 0);
    assert_int_equal(cofi_unit_wrmsr(bench->plain.unit, MSR_CTL, 0), 0);
}

static uint64_t status(struct bench *bench) { return rig_msr(&bench->rig, MSR_STATUS); }

static void read_back(struct bench *bench, uint64_t table, int wrapped)
{
    struct cofi_memory memory = memory_access(bench->memory);
    struct cofi_sink to = memory_reader(bench->memory);
    struct cofi_topa_place place = {.table = table, .base = rig_msr(&bench->rig, MSR_OUTPUT_BASE),
                                    .mask_ptrs = rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), .maxphyaddr = 46,
                                    .wrapped = wrapped};
    struct cofi_error error;
    int result = table ? cofi_output_read_topa(&memory, &place, &to, &error)
                       : cofi_output_read_range(&memory, place.base, place.mask_ptrs, wrapped, &to, &error);
    assert_int_equal(result, 0);
}

/* Everything that the plain unit made is what the reader gave. */
static void expect_all(struct bench *bench)
{
    assert_int_equal(bench->memory->back_size, bench->plain.size);
    assert_memory_equal(bench->memory->back, bench->plain.bytes, bench->plain.size);
}

/* What the reader gave is the newest part of the stream. */
static void expect_newest(struct bench *bench)
{
    assert_true(bench->memory->back_size < bench->plain.size);
    assert_memory_equal(bench->memory->back, bench->plain.bytes + bench->plain.size - bench->memory->back_size,
                        bench->memory->back_size);
}

/* ---- single range ---- */

/* [PTREF 4.2; SDM Single Range Output] */
static void single_range_is_read_back(void **state)
{
    struct bench *bench = *state;
    start(bench, R0, 0xffff, 0);
    jump(bench, 1000);
    stop(bench);
    read_back(bench, 0, 0);
    expect_all(bench);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), (uint64_t)bench->plain.size << 32 | 0xffff);
}

static void single_range_wraps_and_keeps_the_newest(void **state)
{
    struct bench *bench = *state;
    start(bench, R0, 0x7f, 0);
    jump(bench, 1000);
    stop(bench);
    read_back(bench, 0, 1);
    assert_int_equal(bench->memory->back_size, 128);
    expect_newest(bench);
    assert_int_equal(status(bench) & 0x30, 0);
    assert_int_equal(bench->rig.pmis, 0);
}

static void single_range_starts_at_its_offset(void **state)
{
    struct bench *bench = *state;
    start(bench, R0, UINT64_C(0x100) << 32 | 0xfff, 0);
    jump(bench, 10);
    stop(bench);
    assert_memory_equal(bench->memory->bytes + R0 + 0x100, bench->plain.bytes, bench->plain.size);
}

static void expect_error(struct bench *bench, uint64_t base, uint64_t mask_ptrs, uint64_t more)
{
    start(bench, base, mask_ptrs, more);
    jump(bench, 10);
    assert_int_equal(status(bench) & 0x34, 0x10);
    assert_int_equal(rig_msr(&bench->rig, MSR_CTL) & TRACE_EN, TRACE_EN);
    assert_int_equal(cofi_unit_bytes(bench->rig.unit), 0);
}

/* [SDM Operational Errors; PTREF 4.5] */
static void single_range_mask_with_a_hole_is_an_operational_error(void **state) { expect_error(*state, 0, 0xf7ff, 0); }
static void single_range_base_not_aligned_is_an_operational_error(void **state) { expect_error(*state, R0 + 0x80, 0xfff, 0); }
static void single_range_offset_beyond_the_mask_is_an_operational_error(void **state)
{
    expect_error(*state, R0, UINT64_C(0x1000) << 32 | 0xfff, 0);
}

/* ---- ToPA ---- */

static void two_regions(struct bench *bench, uint64_t flags0, uint64_t flags1, uint64_t end)
{
    memory_entry(bench->memory, T0, 0, R0 | flags0);
    memory_entry(bench->memory, T0, 1, R1 | flags1);
    memory_entry(bench->memory, T0, 2, end | TOPA_END);
}

/* [PTREF 4.3; PTREF 4.4; SDM Table of Physical Addresses (ToPA)] */
static void packets_straddle_regions(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 800);
    assert_true(bench->rig.size == 0);
    stop(bench);
    assert_true(bench->plain.size > 4096 && bench->plain.size < 8192);
    read_back(bench, T0, 0);
    expect_all(bench);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), (uint64_t)(bench->plain.size - 4096) << 32 | 1 << 7 | 0x7f);
}

static void a_table_that_links_to_itself_is_a_circle(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 5000);
    stop(bench);
    read_back(bench, T0, 1);
    assert_int_equal(bench->memory->back_size, 8192);
    expect_newest(bench);
}

static void tables_link_to_tables(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T1);
    memory_entry(bench->memory, T1, 0, R2 | TOPA_SIZE(4));
    memory_entry(bench->memory, T1, 1, T0 | TOPA_END);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 2500);
    stop(bench);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T1);
    read_back(bench, T0, 0);
    expect_all(bench);
}

static void a_link_is_followed_as_soon_as_the_region_before_it_is_full(void **state)
{
    struct bench *bench = *state;
    memory_entry(bench->memory, T0, 0, R0);
    memory_entry(bench->memory, T0, 1, T1 | TOPA_END);
    memory_entry(bench->memory, T1, 0, R1);
    memory_entry(bench->memory, T1, 1, T0 | TOPA_END);
    start(bench, T0, (UINT64_C(4096) - 31) << 32 | 0x7f, TOPA); /* 31 bytes: what enabling makes */
    assert_int_equal(cofi_unit_bytes(bench->rig.unit), 31);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T1);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), 0x7f);
}

/* [SDM ToPA PMI] */
static void int_raises_a_pmi_each_time_its_region_fills(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, TOPA_INT, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    while (cofi_unit_bytes(bench->rig.unit) < 4096)
        jump(bench, 1);
    assert_int_equal(bench->rig.pmis, 1);
    while (cofi_unit_bytes(bench->rig.unit) < 8192 + 4096)
        jump(bench, 1);
    assert_int_equal(bench->rig.pmis, 2);
    assert_int_equal(status(bench) & 0x34, 4);
}

/* [SDM ToPA STOP] */
static void stop_leaves_the_offset_at_the_region_size(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, TOPA_STOP, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 5000);
    assert_int_equal(status(bench) & 0x34, 0x20);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), UINT64_C(4096) << 32 | 1 << 7 | 0x7f);
    stop(bench);
    read_back(bench, T0, 0);
    assert_int_equal(bench->memory->back_size, 8192);
    assert_memory_equal(bench->memory->back, bench->plain.bytes, 8192); /* cut in a packet, nothing after it */
}

static void stop_with_int_raises_the_pmi_too(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, TOPA_STOP | TOPA_INT, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 5000);
    assert_int_equal(bench->rig.pmis, 1);
    assert_int_equal(status(bench) & 0x34, 0x20);
}

static void enabling_again_after_a_stop_with_the_offset_unchanged_is_an_error(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, TOPA_STOP, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 1000);
    stop(bench);
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_STATUS, 0), 0);
    assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_CTL, ctl | TOPA), 0);
    assert_int_equal(status(bench) & 0x34, 0x10);
}

static void expect_topa_error(struct bench *bench, uint64_t entry)
{
    memory_entry(bench->memory, T0, 0, entry);
    expect_error(bench, T0, 0x7f, TOPA);
}

/* [SDM ToPA Errors] */
static void reserved_bit_1_is_an_error(void **state) { expect_topa_error(*state, R0 | 2); }
static void reserved_bit_3_is_an_error(void **state) { expect_topa_error(*state, R0 | 8); }
static void reserved_bit_5_is_an_error(void **state) { expect_topa_error(*state, R0 | 0x20); }
static void reserved_bit_10_is_an_error(void **state) { expect_topa_error(*state, R0 | 0x400); }
static void reserved_bit_11_is_an_error(void **state) { expect_topa_error(*state, R0 | 0x800); }
static void region_not_aligned_to_its_size_is_an_error(void **state) { expect_topa_error(*state, (R0 + 0x1000) | TOPA_SIZE(1)); }
static void region_beyond_maxphyaddr_is_an_error(void **state) { expect_topa_error(*state, UINT64_C(1) << 46); }
static void end_in_entry_0_is_an_error(void **state) { expect_topa_error(*state, T1 | TOPA_END); }
static void table_base_not_4k_aligned_is_an_error(void **state) { expect_error(*state, T0 + 0x80, 0x7f, TOPA); }
static void table_in_no_memory_is_an_error(void **state) { expect_error(*state, MEMORY_BYTES, 0x7f, TOPA); }

static void offset_beyond_the_region_is_an_error(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T0);
    expect_error(bench, T0, UINT64_C(4096) << 32 | 0x7f, TOPA);
}

/* [SDM Restricted Memory Access] */
static void table_in_restricted_memory_is_an_error(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T0);
    bench->memory->restricted = T0;
    bench->memory->restricted_end = T0 + 4096;
    expect_error(bench, T0, 0x7f, TOPA);
}

/* A bad entry 1 is no error before entry 0 is full; then the registers point to it, or to where it leads. */
static void expect_late_error_at(struct bench *bench, uint64_t entry, uint64_t table, unsigned index)
{
    memory_entry(bench->memory, T0, 0, R0);
    memory_entry(bench->memory, T0, 1, entry);
    start(bench, T0, 0x7f, TOPA);
    while (cofi_unit_bytes(bench->rig.unit) < 4000)
        jump(bench, 1);
    assert_int_equal(status(bench) & 0x34, 4);
    jump(bench, 100);
    assert_int_equal(status(bench) & 0x34, 0x10);
    cofi_unit_drain(bench->plain.unit);
    assert_memory_equal(bench->memory->bytes + R0, bench->plain.bytes, 4096);
    stop(bench);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), table);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), index << 7 | 0x7f);
}

static void expect_late_error(struct bench *bench, uint64_t entry) { expect_late_error_at(bench, entry, T0, 1); }

static void a_bad_entry_is_found_when_it_is_reached(void **state) { expect_late_error(*state, R1 | 2); }
static void int_with_end_is_an_error(void **state) { expect_late_error(*state, T0 | TOPA_END | TOPA_INT); }
static void stop_with_end_is_an_error(void **state) { expect_late_error(*state, T0 | TOPA_END | TOPA_STOP); }
static void link_to_a_table_that_begins_with_end_is_an_error(void **state)
{
    struct bench *bench = *state;
    memory_entry(bench->memory, T1, 0, T0 | TOPA_END);
    expect_late_error_at(bench, T1 | TOPA_END, T1, 0);
}

static void link_to_a_table_with_a_bad_entry_is_an_error(void **state)
{
    struct bench *bench = *state;
    memory_entry(bench->memory, T1, 0, R1 | 8);
    expect_late_error_at(bench, T1 | TOPA_END, T1, 0);
}

static void link_into_restricted_memory_is_an_error(void **state)
{
    struct bench *bench = *state;
    bench->memory->restricted = T1;
    bench->memory->restricted_end = T1 + 8;
    expect_late_error_at(bench, T1 | TOPA_END, T1, 0);
}

static void link_beyond_maxphyaddr_is_an_error(void **state) { expect_late_error(*state, UINT64_C(1) << 46 | TOPA_END); }
static void link_not_4k_aligned_is_an_error(void **state) { expect_late_error(*state, (T1 + 0x800) | TOPA_END); }

/* Size is of no interest in a link [PTREF 4.3]. */
static void a_link_ignores_its_size(void **state)
{
    struct bench *bench = *state;
    memory_entry(bench->memory, T0, 0, R0);
    memory_entry(bench->memory, T0, 1, T1 | TOPA_END | TOPA_SIZE(15));
    memory_entry(bench->memory, T1, 0, R1);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 800);
    assert_int_equal(status(bench) & 0x34, 4);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T1);
}

/* [PTREF 4.3]: 4 KiB << Size, to the byte. */
static void regions_have_every_size(void **state)
{
    struct bench *bench = *state;
    for (unsigned size = 0; size < 16; size++) {
        uint64_t bytes = UINT64_C(4096) << size;
        cofi_unit_reset(bench->rig.unit, COFI_RESET_COLD);
        memory_entry(bench->memory, T0, 0, (size < 12 ? bytes : 0) | TOPA_SIZE(size) | TOPA_STOP);
        start(bench, T0, bytes << 32 | 0x7f, TOPA);
        assert_int_equal(status(bench) & 0x34, 0x10);
        stop(bench);
        assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_STATUS, 0), 0);
        start(bench, T0, (bytes - 40) << 32 | 0x7f, TOPA);
        assert_int_equal(status(bench) & 0x34, 4);
        jump(bench, 10);
        assert_int_equal(status(bench) & 0x34, 0x20);
        stop(bench);
        assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS) >> 32, bytes);
        if (size < 11)
            assert_memory_equal(bench->memory->bytes + 2 * bytes - 40, "\x02\x82\x02\x82\x02\x82\x02\x82", 8);
        if (size > 0) { /* alignment is to that size */
            memory_entry(bench->memory, T0, 0, bytes / 2 | TOPA_SIZE(size));
            assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_STATUS, 0), 0);
            start(bench, T0, 0x7f, TOPA);
            assert_int_equal(status(bench) & 0x34, 0x10);
            stop(bench);
        }
    }
}

/* Physical memory of 4 GiB and more, every table entry a region of 4 KiB at 0; the last byte's address is kept. */
static int any_entry(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    (void)opaque, (void)address;
    memset(bytes, 0, n);
    return 0;
}

static int any_store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)bytes;
    *(uint64_t *)opaque = address + n;
    return 0;
}

static void open_huge(struct bench *bench, uint64_t *end)
{
    rig_close(&bench->rig);
    rig_open(&bench->rig, &(struct cofi_unit_config){.memory = {any_entry, any_store, end}});
}

/* [PTREF 6.9]: a table without END ends at the offset field's last index. */
static void the_last_index_is_followed_by_entry_0(void **state)
{
    struct bench *bench = *state;
    uint64_t end = 0;
    open_huge(bench, &end);
    start(bench, 0, (UINT64_C(4096) - 30) << 32 | 0xffffffff, TOPA);
    assert_int_equal(status(bench) & 0x34, 4);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), UINT64_C(1) << 32 | 0x7f);
}

static void a_single_range_of_4_gib_wraps(void **state)
{
    struct bench *bench = *state;
    uint64_t end = 0;
    open_huge(bench, &end);
    start(bench, UINT64_C(1) << 32, UINT64_C(0xfffffff0) << 32 | 0xffffffff, 0);
    assert_int_equal(status(bench) & 0x34, 4);
    assert_int_equal(end, (UINT64_C(1) << 32) + 15);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), UINT64_C(15) << 32 | 0xffffffff);
}

/* [SDM Restricted Memory Access] */
static void stores_of_a_single_range_to_restricted_memory_are_dropped(void **state)
{
    struct bench *bench = *state;
    bench->memory->restricted = R0;
    bench->memory->restricted_end = R0 + 128;
    start(bench, R0, 0xfff, 0);
    jump(bench, 100);
    assert_int_equal(status(bench) & 0x34, 4);
    stop(bench);
    assert_int_equal(bench->memory->bytes[R0], 0);
    assert_memory_equal(bench->memory->bytes + R0 + 160, bench->plain.bytes + 160, 100);
}

/* ---- what enabling and resets do to the registers ---- */

/* [PTREF 2; SDM Warm Reset] */
static void a_warm_reset_leaves_the_registers_where_the_output_was(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T1);
    memory_entry(bench->memory, T1, 0, R2 | TOPA_SIZE(4));
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 2500);
    cofi_unit_reset(bench->rig.unit, COFI_RESET_WARM);
    cofi_unit_drain(bench->plain.unit);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T1);
    read_back(bench, T0, 0);
    expect_all(bench);
    assert_int_equal(status(bench) & 0x37, 0);
}

static void enabling_while_stopped_moves_no_register(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T1);
    for (unsigned bit = 4; bit <= 5; bit++) {
        assert_int_equal(cofi_unit_wrmsr(bench->rig.unit, MSR_STATUS, UINT64_C(1) << bit), 0);
        start(bench, T0, 2 << 7 | 0x7f, TOPA); /* at the link, which would be followed */
        assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T0);
        stop(bench);
        assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T0);
        assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS), 2 << 7 | 0x7f);
        assert_int_equal(status(bench) & 0x34, UINT64_C(1) << bit);
    }
    assert_int_equal(cofi_unit_bytes(bench->rig.unit), 0);
}

static void enabling_at_a_link_follows_it(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T1);
    memory_entry(bench->memory, T1, 0, R2);
    start(bench, T0, 2 << 7 | 0x7f, TOPA);
    assert_int_equal(status(bench) & 0x34, 4);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T1);
    assert_memory_equal(bench->memory->bytes + R2, "\x02\x82\x02\x82", 4);
}

static void ask_status(void *opaque)
{
    struct pt_rig *rig = opaque;
    rig->pmis = (unsigned)rig_msr(rig, MSR_STATUS);
}

/* [PTREF 4.4]: the PMI comes after the stop. */
static void the_pmi_of_a_stop_finds_it_stopped(void **state)
{
    struct bench *bench = *state;
    rig_close(&bench->rig);
    rig_open(&bench->rig, &(struct cofi_unit_config){.memory = memory_access(bench->memory), .pmi = ask_status, .opaque = &bench->rig});
    two_regions(bench, TOPA_STOP | TOPA_INT, 0, T0);
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 1000);
    assert_int_equal(bench->rig.pmis & 0x34, 0x20);
}

static void stores_to_restricted_regions_are_dropped(void **state)
{
    struct bench *bench = *state;
    two_regions(bench, 0, 0, T0);
    bench->memory->restricted = R0;
    bench->memory->restricted_end = R0 + 4096;
    start(bench, T0, 0x7f, TOPA);
    jump(bench, 1000);
    assert_int_equal(status(bench) & 0x34, 4);
    stop(bench);
    assert_memory_equal(bench->memory->bytes + R1, bench->plain.bytes + 4096, 1000);
    assert_int_equal(bench->memory->bytes[R0], 0);
}

/* ---- parts with one entry ---- */

static void single(struct bench *bench)
{
    rig_close(&bench->rig);
    rig_open(&bench->rig, &(struct cofi_unit_config){.model = "broadwell", .memory = memory_access(bench->memory)});
    memory_entry(bench->memory, T0, 0, R0 | TOPA_INT | TOPA_STOP);
    memory_entry(bench->memory, T0, 1, T0 | TOPA_END);
}

/* [PTREF 4.6; PTREF 1.2] */
static void one_entry_parts_interrupt_before_the_region_is_full(void **state)
{
    struct bench *bench = *state;
    single(bench);
    start(bench, T0, 0x7f, TOPA);
    while (!bench->rig.pmis)
        jump(bench, 1);
    assert_in_range(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS) >> 32, 3000, 4095);
    assert_int_equal(status(bench) & 0x34, 4);
    jump(bench, 1000);
    assert_int_equal(status(bench) & 0x34, 0x20);
    assert_int_equal(bench->rig.pmis, 1);
}

static void one_entry_parts_that_begin_behind_that_point_interrupt_when_full(void **state)
{
    struct bench *bench = *state;
    single(bench);
    start(bench, T0, UINT64_C(4000) << 32 | 0x7f, TOPA);
    assert_int_equal(bench->rig.pmis, 0);
    jump(bench, 100);
    assert_int_equal(bench->rig.pmis, 1);
    assert_int_equal(status(bench) & 0x34, 0x20);
}

static void one_entry_parts_wrap_and_interrupt_each_time(void **state)
{
    struct bench *bench = *state;
    single(bench);
    memory_entry(bench->memory, T0, 0, R0 | TOPA_INT);
    start(bench, T0, 0x7f, TOPA);
    while (cofi_unit_bytes(bench->rig.unit) < 3 * 4096 + 100)
        jump(bench, 1);
    assert_int_equal(bench->rig.pmis, 3);
    assert_int_equal(status(bench) & 0x34, 4);
}

static void one_entry_parts_may_begin_at_the_link_back(void **state)
{
    struct bench *bench = *state;
    single(bench);
    start(bench, T0, 1 << 7 | 0x7f, TOPA);
    assert_int_equal(status(bench) & 0x34, 4);
    stop(bench);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_MASK_PTRS) & UINT32_MAX, 0x7f);
}

static void one_entry_parts_that_begin_at_a_link_elsewhere_fail(void **state)
{
    struct bench *bench = *state;
    single(bench);
    memory_entry(bench->memory, T0, 1, T1 | TOPA_END);
    memory_entry(bench->memory, T1, 0, R1);
    memory_entry(bench->memory, T1, 1, T1 | TOPA_END);
    expect_error(bench, T0, 1 << 7 | 0x7f, TOPA);
}

static void one_entry_parts_need_end_in_entry_1(void **state)
{
    struct bench *bench = *state;
    single(bench);
    memory_entry(bench->memory, T0, 1, R1);
    expect_error(bench, T0, 0x7f, TOPA);
}

static void one_entry_parts_need_entry_1_to_lead_back(void **state)
{
    struct bench *bench = *state;
    single(bench);
    memory_entry(bench->memory, T0, 1, T1 | TOPA_END);
    expect_error(bench, T0, 0x7f, TOPA);
}

/* ---- others ---- */

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)opaque += n;
    return 0;
}

/* [SDM Trace Transport Subsystem; PTREF 4.1] */
static void fabric_ignores_topa_and_goes_to_the_sink(void **state)
{
    struct bench *bench = *state;
    size_t got = 0;
    rig_close(&bench->rig);
    rig_open(&bench->rig, &(struct cofi_unit_config){.memory = memory_access(bench->memory), .sink = {take, &got}});
    start(bench, T0, 0x7f, TOPA | FABRIC_EN); /* no table is there */
    jump(bench, 10);
    stop(bench);
    assert_int_equal(got, bench->plain.size);
    assert_int_equal(rig_msr(&bench->rig, MSR_OUTPUT_BASE), T0);
}

static void a_sink_that_refuses_is_an_operational_error_and_told(void **state)
{
    struct bench *bench = *state;
    struct pt_rig *rig = &bench->plain;
    rig->limit = 3000;
    rig_start(rig, ctl, 3, 0x401000);
    int result = 0;
    for (unsigned i = 0; i < 3000 && result == 0; i++)
        result = cofi_unit_event(rig->unit, &(struct cofi_event){.kind = COFI_EV_JMP_IND, .ip = 0x401000, .next = 0x401002,
                                                                 .target = i & 1 ? 0x401000 : 0x7fff00000000});
    assert_int_equal(result, COFI_ERR_FULL);
    assert_int_equal(rig_msr(rig, MSR_STATUS) & 0x34, 0x10);
    assert_true(rig->size <= 3000);
}

static int stop_by(struct cofi_unit *unit, unsigned way)
{
    uint8_t image[COFI_XSAVE_BYTES];
    switch (way) {
    case 0: return cofi_unit_wrmsr(unit, MSR_CTL, 0);
    case 1: return cofi_unit_set_field(unit, "trace_en", 0);
    default: return cofi_unit_xsaves(unit, image);
    }
}

/* What stops flushes what the sink then refuses, and tells it once. */
static void whatever_stops_tells_what_the_sink_refused(void **state)
{
    struct bench *bench = *state;
    struct pt_rig *rig = &bench->plain;
    for (unsigned way = 0; way < 3; way++) {
        rig->limit = RIG_BYTES;
        rig_start(rig, ctl, 3, 0x401000);
        cofi_unit_drain(rig->unit);
        rig->limit = rig->size;
        assert_int_equal(cofi_unit_tip(rig->unit, 0x402000), 0);
        assert_int_equal(stop_by(rig->unit, way), COFI_ERR_FULL);
        assert_int_equal(rig_msr(rig, MSR_CTL) & 1, 0);
        assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_STATUS, 0), 0);
    }
}

static void the_reader_refuses_registers_that_fit_nothing(void **state)
{
    struct bench *bench = *state;
    struct cofi_memory memory = memory_access(bench->memory);
    struct cofi_sink to = memory_reader(bench->memory);
    struct cofi_error error;
    two_regions(bench, 0, 0, T0);
    struct cofi_topa_place place = {.table = T1, .base = T0, .mask_ptrs = 0x7f, .maxphyaddr = 46};
    memory_entry(bench->memory, T1, 0, R2);
    memory_entry(bench->memory, T1, 1, T1 | TOPA_END); /* never comes to T0 */
    to.write = take;
    size_t got = 0;
    to.opaque = &got;
    place.maxphyaddr = 13; /* R2 is beyond it, so that the walk ends soon */
    assert_int_equal(cofi_output_read_topa(&memory, &place, &to, &error), COFI_ERR_RANGE);
    assert_int_equal(cofi_output_read_range(&memory, R0 + 0x80, 0xfff, 0, &to, &error), COFI_ERR_RANGE);
    assert_int_equal(cofi_output_read_range(&memory, R0, 0xf7f, 0, &to, &error), COFI_ERR_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(single_range_is_read_back), T(single_range_wraps_and_keeps_the_newest), T(single_range_starts_at_its_offset),
        T(single_range_mask_with_a_hole_is_an_operational_error),
        T(single_range_base_not_aligned_is_an_operational_error),
        T(single_range_offset_beyond_the_mask_is_an_operational_error), T(packets_straddle_regions),
        T(a_table_that_links_to_itself_is_a_circle), T(tables_link_to_tables),
        T(a_link_is_followed_as_soon_as_the_region_before_it_is_full), T(int_raises_a_pmi_each_time_its_region_fills),
        T(stop_leaves_the_offset_at_the_region_size), T(stop_with_int_raises_the_pmi_too),
        T(enabling_again_after_a_stop_with_the_offset_unchanged_is_an_error), T(reserved_bit_1_is_an_error),
        T(reserved_bit_3_is_an_error), T(reserved_bit_5_is_an_error), T(reserved_bit_10_is_an_error),
        T(reserved_bit_11_is_an_error), T(region_not_aligned_to_its_size_is_an_error),
        T(region_beyond_maxphyaddr_is_an_error), T(end_in_entry_0_is_an_error), T(table_base_not_4k_aligned_is_an_error),
        T(table_in_no_memory_is_an_error), T(offset_beyond_the_region_is_an_error),
        T(table_in_restricted_memory_is_an_error), T(a_bad_entry_is_found_when_it_is_reached),
        T(int_with_end_is_an_error), T(stop_with_end_is_an_error), T(link_to_a_table_that_begins_with_end_is_an_error),
        T(link_to_a_table_with_a_bad_entry_is_an_error), T(link_into_restricted_memory_is_an_error),
        T(link_beyond_maxphyaddr_is_an_error), T(link_not_4k_aligned_is_an_error), T(a_link_ignores_its_size),
        T(regions_have_every_size), T(the_last_index_is_followed_by_entry_0), T(a_single_range_of_4_gib_wraps),
        T(stores_of_a_single_range_to_restricted_memory_are_dropped),
        T(a_warm_reset_leaves_the_registers_where_the_output_was), T(enabling_while_stopped_moves_no_register),
        T(enabling_at_a_link_follows_it), T(the_pmi_of_a_stop_finds_it_stopped),
        T(one_entry_parts_that_begin_behind_that_point_interrupt_when_full), T(one_entry_parts_wrap_and_interrupt_each_time),
        T(one_entry_parts_may_begin_at_the_link_back), T(one_entry_parts_that_begin_at_a_link_elsewhere_fail),
        T(stores_to_restricted_regions_are_dropped), T(one_entry_parts_interrupt_before_the_region_is_full),
        T(one_entry_parts_need_end_in_entry_1), T(one_entry_parts_need_entry_1_to_lead_back),
        T(fabric_ignores_topa_and_goes_to_the_sink), T(a_sink_that_refuses_is_an_operational_error_and_told),
        T(whatever_stops_tells_what_the_sink_refused),
        T(the_reader_refuses_registers_that_fit_nothing),
    };
    return cmocka_run_group_tests_name("PT output", tests, NULL, NULL);
}
