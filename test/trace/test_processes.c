/* SPDX-License-Identifier: MIT
 * Sideband -> what threads are called over time, and whose memory it is that records tell of. */
#include "sample.h"

static const uint8_t bytes_a[16] = "aaaaaaaaaaaaaaa";

static struct cofi_recording *written(const struct cofi_sideband *rows, size_t n)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("processes.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (size_t i = 0; i < n; i++)
        put(writer, rows[i]);
    assert_int_equal(cofi_writer_trace(writer, 1, 1, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    return open_recording(path);
}

#define ROW(k, p, t, at) .kind = COFI_SB_##k, .pid = (p), .tid = (t), .time_ns = (at)

static void a_thread_is_called_as_it_was_told_last_or_is_told_next(void **state)
{
    (void)state;
    static const struct cofi_sideband rows[] = {
        {ROW(FORK, 5, 5, 10), .ppid = 4, .ptid = 4}, /* by nobody who is known */
        {ROW(COMM, 5, 5, 20), .name = "first"},
        {ROW(FORK, 5, 6, 30), .ppid = 5, .ptid = 5},
        {ROW(COMM, 5, 5, 40), .name = "second"},
        {ROW(FORK, 5, 7, 50), .ppid = 5, .ptid = 6}, /* which has its parent's name as of then */
        {ROW(FORK, 9, 9, 60), .ppid = 8, .ptid = 8}, /* by nobody who is known, either */
    };
    struct cofi_recording *recording = written(rows, sizeof rows / sizeof *rows);
    assert_string_equal(cofi_recording_comm(recording, 5, 1), "first");
    assert_string_equal(cofi_recording_comm(recording, 5, 15), "first");
    assert_string_equal(cofi_recording_comm(recording, 5, 39), "first");
    assert_string_equal(cofi_recording_comm(recording, 5, 40), "second");
    assert_string_equal(cofi_recording_comm(recording, 6, 100), "first");
    assert_string_equal(cofi_recording_comm(recording, 6, 1), "first");
    assert_string_equal(cofi_recording_comm(recording, 7, 100), "first");
    assert_null(cofi_recording_comm(recording, 9, 100));
    assert_null(cofi_recording_comm(recording, 4, 100));
    cofi_recording_close(recording);
}

static void a_mapping_that_wraps_is_passed_over_with_a_warning(void **state)
{
    (void)state;
    static const struct cofi_sideband rows[] = {
        {ROW(MMAP, 1, 1, 1), .name = "/none", .addr = UINT64_MAX - 0xfff, .len = 0x3000, .prot = 5, .flags = 2},
        {ROW(CODE, 1, 1, 2), .addr = 0x1000, .bytes = bytes_a, .len = sizeof bytes_a},
    };
    struct cofi_recording *recording = written(rows, sizeof rows / sizeof *rows);
    assert_non_null(cofi_recording_warning(recording, 0));
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "wraps around the address space"));
    assert_int_equal(byte_of(recording, 1, 2, 0x1000), 'a');
    cofi_recording_close(recording);
}

/* The name of a mapping in brackets is that of the code that is told there, of the same process. */
static void code_is_called_as_the_mapping_that_it_lies_in(void **state)
{
    (void)state;
    static const struct cofi_sideband rows[] = {
        {ROW(MMAP, 1, 1, 1), .name = "[heap]", .addr = 0x1000, .len = 0x1000, .prot = 7, .flags = 2},
        {ROW(MMAP, 2, 2, 2), .name = "[stack]", .addr = 0x1000, .len = 0x1000, .prot = 7, .flags = 2},
        {ROW(CODE, 1, 1, 3), .addr = 0x1000, .bytes = bytes_a, .len = sizeof bytes_a},
        {ROW(CODE, 1, 1, 4), .addr = 0x1fff, .bytes = bytes_a, .len = 1},
        {ROW(CODE, 1, 1, 5), .addr = 0x2000, .bytes = bytes_a, .len = 1}, /* behind it */
    };
    static const char *const names[] = {"[heap]", "[heap]", NULL};
    struct cofi_recording *recording = written(rows, sizeof rows / sizeof *rows);
    const struct cofi_sideband *sb;
    size_t seen = 0;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) {
        if (sb->kind != COFI_SB_CODE)
            continue;
        if (names[seen])
            assert_string_equal(sb->name, names[seen]);
        else
            assert_null(sb->name);
        seen++;
    }
    assert_int_equal(seen, 3);
    cofi_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_called_as_it_was_told_last_or_is_told_next),
        cmocka_unit_test(a_mapping_that_wraps_is_passed_over_with_a_warning),
        cmocka_unit_test(code_is_called_as_the_mapping_that_it_lies_in),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
