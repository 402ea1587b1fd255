/* SPDX-License-Identifier: MIT
 * What a perf.data says of sched:sched_switch -> where its samples name the next thread. Inputs end where their memory ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/perf_data.h"
#include "trace/reader.h"

static struct cofi_recording recording;

static uint8_t *copy_of(const void *bytes, size_t n)
{
    uint8_t *copy = malloc(n);
    assert_non_null(copy);
    return memcpy(copy, bytes, n);
}

/* ---- the kernel's description, text among other data ---- */

static void read_text(const char *text)
{
    uint8_t *copy = copy_of(text, strlen(text));
    recording = (struct cofi_recording){0};
    cofi__read_tracing_data(&recording, copy, strlen(text));
    free(copy);
}

static void assert_text(const char *text, uint64_t event, uint32_t offset)
{
    read_text(text);
    assert_int_equal(recording.switch_event, event);
    assert_int_equal(recording.switch_offset, offset);
}

static void a_description_tells_number_and_offset(void **state)
{
    (void)state;
    assert_text("\1\2name: sched_switch\nID: 319\nformat:\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;", 319, 56);
    assert_text("name: sched_switch\nID: 9\n\tfield:pid_t next_pid;\toffset:9", 9, 9); /* to the last byte */
    assert_text("name: sched_switch\n\tfield:pid_t next_pid;\toffset:8;\nID: 10", 10, 8);
}

static void what_is_not_described_whole_is_not_known(void **state)
{
    (void)state;
    assert_text("name: sched_wakeup\nID: 3\n\tfield:pid_t next_pid;\toffset:56;", 0, 0);
    assert_text("name: sched_switch\n\tfield:pid_t next_pid;\toffset:56;", 0, 0);
    assert_text("name: sched_switch\nID: 319\n\tfield:pid_t prev_pid;\toffset:24;", 0, 0);
    assert_text("name: sched_switch\nID: 319\n\tfield:pid_t next_pid;\toffset", 0, 0);
    assert_text("name: sched_switch\nID: ", 0, 0);
    assert_text("ID: 5\n\tfield:pid_t next_pid;\toffset:56;", 0, 0);
}

/* Another event's description begins within 4096 bytes; what is said behind is not this one's. */
static void a_description_is_not_looked_for_far_away(void **state)
{
    (void)state;
    static const char head[] = "name: sched_switch\nID: 4\n", tail[] = "\tfield:pid_t next_pid;\toffset:56";
    for (int too_far = 0; too_far < 2; too_far++) {
        char text[5000];
        size_t fill = 4096 - strlen(head) - strlen(tail) + (size_t)too_far;
        snprintf(text, sizeof text, "%s%*s%s%s", head, (int)fill, "", tail, ";");
        assert_text(text, 4, too_far ? 5 : 56); /* the digit that is farther is not read */
    }
    char text[5000];
    snprintf(text, sizeof text, "%s%*s%s", head, 4096, "", tail);
    assert_text(text, 0, 0);
}

/* ---- the list of events ---- */

struct desc {
    uint8_t bytes[1024];
    size_t n;
};

static void put32(struct desc *desc, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        desc->bytes[desc->n++] = (uint8_t)(value >> 8 * i);
}

static void begin(struct desc *desc, uint32_t events, uint32_t attr_bytes)
{
    *desc = (struct desc){0};
    put32(desc, events);
    put32(desc, attr_bytes);
}

static void put_event(struct desc *desc, uint32_t attr_bytes, uint64_t config, const char *name, uint32_t name_bytes, uint32_t ids)
{
    uint8_t *attr = desc->bytes + desc->n;
    for (unsigned i = 0; i < 8 && attr_bytes >= ATTR_CONFIG + 8; i++)
        attr[ATTR_CONFIG + i] = (uint8_t)(config >> 8 * i);
    desc->n += attr_bytes;
    put32(desc, ids);
    put32(desc, name_bytes);
    strncpy((char *)desc->bytes + desc->n, name, name_bytes);
    desc->n += name_bytes + 8 * ids;
}

static void read_desc(const struct desc *desc, size_t n)
{
    uint8_t *copy = copy_of(desc->bytes, n);
    cofi__read_event_desc(&recording, copy, n);
    free(copy);
}

static bool known(const struct desc *desc, size_t n)
{
    recording = (struct cofi_recording){0};
    read_desc(desc, n);
    assert_true(!recording.switch_offset || (recording.switch_offset == 56 && recording.switch_event == 319));
    return recording.switch_offset;
}

