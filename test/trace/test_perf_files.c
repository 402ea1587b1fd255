/* SPDX-License-Identifier: MIT
 * perf.data files as they come from elsewhere: of a perf that was killed, of other traces, of full buffers, of records where perf writes none. */
#include "perfdata.h"

#include <zstd.h>

enum { SHELL = 50, CHILD = 60 };

/* 40 bytes: a PSB+ with a time, tracing begins at 401000 and ends. */
#define TURN(tsc) "P19 00" tsc "0000000000 02031800 0223 9901 71001040000000 01"

static struct cofi_recording *open_file(const char *path)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    if (cofi_recording_open(&recording, path, &error) < 0)
        fail_msg("%s", error.text);
    return recording;
}

static void set_word(const char *path, size_t at, uint64_t value, size_t word_bytes)
{
    size_t n;
    uint8_t *bytes = read_whole(path, &n);
    put_le(bytes + at, value, word_bytes);
    write_whole(path, bytes, n);
    free(bytes);
}

static void aux(struct bytes *out, const struct who *who, uint64_t offset, uint64_t size, uint64_t flags)
{
    WORDS(out, PERF_AUX, 0, who, offset, size, flags);
}

/* perf record COMMAND: all buffers have the command's number, and whoever runs there fills them. */
static void a_full_buffer_is_the_one_of_its_processor(void **state)
{
    (void)state;
    static struct bytes out;
    const char *path = scratch_path("full.data");
    size_t n;
    out.n = 0;
    auxtrace_info(&out, 0, 1);
    aux(&out, &(struct who){SHELL, SHELL, 0, 0x2000, EV_PT}, 0, 16, AUX_TRUNCATED);
    aux(&out, &(struct who){CHILD, CHILD, 1, 0x2000, EV_PT}, 0, 24, AUX_TRUNCATED);
    auxtrace(&out, 0, SHELL, 0, 0x3000, TURN("20"));
    auxtrace(&out, 1, SHELL, 1, 0x3000, TURN("20"));
    write_file(path, &out);
    struct cofi_recording *recording = open_file(path);
    assert_int_equal(cofi_recording_streams(recording), 2);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t *breaks = cofi_recording_breaks(recording, i, &n);
        assert_int_equal(n, 1);
        assert_int_equal(breaks[0], i ? 24 : 16);
    }
    cofi_recording_close(recording);
}

/* The header's bits say which features there are to be, its data have no size yet. */
static void a_file_that_perf_did_not_close_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    static struct bytes out;
    const char *path = scratch_path("killed.data");
    uint64_t missing;
    out.n = 0;
    auxtrace_info(&out, 0, 1);
    auxtrace(&out, 0, SHELL, 0, 0x3000, TURN("20"));
    write_file(path, &out);
    size_t n;
    uint8_t *bytes = read_whole(path, &n);
    assert_true(bytes[72]);
    n = le64(bytes + 40) + le64(bytes + 48);
    write_whole(path, bytes, n);
    free(bytes);
    set_word(path, 48, 0, 8);
    struct cofi_recording *recording = open_file(path);
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "did not close the file"));
    assert_null(cofi_recording_warning(recording, 1));
    assert_false(cofi_recording_damaged(recording, &missing));
    cofi_recording_close(recording);
}

static void a_trace_of_another_kind_is_refused_by_its_name(void **state)
{
    (void)state;
    static struct bytes out;
    static const char *const names[] = {[2] = "Intel BTS", "Arm CoreSight", "Arm SPE"};
    for (uint32_t type = 2; type < ARRAY_LEN(names); type++) {
        struct cofi_recording *recording;
        struct cofi_error error = {0};
        out.n = 0;
        auxtrace_info(&out, 0, 1);
        put_le(out.p + 8, type, 4);
        auxtrace(&out, 0, SHELL, 0, 0x3000, TURN("20"));
        write_file(scratch_path("other.data"), &out);
        assert_int_equal(cofi_recording_open(&recording, scratch_path("other.data"), &error), COFI_ERR_BAD_FORMAT);
        assert_non_null(strstr(error.text, names[type]));
    }
}

static void compressed(struct bytes *out, const struct bytes *plain)
{
    static struct bytes packed;
    packed.n = ZSTD_compress(packed.p, sizeof packed.p, plain->p, plain->n, 3);
    assert_false(ZSTD_isError(packed.n));
    size_t at = begin(out, PERF_COMPRESSED, 0);
    add(out, packed.p, packed.n);
    put_le(out->p + at + 6, out->n - at, 2);
}

