/* SPDX-License-Identifier: MIT
 * Output: addresses, lines, partial lines, order, TraceSTOP's place [RTIT 2.3, RTIT 3.3.10, RTIT 3.3.11, RTIT 3.3.12]. */
#include "unit/rtit_rig.h"

#include <string.h>

#include <cofi/output.h>

/* Memory that notes every write. */
static struct {
    uint8_t bytes[1 << 12]; /* at BASE */
    struct { uint64_t address; size_t n; } writes[512];
    size_t n;
    struct cofi_reorder *reorder;
} memory;
enum { BASE = 0x100000 };

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    if (address < BASE || address + n > BASE + sizeof memory.bytes)
        return COFI_ERR_RANGE;
    memcpy(memory.bytes + (address - BASE), bytes, n);
    memory.writes[memory.n % 512].address = address;
    memory.writes[memory.n++ % 512].n = n;
    if (memory.reorder)
        assert_int_equal(cofi_reorder_write(memory.reorder, (uint32_t)(address - BASE), bytes, n), 0);
    return 0;
}

static struct rig rig;

/* A unit that writes to [BASE, BASE + mask], from offset on, enabled. */
static void open_at(uint64_t base, uint64_t mask, uint64_t offset, uint32_t weak, bool dest)
{
    struct cofi_unit_config config = {.memory = {.write = store}, .weak_lines = weak, .weak_seed = 7};
    memset(&memory, 0, sizeof memory);
    rig_open(&rig, &config);
    rig_write(&rig, MSR_BASE_ADDR, base);
    rig_write(&rig, MSR_LIMIT_MASK, mask);
    rig_write(&rig, MSR_OFFSET, offset);
    rig_fields(&rig, dest ? "dest=1" : "");
}

static void a_byte_goes_to_base_plus_offset(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x45, 0, true);
    rig_enable(&rig); /* PSB, 9 bytes; PGE 800, 3 bytes */
    assert_int_equal(memory.bytes[0x45], 0xc0);
    assert_int_equal(memory.bytes[0x4e], 0x84);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 0x51);
    rig_close(&rig);
}

/* docs/decisions/0202 */
static void a_base_bit_that_is_set_in_the_mask_counts_as_zero(void **state)
{
    (void)state;
    open_at(BASE + 0x40, 0x7f, 0, 0, true);
    rig_enable(&rig);
    assert_int_equal(memory.bytes[0], 0xc0);
    rig_close(&rig);
}

static void the_region_is_circular(void **state)
{
    (void)state;
    open_at(BASE, 0x7f, 0x7c, 0, true);
    rig_enable(&rig);
    assert_int_equal(memory.bytes[0x7c], 0xc0);
    assert_int_equal(memory.bytes[0x5], 0x84); /* 9 bytes on */
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 0x8);
    for (size_t i = 0x80; i < sizeof memory.bytes; i++)
        assert_int_equal(memory.bytes[i], 0);
    rig_close(&rig);
}

static void an_unaligned_offset_begins_with_a_partial_line_and_a_drain_ends_with_one(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x3e, 0, true);
    rig_field(&rig, "trace_en", 1);
    rig_field(&rig, "trace_active", 1);
    assert_int_equal(memory.writes[0].address, BASE + 0x3e);
    assert_int_equal(memory.writes[0].n, 2);
    assert_int_equal(memory.writes[1].address, BASE + 0x40);
    assert_int_equal(memory.writes[1].n, 10); /* 7 of the PSB, 3 of PGE; the write of RTIT_CTL drains */
    rig_close(&rig);
}

static void lines_are_never_crossed(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0, 0, true);
    rig_enable(&rig);
    for (int i = 0; i < 100; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, i % 2 ? 0x111100000000 : 0x222200000000);
    cofi_unit_drain(rig.unit);
    uint64_t next = BASE;
    for (size_t i = 0; i < memory.n; i++) {
        assert_int_equal(memory.writes[i].address, next);
        assert_true((memory.writes[i].address & 63) + memory.writes[i].n <= 64);
        next += memory.writes[i].n;
    }
    assert_int_equal(next - BASE, 12 + 700);
    rig_close(&rig);
}

