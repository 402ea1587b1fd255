/* SPDX-License-Identifier: MIT
 * Damaged recordings: what is there is read, nothing crashes, hangs or grows. */
#include "sample.h"

#include "base/bytes.h"
#include "trace/perf_data.h"

/* What a recording gives, in numbers. */
struct gist {
    size_t streams, bytes, sideband, warnings;
};

/* Open and touch everything. Returns false where opening fails. */
static bool take_gist(const char *path, struct gist *gist)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    const struct cofi_sideband *sb;
    *gist = (struct gist){0};
    int status = cofi_recording_open(&recording, path, &error);
    if (status < 0) {
        assert_true(error.text[0]);
        assert_int_not_equal(status, COFI_ERR_NOMEM); /* no size that lies is believed */
        return false;
    }
    gist->streams = cofi_recording_streams(recording);
    for (size_t i = 0; i < gist->streams; i++) {
        uint8_t bytes[4096];
        const struct cofi_recording_stream *stream = cofi_recording_stream(recording, i);
        assert_int_equal(read_stream(recording, i, bytes, sizeof bytes), stream->bytes);
        gist->bytes += stream->bytes;
        if (!stream->bytes)
            continue;
        assert_true(cofi_recording_file_offset(recording, i, stream->bytes - 1) != UINT64_MAX);
        assert_true(cofi_recording_file_offset(recording, i, stream->bytes) == UINT64_MAX);
    }
    for (; (sb = cofi_recording_sideband(recording, gist->sideband)); gist->sideband++) {
        const struct cofi_image *image = cofi_recording_image(recording, sb->pid);
        struct cofi_view *view;
        struct cofi_code code;
        if (sb->name)
            assert_true(strlen(sb->name) < 65536);
        cofi_recording_comm(recording, sb->tid, sb->time_ns);
        if (!image)
            continue;
        assert_int_equal(cofi_view_open(&view, image), 0);
        cofi_view_advance(view, sb->time_ns, NULL, NULL);
        cofi_view_find(view, sb->addr, &code);
        cofi_view_find(view, 0x401000, &code);
        cofi_view_close(view);
    }
    while (cofi_recording_warning(recording, gist->warnings))
        gist->warnings++;
    cofi_recording_close(recording);
    return true;
}

static void cut_anywhere_keeps_what_precedes(void **state)
{
    (void)state;
    const char *whole = scratch_path("whole.data"), *cut = scratch_path("cut.data");
    struct gist gist, best = {0};
    size_t n;
    write_sample(whole, 46);
    uint8_t *bytes = read_whole(whole, &n);
    for (size_t i = 0; i < n; i++) {
        write_whole(cut, bytes, i);
        if (!take_gist(cut, &gist))
            gist = (struct gist){0};
        else
            assert_true(gist.warnings > 0 || i + 64 > n);
        assert_true(gist.bytes >= best.bytes);
        assert_true(gist.sideband >= best.sideband);
        best = gist;
    }
    assert_true(take_gist(whole, &gist));
    assert_int_equal(gist.bytes, sizeof sample_trace);
    assert_int_equal(gist.sideband, best.sideband);
    assert_int_equal(gist.sideband, 8 + 1); /* what is written, and the piece's AUX */
    free(bytes);
}

static void a_flipped_byte_never_crashes_and_costs_little(void **state)
{
    (void)state;
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    const char *whole = scratch_path("whole.data"), *flipped = scratch_path("flipped.data");
    struct gist gist, good;
    size_t n, lost = 0;
    write_sample(whole, 46);
    assert_true(take_gist(whole, &good));
    uint8_t *bytes = read_whole(whole, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; m < ARRAY_LEN(masks); m++) {
            bytes[i] ^= masks[m];
            write_whole(flipped, bytes, n);
            bool opened = take_gist(flipped, &gist);
            /* Behind the header a byte costs at most the record that it is in and the one before it. */
            if (i >= 0x178)
                assert_true(opened);
            if (opened && gist.sideband + 2 < good.sideband)
                lost++;
            bytes[i] ^= masks[m];
        }
    /* but for the few bytes that say where data begin and end */
    assert_in_range(lost, 0, 40);
    free(bytes);
}

static void sizes_that_lie_do_not_allocate(void **state)
{
    (void)state;
    const char *whole = scratch_path("whole.data"), *lying = scratch_path("lying.data");
    struct gist gist;
    size_t n;
    write_sample(whole, 46);
    uint8_t *bytes = read_whole(whole, &n);
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint8_t saved[8];
        memcpy(saved, bytes + i, 8);
        static const uint64_t values[] = {UINT64_MAX, UINT64_MAX - 7, INT64_MAX, 1ull << 40, 0, 0xfffffff8};
        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            memcpy(bytes + i, &values[v], 8);
            write_whole(lying, bytes, n);
            take_gist(lying, &gist);
        }
        memcpy(bytes + i, saved, 8);
    }
    free(bytes);
}

/* Each of 4000 events says that all of the file is its ids. */
static void ids_of_events_that_lie_over_each_other_are_left_out(void **state)
{
    (void)state;
    enum { EVENTS = 4000 };
    const char *whole = scratch_path("whole.data"), *lying = scratch_path("lying.data");
    const size_t entry = ATTR_BYTES + 16;
    struct cofi_recording *recording;
    uint64_t missing;
    bool told = false;
    size_t n;
    write_sample(whole, 46);
    uint8_t *bytes = read_whole(whole, &n), *all = malloc(n + EVENTS * entry);
    assert_non_null(all);
    memcpy(all, bytes, n);
    put_le(all + 24, n, 8);
    put_le(all + 32, EVENTS * entry, 8);
    for (size_t i = 0; i < EVENTS; i++) {
        memcpy(all + n + i * entry, bytes + le64(bytes + 24), ATTR_BYTES);
        put_le(all + n + i * entry + ATTR_BYTES, 0, 8);
        put_le(all + n + i * entry + ATTR_BYTES + 8, n + EVENTS * entry, 8);
    }
    write_whole(lying, all, n + EVENTS * entry);
    assert_int_equal(cofi_recording_open(&recording, lying, NULL), 0);
    assert_true(cofi_recording_damaged(recording, &missing));
    const char *warning;
    for (size_t i = 0; (warning = cofi_recording_warning(recording, i)); i++)
        told |= strstr(warning, "lie over each other") != NULL;
    assert_true(told);
    cofi_recording_close(recording);
    free(all);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere_keeps_what_precedes),
        cmocka_unit_test(a_flipped_byte_never_crashes_and_costs_little),
        cmocka_unit_test(sizes_that_lie_do_not_allocate),
        cmocka_unit_test(ids_of_events_that_lie_over_each_other_are_left_out),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