/* perf record -z before 6.16: such records end anywhere, and so others begin there. */
static void records_are_found_again_behind_compressed_ones(void **state)
{
    (void)state;
    static struct bytes out, plain;
    const char *path = scratch_path("z.data");
    size_t damaged = 0;
    out.n = plain.n = 0;
    auxtrace_info(&out, 0, 1);
    comm(&plain, &(struct who){SHELL, SHELL, 0, 0x1000, EV_TRACK}, "shell", false);
    for (int i = 0; i < 3; i++) {
        damaged = i == 1 ? out.n : damaged;
        compressed(&out, &plain);
        assert_true((le16(out.p + damaged + 6) % 8) || i != 1);
    }
    auxtrace(&out, 0, -1, 0, 0x3000, TURN("20"));
    put_le(out.p + damaged, 0xffffffff, 4);
    write_pipe(path, &out);
    struct cofi_recording *recording = open_file(path);
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_int_equal(cofi_recording_stream(recording, 0)->bytes, 40);
    cofi_recording_close(recording);
}

/* Code of BPF programs is shown where it lies, and the place where records are decompressed is used again. */
static void features_in_compressed_records_are_left_out(void **state)
{
    (void)state;
    static struct bytes out, plain;
    struct cofi_view *view;
    struct cofi_code code;
    out.n = plain.n = 0;
    auxtrace_info(&out, 0, 1);
    size_t at = begin(&plain, PERF_HEADER_FEATURE, 0);
    add_le(&plain, FEATURE_BPF_PROG_INFO, 8);
    bpf_at = UINT64_C(0xffffffffc0200000);
    feature(&plain, FEATURE_BPF_PROG_INFO);
    bpf_at = 0;
    end(&plain, at, NULL);
    compressed(&out, &plain);
    write_pipe(scratch_path("feature.data"), &out);
    struct cofi_recording *recording = open_file(scratch_path("feature.data"));
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 0)), 0);
    assert_true(cofi_view_find(view, UINT64_C(0xffffffffc0200001), &code) < 0);
    cofi_view_close(view);
    cofi_recording_close(recording);
}

/* The head of a pipe, to which records are written one by one. */
static FILE *begin_pipe(const char *path)
{
    static struct bytes out;
    out.n = 0;
    auxtrace_info(&out, 0, 1);
    write_pipe(path, &out);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    return file;
}

static void flush(struct bytes *out, FILE *file)
{
    assert_int_equal(fwrite(out->p, 1, out->n, file), out->n);
    out->n = 0;
}

/* As many events, processors and guests as a file has room for. (To look for each among all would take minutes.) */
static void many_events_processors_and_guests(void **state)
{
    (void)state;
    enum { MANY = 60000, GUESTS = 1000, ID_OF_MANY = 1000 };
    static struct bytes out;
    const char *path = scratch_path("many.data");
    FILE *file = begin_pipe(path);
    for (uint32_t i = 0; i < MANY; i++) {
        size_t at = begin(&out, PERF_HEADER_ATTR, 0), n;
        add_event(&out, EV_SWITCH);
        add_le(&out, ID_OF_MANY + i, 8);
        end(&out, at, NULL);
        auxtrace(&out, i, -1, (int32_t)i, 0x1000, "0000000000000000");
        aux(&out, &(struct who){SHELL, SHELL, i, 0x2000 + i, EV_PT}, 0, 4, AUX_TRUNCATED);
        if (i % GUESTS == 0) {
            at = begin(&out, PERF_ID_INDEX, 0);
            add_le(&out, GUESTS, 8);
            for (n = 0; n < 4 * GUESTS; n++) /* id, index, processor, thread */
                add_le(&out, (n % 4 ? 1 : ID_OF_MANY + MANY) + i + n / 4, 8);
            for (n = 0; n < GUESTS; n++) {
                add_le(&out, i + n + 1, 8);
                add_le(&out, 0, 8);
            }
            end(&out, at, NULL);
        }
        flush(&out, file);
    }
    fclose(file);
    struct cofi_recording *recording = open_file(path);
    assert_int_equal(cofi_recording_streams(recording), MANY);
    for (size_t i = 0, n; i < MANY; i++) {
        cofi_recording_breaks(recording, i, &n);
        assert_int_equal(n, 1);
        assert_non_null(cofi_recording_guest_image(recording, i));
    }
    cofi_recording_close(recording);
    unlink(path);
}