/* Reset leaves the output directed to a port of 128 bytes at FDC00000, written in a circle [RTIT 2.3.1]. */
static struct { uint8_t bytes[1024]; size_t n; bool outside, backwards; uint64_t next; } port;
static int write_port(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    port.outside |= address < 0xfdc00000 || address + n > 0xfdc00080;
    port.backwards |= address != port.next;
    port.next = address + n == 0xfdc00080 ? 0xfdc00000 : address + n;
    assert_true(port.n + n <= sizeof port.bytes);
    memcpy(port.bytes + port.n, bytes, n);
    port.n += n;
    return 0;
}

static void a_debug_port_sees_every_byte_in_order(void **state)
{
    (void)state;
    struct cofi_unit_config config = {.memory = {.write = write_port}};
    struct plain_state plain = {0};
    struct plain_packet packet;
    size_t tips = 0;
    memset(&port, 0, sizeof port);
    port.next = 0xfdc00000;
    rig_open(&rig, &config);
    rig_fields(&rig, "dest=1");
    rig_enable(&rig);
    for (int i = 0; i < 100; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, i % 2 ? 0x111100000000 : 0x222200000000);
    cofi_unit_drain(rig.unit);
    assert_false(port.outside);
    assert_false(port.backwards);
    for (size_t at = 0; at < port.n; at += packet.size) {
        assert_true(plain_read(&plain, port.bytes + at, port.n - at, &packet) > 0);
        tips += packet.kind == PLAIN_TIP;
    }
    assert_int_equal(tips, 100);
    rig_close(&rig);
}

static void tracestop_with_dest_clear_goes_to_c0(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x200, 0, false);
    rig_fields(&rig, "tracestop_event_id=0 lip0=10 lip2=20");
    rig_enable(&rig);
    branch(&rig, COFI_EV_JMP, 1, 3, 0x10);
    assert_int_equal(memory.bytes[0x2c0], 0xc1);
    assert_int_equal(memory.writes[memory.n - 1].address, BASE + 0x2c0);
    assert_int_equal(memory.writes[memory.n - 1].n, 1);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 0x20d);
    rig_close(&rig);
}

/* What came before it is in memory before it [RTIT Table 4] (docs/decisions/0210). */
static void tracestop_at_c0_is_the_last_write(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x200, 4, false);
    rig_fields(&rig, "tracestop_event_id=0 lip0=10 lip2=20");
    rig_enable(&rig);
    for (int i = 0; i < 30; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, i % 2 ? 0x111100000000 : 0x222200000000);
    branch(&rig, COFI_EV_JMP, 1, 3, 0x10);
    size_t bytes = 0;
    for (size_t i = 0; i < memory.n; i++)
        bytes += memory.writes[i].n;
    assert_int_equal(memory.writes[memory.n - 1].address, BASE + 0x2c0);
    assert_int_equal(memory.writes[memory.n - 1].n, 1);
    assert_int_equal(bytes, 12 + 30 * 7 + 1);
    rig_close(&rig);
}

static void open_small(uint64_t errata, bool dest)
{
    struct cofi_unit_config config = {.memory = {.write = store}, .errata = errata, .buffer_bytes = 14, .drain_bytes = 14, .drain_cycles = 100};
    memset(&memory, 0, sizeof memory);
    rig_open(&rig, &config);
    rig_write(&rig, MSR_BASE_ADDR, BASE);
    rig_write(&rig, MSR_LIMIT_MASK, 0xfff);
    rig_fields(&rig, dest ? "dest=1 tracestop_event_id=0 lip0=10 lip2=20" : "tracestop_event_id=0 lip0=10 lip2=20");
    rig_enable(&rig);
    rig_events(&rig, "clock tsc=1;jmp* target=111100000000;jmp* target=222200000000");
}