static void an_event_by_its_name_has_the_usual_offset(void **state)
{
    (void)state;
    struct desc desc;
    begin(&desc, 2, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 5, "intel_pt//", 16, 2);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switch", 19, 1);
    assert_true(known(&desc, desc.n));
    for (size_t n = 0; n < desc.n; n++) /* cut: its ids are not all there */
        assert_false(known(&desc, n));
    begin(&desc, 1, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switch", 24, 0);
    assert_true(known(&desc, desc.n));
    desc.bytes[desc.n] = 1; /* more bytes than are told */
    assert_true(known(&desc, desc.n + 1));
}

static void lists_that_are_none_tell_nothing(void **state)
{
    (void)state;
    struct desc desc;
    begin(&desc, 1, ATTR_BYTES_MIN - 1);
    put_event(&desc, ATTR_BYTES_MIN - 1, 319, "sched:sched_switch", 24, 0);
    assert_false(known(&desc, desc.n));
    begin(&desc, 1, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switch", 18, 0); /* without its end */
    assert_false(known(&desc, desc.n));
    begin(&desc, 1, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switcher", 24, 0);
    assert_false(known(&desc, desc.n));
    begin(&desc, 0, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switch", 24, 0);
    assert_false(known(&desc, desc.n)); /* no events are said to follow */
    begin(&desc, 1, UINT32_MAX);
    assert_false(known(&desc, desc.n));
}

/* The kernel's own words count more than the usual place. */
static void what_was_described_stays(void **state)
{
    (void)state;
    struct desc desc;
    read_text("name: sched_switch\nID: 7\n\tfield:pid_t next_pid;\toffset:60;");
    begin(&desc, 1, ATTR_BYTES_MIN);
    put_event(&desc, ATTR_BYTES_MIN, 319, "sched:sched_switch", 24, 0);
    read_desc(&desc, desc.n);
    assert_int_equal(recording.switch_event, 7);
    assert_int_equal(recording.switch_offset, 60);
}

/* ---- samples ---- */

static void a_sample_is_one_by_type_and_number(void **state)
{
    (void)state;
    struct cofi__event_attr attr = {.type = TYPE_TRACEPOINT, .config = 7};
    recording = (struct cofi_recording){.switch_event = 7, .switch_offset = 56};
    assert_true(cofi__is_switch(&recording, &attr));
    attr.config = 8;
    assert_false(cofi__is_switch(&recording, &attr));
    attr = (struct cofi__event_attr){.type = TYPE_SOFTWARE, .config = 7};
    assert_false(cofi__is_switch(&recording, &attr));
    attr.type = TYPE_TRACEPOINT;
    recording.switch_offset = 0;
    assert_false(cofi__is_switch(&recording, &attr));
}

static void a_sample_tells_who_ran_and_who_runs(void **state)
{
    (void)state;
    static const uint8_t raw[] = {1, 1, 1, 1, 0x78, 0x56, 0, 0};
    const struct cofi__switch before = {.cpu = 3, .pid = 10, .tid = 11, .time_ns = 99};
    recording = (struct cofi_recording){.switch_offset = 4, .sideband = COFI__VECTOR_OF(struct cofi_sideband)};
    for (size_t n = 0; n <= sizeof raw; n++) {
        uint8_t *copy = copy_of(raw, n ? n : 1);
        cofi__add_switch(&recording, &before, copy, n);
        free(copy);
        assert_int_equal(recording.sideband.n, n == sizeof raw); /* one that is cut is none */
    }
    const struct cofi_sideband *row = recording.sideband.items;
    assert_int_equal(row->kind, COFI_SB_SWITCH_CPU);
    assert_int_equal(row->cpu, 3);
    assert_int_equal(row->time_ns, 99);
    assert_int_equal(row->tid, 0x5678);
    assert_int_equal(row->ptid, 11);
    assert_int_equal(row->ppid, 10);
    assert_int_equal(row->pid, -1);
    assert_int_equal(row->vcpu, -1);
    free(recording.sideband.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_tells_number_and_offset),
        cmocka_unit_test(what_is_not_described_whole_is_not_known),
        cmocka_unit_test(a_description_is_not_looked_for_far_away),
        cmocka_unit_test(an_event_by_its_name_has_the_usual_offset),
        cmocka_unit_test(lists_that_are_none_tell_nothing),
        cmocka_unit_test(what_was_described_stays),
        cmocka_unit_test(a_sample_is_one_by_type_and_number),
        cmocka_unit_test(a_sample_tells_who_ran_and_who_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