/* Pieces of one buffer that do not follow each other, with as many places where it was full; JITs. (Each with each would take minutes, too.) */
static void many_pieces_and_jits(void **state)
{
    (void)state;
    enum { MANY = 60000 };
    static struct bytes out;
    const char *path = scratch_path("many.data");
    FILE *file = begin_pipe(path);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "/none/jit-%u.dump", i + 1);
        size_t at = out.n;
        auxtrace(&out, 0, -1, 0, 0x1000, "0000000000000000");
        put_le(out.p + at + 16, UINT64_C(16) * i, 8);
        aux(&out, &(struct who){SHELL, SHELL, 0, 0x2000 + i, EV_PT}, 0, 4, AUX_TRUNCATED);
        mmap2(&out, &(struct who){SHELL, SHELL, 0, 0x2000 + i, EV_TRACK}, PERF_MISC_USER, (int32_t)i + 1, &(struct mapping){0x400000, 0x1000, 0, name, NULL});
        flush(&out, file);
    }
    fclose(file);
    struct cofi_recording *recording = open_file(path);
    assert_int_equal(cofi_recording_streams(recording), MANY);
    cofi_recording_close(recording);
    unlink(path);
}

/* Of files of one name each machine has its own. */
static void build_ids_are_those_of_their_machines(void **state)
{
    (void)state;
    enum { MACHINES = 40 };
    static struct bytes out;
    const char *path = scratch_path("ids.data");
    out.n = 0;
    auxtrace_info(&out, 0, 1);
    for (uint32_t i = 0; i < MACHINES; i++) { /* of the host twice: the first one counts */
        uint32_t machine = i < 2 ? 0 : (i * 7) % (MACHINES - 2) + 1;
        size_t at = begin(&out, PERF_HEADER_BUILD_ID, machine ? PERF_MISC_GUEST_KERNEL : PERF_MISC_KERNEL);
        add_le(&out, machine ? machine : UINT32_MAX, 4);
        add_le(&out, 1 + machine + (i == 1 ? 1000 : 0), 4);
        for (int k = 0; k < 20; k++)
            add_le(&out, 0, 1);
        add(&out, "/none/x.ko", 11);
        end(&out, at, NULL);
    }
    for (int32_t machine = 0; machine < MACHINES; machine++)
        mmap2(&out, &(struct who){-1, 0, 0, 0x2000, SYNTHESIZED}, machine ? PERF_MISC_GUEST_KERNEL : PERF_MISC_KERNEL, machine ? machine : -1,
              &(struct mapping){UINT64_C(0xffffffffc0000000), 0x1000, 0, "/none/x.ko", NULL});
    write_file(path, &out);
    struct cofi_recording *recording = open_file(path);
    for (uint32_t machine = 0; machine < MACHINES; machine++) {
        const struct cofi_sideband *sb = cofi_recording_sideband(recording, machine);
        assert_int_equal(sb->machine, machine);
        assert_int_equal(le32(sb->build_id), machine < MACHINES - 1 ? machine + 1 : 0);
    }
    cofi_recording_close(recording);
}

/* A process of many mappings has many children: each has all of them, up to a measure. */
static void forks_of_large_processes_do_not_fill_the_memory(void **state)
{
    (void)state;
    enum { MANY = 3000, PARENT = 10 };
    static struct bytes out;
    const char *path = scratch_path("forks.data");
    FILE *file = begin_pipe(path);
    for (uint64_t i = 0; i < MANY; i++) {
        mmap2(&out, &(struct who){PARENT, PARENT, 0, 1 + i, EV_TRACK}, PERF_MISC_USER, PARENT, &(struct mapping){0x400000 + 0x2000 * i, 0x1000, 0, path, NULL});
        flush(&out, file);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t child = PARENT + 1 + i, time = MANY + 1 + i;
        WORDS(&out, PERF_FORK, 0, (&(struct who){PARENT, PARENT, 0, time, EV_TRACK}), child | (uint64_t)PARENT << 32, child | (uint64_t)PARENT << 32, time);
        flush(&out, file);
    }
    fclose(file);
    struct cofi_recording *recording = open_file(path);
    struct cofi_view *view;
    struct cofi_code code;
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "would fill the memory"));
    assert_null(cofi_recording_warning(recording, 1));
    for (int32_t i = 0; i < MANY; i += MANY - 1) {
        assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, PARENT + 1 + i)), 0);
        cofi_view_advance(view, UINT64_MAX, NULL, NULL);
        assert_int_equal(cofi_view_find(view, 0x400000, &code) == 0, i == 0);
        cofi_view_close(view);
    }
    cofi_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_buffer_is_the_one_of_its_processor),
        cmocka_unit_test(a_file_that_perf_did_not_close_is_read_as_far_as_it_goes),
        cmocka_unit_test(a_trace_of_another_kind_is_refused_by_its_name),
        cmocka_unit_test(features_in_compressed_records_are_left_out),
        cmocka_unit_test(records_are_found_again_behind_compressed_ones),
        cmocka_unit_test(many_events_processors_and_guests),
        cmocka_unit_test(many_pieces_and_jits),
        cmocka_unit_test(build_ids_are_those_of_their_machines),
        cmocka_unit_test(forks_of_large_processes_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