/* TraceSTOP needs room in the internal buffer wherever it goes [RTIT 4.2.5]. */
static void tracestop_without_room_overflows_with_dest_set_and_clear(void **state)
{
    (void)state;
    for (int dest = 0; dest < 2; dest++) {
        open_small(0, dest);
        rig_events(&rig, "jmp ip=1 next=3 target=10");
        assert_int_equal(rig_read(&rig, MSR_STATUS) & 0xc, 0xc);
        rig_events(&rig, "clock tsc=1 cycles=100;insn ip=10 next=12");
        assert_int_equal(rig_read(&rig, MSR_STATUS) & 0xc, 0);
        assert_int_equal(memory.bytes[dest ? 12 + 14 + 3 : 0xc0], 0xc1);
        rig_close(&rig);
    }
}

/* [ERR E4], with Dest clear: the packet that has no effect has TraceSTOP's place. */
static void tracestop_of_e4_goes_to_c0_too(void **state)
{
    (void)state;
    open_small(COFI_ERRATUM_RTIT_E4, false);
    rig_events(&rig, "jmp* target=3;jmp ip=3 next=5 target=10;clock tsc=1 cycles=100;insn ip=10 next=12");
    assert_int_equal(memory.bytes[0xc0], 0xc1);
    assert_int_equal(rig_read(&rig, MSR_STATUS) & 0xc, 4);
    rig_close(&rig);
}

/* What is gathered belongs to the region that it was gathered for [RTIT 3.3.10, RTIT 3.3.12]. */
static void a_new_base_keeps_the_offset_and_leaves_old_bytes_where_they_were(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x45, 0, true);
    rig_enable(&rig); /* to 0x50 */
    rig_events(&rig, "jmp* target=9");
    rig_write(&rig, MSR_BASE_ADDR, BASE + 0x800);
    assert_int_equal(memory.bytes[0x51], 0xb4);
    rig_write(&rig, MSR_LIMIT_MASK, 0x7ff);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 0x54);
    rig_events(&rig, "jmp* target=9");
    cofi_unit_drain(rig.unit);
    assert_int_equal(memory.bytes[0x854], 0xb4);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 0x57);
    rig_close(&rig);
}

/* A full line leaves with its last byte, whichever packet that is of [RTIT 2.3.2]. */
static void a_line_filled_by_outcomes_leaves_at_once(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0, 0, true);
    rig_enable(&rig); /* 12 bytes */
    cofi_unit_tnt(rig.unit, 0, 6);
    for (int i = 13; i < 64; i++) {
        assert_int_equal(memory.bytes[12], 0);
        cofi_unit_tnt(rig.unit, 0x2a, 6);
    }
    assert_int_equal(memory.bytes[12], 0x40);
    assert_int_equal(memory.bytes[63], 0x6a);
    rig_close(&rig);
}

static void tracestop_with_dest_set_is_a_byte_like_others(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0x200, 0, true);
    rig_fields(&rig, "dest=1 tracestop_event_id=0 lip0=10 lip2=20");
    rig_enable(&rig);
    branch(&rig, COFI_EV_JMP, 1, 3, 0x10);
    assert_int_equal(memory.bytes[0x20c], 0xc1);
    assert_int_equal(memory.bytes[0x2c0], 0);
    rig_close(&rig);
}

/* RTIT_CTL's write does not end before all is in memory [RTIT 3.3.2]. */
static void clearing_traceactive_leaves_all_bytes_in_memory(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0, 4, true);
    rig_enable(&rig);
    for (int i = 0; i < 50; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, i % 2 ? 0x111100000000 : 0x222200000000);
    rig_field(&rig, "trace_active", 0);
    struct plain_state plain = {0};
    struct plain_packet packet;
    size_t at = 0, tips = 0, end = rig_read(&rig, MSR_OFFSET);
    while (at < end) {
        int size = plain_read(&plain, memory.bytes + at, end - at, &packet);
        assert_true(size > 0);
        tips += packet.kind == PLAIN_TIP;
        at += (size_t)size;
    }
    assert_int_equal(tips, 50);
    rig_close(&rig);
}

static uint8_t restored[1 << 16];
static size_t restored_n;

static int collect(void *opaque, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    assert_true(restored_n + n <= sizeof restored);
    memcpy(restored + restored_n, bytes, n);
    restored_n += n;
    return 0;
}

/* Reordered lines come out in another order, within the bounds, and the collector restores them [RTIT 2.3.2]. */
static void the_reorderer_restores_weakly_ordered_lines(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t mask = seed % 3 ? 0x1ff : 0xfff;
        open_at(BASE, mask, 0x25, 6, true);
        cofi_unit_close(rig.unit);
        struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .memory = {.write = store},
                                          .weak_lines = 1 + seed % 7, .weak_seed = seed};
        rig_open(&rig, &config);
        rig_write(&rig, MSR_BASE_ADDR, BASE);
        rig_write(&rig, MSR_LIMIT_MASK, mask);
        rig_write(&rig, MSR_OFFSET, 0x25);
        rig_fields(&rig, "dest=1");
        restored_n = 0;
        assert_int_equal(cofi_reorder_open(&memory.reorder, (uint32_t)mask + 1, 0x25, (struct cofi_sink){collect, NULL}), 0);
        rig_enable(&rig);
        for (int i = 0; i < 2000; i++) {
            branch(&rig, COFI_EV_JMP_IND, 1, 3, (uint64_t)i << 32 | 0x1000);
            if (i % 371 == 370)
                cofi_unit_drain(rig.unit);
        }
        cofi_unit_drain(rig.unit);
        struct plain_state plain = {0};
        struct plain_packet packet;
        uint64_t expected = 0;
        for (size_t at = 0; at < restored_n; at += packet.size) {
            assert_true(plain_read(&plain, restored + at, restored_n - at, &packet) > 0);
            if (packet.kind == PLAIN_TIP)
                assert_int_equal(packet.lip, (expected++ << 32 | 0x1000) & 0xffffffffffff);
        }
        assert_int_equal(expected, 2000);
        assert_int_equal(cofi_reorder_waiting(memory.reorder), 0);
        assert_int_equal(restored_n, cofi_unit_bytes(rig.unit));
        cofi_reorder_close(memory.reorder);
        memory.reorder = NULL;
        rig_close(&rig);
    }
}

static void no_more_than_sixteen_lines_wait(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0, 16, true);
    rig_enable(&rig);
    for (int i = 0; i < 500; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, i % 2 ? 0x111100000000 : 0x222200000000);
    assert_int_equal(memory.n, 1 + (12 + 500 * 7) / 64 - 16);
    cofi_unit_drain(rig.unit);
    assert_int_equal(rig_read(&rig, MSR_OFFSET), 12 + 500 * 7);
    rig_close(&rig);
}

static void weakly_ordered_lines_do_change_places(void **state)
{
    (void)state;
    open_at(BASE, 0xfff, 0, 6, true);
    rig_enable(&rig);
    for (int i = 0; i < 300; i++)
        branch(&rig, COFI_EV_JMP_IND, 1, 3, (uint64_t)i << 32);
    bool backwards = false;
    for (size_t i = 1; i < memory.n; i++)
        backwards |= memory.writes[i].address < memory.writes[i - 1].address;
    assert_true(backwards);
    rig_close(&rig);
}

/* "not possible to first see a younger iteration of B, nor any still younger lines" [RTIT 2.3.2] */
static void the_reorderer_refuses_what_the_bounds_forbid(void **state)
{
    (void)state;
    struct cofi_reorder *r;
    uint8_t line[64] = {1};
    restored_n = 0;
    assert_int_equal(cofi_reorder_open(&r, 256, 0, (struct cofi_sink){collect, NULL}), 0);
    assert_int_equal(cofi_reorder_write(r, 64, line, 64), 0);
    assert_int_equal(cofi_reorder_write(r, 128, line, 64), 0);
    assert_int_equal(restored_n, 0);
    assert_int_equal(cofi_reorder_waiting(r), 128);
    assert_int_equal(cofi_reorder_write(r, 64, line, 64), COFI_ERR_MISMATCH); /* line 0 is lost */
    assert_int_equal(cofi_reorder_write(r, 300, line, 64), COFI_ERR_RANGE);
    assert_int_equal(cofi_reorder_write(r, 60, line, 8), COFI_ERR_RANGE);
    assert_int_equal(cofi_reorder_write(r, 0, line, 64), 0);
    assert_int_equal(restored_n, 192);
    cofi_reorder_close(r);
    assert_int_equal(cofi_reorder_open(&r, 256, 0x10, (struct cofi_sink){collect, NULL}), 0);
    restored_n = 0;
    assert_int_equal(cofi_reorder_write(r, 0x20, line, 32), 0); /* 0x10 is due: its line lacks bytes */
    assert_int_equal(restored_n, 0);
    assert_int_equal(cofi_reorder_waiting(r), 32);
    cofi_reorder_close(r);
    assert_int_equal(cofi_reorder_open(&r, 100, 0, (struct cofi_sink){collect, NULL}), COFI_ERR_RANGE);
}

static void a_full_sink_is_told_and_the_unit_goes_on(void **state)
{
    (void)state;
    rig_open(&rig, NULL);
    rig.limit = 64;
    rig_start(&rig, 0);
    int status = 0;
    for (int i = 0; i < 100 && status == 0; i++)
        status = rig_event(&rig, (struct cofi_event){.kind = COFI_EV_JMP_IND, .target = (uint64_t)i << 32});
    assert_int_equal(status, COFI_ERR_FULL);
    assert_int_equal(rig_event(&rig, (struct cofi_event){.kind = COFI_EV_INSN}), 0);
    assert_int_equal(cofi_unit_set_field(rig.unit, "trace_en", 0), COFI_ERR_FULL);
    assert_int_equal(cofi_unit_set_field(rig.unit, "trace_en", 0), 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_goes_to_base_plus_offset),
        cmocka_unit_test(a_base_bit_that_is_set_in_the_mask_counts_as_zero),
        cmocka_unit_test(the_region_is_circular),
        cmocka_unit_test(an_unaligned_offset_begins_with_a_partial_line_and_a_drain_ends_with_one),
        cmocka_unit_test(lines_are_never_crossed),
        cmocka_unit_test(a_debug_port_sees_every_byte_in_order),
        cmocka_unit_test(tracestop_with_dest_clear_goes_to_c0),
        cmocka_unit_test(tracestop_at_c0_is_the_last_write),
        cmocka_unit_test(tracestop_without_room_overflows_with_dest_set_and_clear),
        cmocka_unit_test(tracestop_of_e4_goes_to_c0_too),
        cmocka_unit_test(a_new_base_keeps_the_offset_and_leaves_old_bytes_where_they_were),
        cmocka_unit_test(a_line_filled_by_outcomes_leaves_at_once),
        cmocka_unit_test(tracestop_with_dest_set_is_a_byte_like_others),
        cmocka_unit_test(clearing_traceactive_leaves_all_bytes_in_memory),
        cmocka_unit_test(the_reorderer_restores_weakly_ordered_lines),
        cmocka_unit_test(no_more_than_sixteen_lines_wait),
        cmocka_unit_test(weakly_ordered_lines_do_change_places),
        cmocka_unit_test(the_reorderer_refuses_what_the_bounds_forbid),
        cmocka_unit_test(a_full_sink_is_told_and_the_unit_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
