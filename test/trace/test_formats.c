/* SPDX-License-Identifier: MIT
 * The other shapes of a perf.data: from a pipe, with compressed records, in a directory, of old and new events,
 * of snapshots. Each is made from the sample. */
#include "sample.h"

#include <fcntl.h>
#include <zstd.h>

#include "base/bytes.h"
#include "trace/perf_data.h"

struct bytes {
    uint8_t p[1 << 16];
    size_t n;
};

static void add(struct bytes *out, const void *bytes, size_t n)
{
    assert_true(out->n + n <= sizeof out->p);
    memcpy(out->p + out->n, bytes, n);
    out->n += n;
}

static void add_le(struct bytes *out, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    put_le(bytes, value, n);
    add(out, bytes, n);
}

/* The sample, and where its data are. */
struct whole {
    uint8_t *bytes;
    size_t n, start, end;
};

static struct whole read_sample(void)
{
    struct whole whole;
    const char *path = scratch_path("whole.data");
    write_sample(path, 46);
    whole.bytes = read_whole(path, &whole.n);
    whole.start = le64(whole.bytes + 40);
    whole.end = whole.start + le64(whole.bytes + 48);
    return whole;
}

static size_t record_bytes(const struct whole *whole, size_t at)
{
    size_t more = le32(whole->bytes + at) == PERF_AUXTRACE ? le64(whole->bytes + at + 8) : 0;
    return le16(whole->bytes + at + 6) + more;
}

/* Holds what the sample holds. */
static void assert_is_sample(const char *path)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    static const uint8_t kinds[] = {COFI_SB_FORK, COFI_SB_COMM, COFI_SB_MMAP, COFI_SB_MMAP, COFI_SB_CODE,
                                    COFI_SB_ITRACE_START, COFI_SB_SWITCH, COFI_SB_AUX, COFI_SB_EXIT};
    if (cofi_recording_open(&recording, path, &error) < 0)
        fail_msg("%s", error.text);
    for (size_t i = 0; cofi_recording_warning(recording, i); i++)
        fail_msg("%s", cofi_recording_warning(recording, i));
    assert_int_equal(cofi_recording_info(recording)->config, sample_info().config);
    assert_int_equal(cofi_recording_streams(recording), 1);
    uint8_t trace[64];
    assert_int_equal(read_stream(recording, 0, trace, sizeof trace), sizeof sample_trace);
    assert_memory_equal(trace, sample_trace, sizeof sample_trace);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct cofi_sideband *sb = cofi_recording_sideband(recording, i);
        assert_non_null(sb);
        assert_int_equal(sb->kind, kinds[i]);
        assert_int_equal(sb->pid, 100);
        assert_int_equal(sb->tid, 100);
    }
    assert_null(cofi_recording_sideband(recording, ARRAY_LEN(kinds)));
    struct cofi_view *view;
    struct cofi_code code;
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 100)), 0);
    cofi_view_advance(view, 0x2000, NULL, NULL);
    assert_int_equal(cofi_view_find(view, 0x401005, &code), 0);
    assert_string_equal(code.path, "[vdso]");
    assert_memory_equal(code.bytes + (0x401005 - code.start), sample_code + 5, sizeof sample_code - 5);
    cofi_view_close(view);
    cofi_recording_close(recording);
}

static void add_pipe_head(struct bytes *out, const struct whole *whole)
{
    add_le(out, PERF_MAGIC, 8);
    add_le(out, PERF_PIPE_HEADER_BYTES, 8);
    for (size_t i = 0; i < 2; i++) {
        add_le(out, PERF_HEADER_ATTR, 4);
        add_le(out, 0, 2);
        add_le(out, 8 + ATTR_BYTES + 8, 2);
        add(out, whole->bytes + PERF_HEADER_BYTES + 16 + i * (ATTR_BYTES + 16), ATTR_BYTES);
        add_le(out, i + 1, 8);
    }
}

static void a_recording_from_a_pipe(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out;
    out.n = 0;
    add_pipe_head(&out, &whole);
    add(&out, whole.bytes + whole.start, whole.end - whole.start);
    const char *path = scratch_path("pipe.data");
    write_whole(path, out.p, out.n);
    assert_is_sample(path);
    /* And really through one. */
    char command[400];
    const char *fifo = scratch_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(command, sizeof command, "cat %s > %s &", path, fifo);
    assert_int_equal(system(command), 0);
    assert_is_sample(fifo);
    free(whole.bytes);
}

/* Kernel records into COMPRESSED ones, a cut in the middle of one. */
static void a_recording_with_compressed_records(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out, plain, packed;
    out.n = plain.n = packed.n = 0;
    add_pipe_head(&out, &whole);
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        if (le32(whole.bytes + at) < PERF_USER)
            add(&plain, whole.bytes + at, record_bytes(&whole, at));
        else
            add(&out, whole.bytes + at, record_bytes(&whole, at));
    ZSTD_CStream *stream = ZSTD_createCStream();
    size_t cuts[] = {0, plain.n / 3, plain.n / 2 + 3, plain.n};
    for (size_t i = 0; i + 1 < ARRAY_LEN(cuts); i++) {
        ZSTD_inBuffer from = {plain.p + cuts[i], cuts[i + 1] - cuts[i], 0};
        ZSTD_outBuffer to = {packed.p, sizeof packed.p, 0};
        assert_int_equal(ZSTD_compressStream2(stream, &to, &from, ZSTD_e_flush), 0);
        if (i == 1) { /* the newer form, with its size beside it and padding */
            add_le(&out, PERF_COMPRESSED2, 4);
            add_le(&out, 0, 2);
            add_le(&out, (16 + to.pos + 7) & ~7u, 2);
            add_le(&out, to.pos, 8);
            add(&out, packed.p, to.pos);
            add(&out, "\0\0\0\0\0\0\0", -to.pos & 7);
        } else {
            add_le(&out, PERF_COMPRESSED, 4);
            add_le(&out, 0, 2);
            add_le(&out, 8 + to.pos, 2);
            add(&out, packed.p, to.pos);
        }
    }
    ZSTD_freeCStream(stream);
    const char *path = scratch_path("zstd.data");
    write_whole(path, out.p, out.n);
    assert_is_sample(path);
    free(whole.bytes);
}

static void compressed_records_that_would_fill_the_memory_are_left_out(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out;
    out.n = 0;
    add_pipe_head(&out, &whole);
    add(&out, whole.bytes + whole.start, le16(whole.bytes + whole.start + 6)); /* AUXTRACE_INFO */
    ZSTD_CStream *stream = ZSTD_createCStream();
    /* COMM records of nothing: 256 MiB of them are 40 KiB. */
    static uint8_t comm[1 << 20], packed[60000];
    for (size_t i = 0; i < sizeof comm; i += 32)
        memcpy(comm + i, "\3\0\0\0\0\0\x20\0", 8);
    ZSTD_outBuffer to = {packed, sizeof packed, 0};
    for (size_t i = 0; i < 512; i++) {
        ZSTD_inBuffer from = {comm, sizeof comm, 0};
        ZSTD_compressStream2(stream, &to, &from, ZSTD_e_continue);
    }
    ZSTD_inBuffer none = {0};
    ZSTD_compressStream2(stream, &to, &none, ZSTD_e_end);
    ZSTD_freeCStream(stream);
    assert_true(to.pos < 60000);
    add_le(&out, PERF_COMPRESSED, 4);
    add_le(&out, 0, 2);
    add_le(&out, 8 + to.pos, 2);
    add(&out, packed, to.pos);
    const char *path = scratch_path("bomb.data");
    write_whole(path, out.p, out.n);
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_non_null(cofi_recording_warning(recording, 0));
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "fill the memory"));
    cofi_recording_close(recording);
    free(whole.bytes);
}

static void a_directory_as_perf_record_kcore_makes_it(void **state)
{
    (void)state;
    const char *directory = scratch_path("dir.data"), *inside = scratch_path("dir.data/data");
    assert_int_equal(mkdir(directory, 0700), 0);
    write_sample(inside, 46);
    assert_is_sample(directory);
}

static void write_part(const char *path, const struct whole *whole, bool trace, bool info)
{
    static struct bytes out;
    out.n = 0;
    for (size_t at = whole->start, size; at < whole->end; at += size) {
        uint32_t type = le32(whole->bytes + at);
        size = record_bytes(whole, at);
        bool is_info = type == PERF_AUXTRACE_INFO || type == PERF_ID_INDEX;
        if (is_info ? info : (type == PERF_AUXTRACE) == trace)
            add(&out, whole->bytes + at, size);
    }
    write_whole(path, out.p, out.n);
}

/* `data` has the header and what the tool itself wrote, data.N the records of its threads. */
static void a_directory_as_perf_record_threads_makes_it(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    const char *directory = scratch_path("threads.data"), *inside = scratch_path("threads.data/data");
    assert_int_equal(mkdir(directory, 0700), 0);
    size_t n = whole.start;
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        if (le32(whole.bytes + at) == PERF_AUXTRACE_INFO || le32(whole.bytes + at) == PERF_ID_INDEX) {
            size_t size = record_bytes(&whole, at);
            memcpy(whole.bytes + n, whole.bytes + at, size); /* they come first */
            n += size;
        }
    put_le(whole.bytes + 48, n - whole.start, 8);
    memset(whole.bytes + 72, 0, 32); /* no features: they lie behind the data */
    uint8_t build_id_bit = 1 << FEATURE_BUILD_ID;
    memcpy(whole.bytes + 72, &build_id_bit, 1);
    static struct bytes head;
    head.n = 0;
    add(&head, whole.bytes, n);
    add_le(&head, n + 16, 8);
    add_le(&head, 0, 8);
    write_whole(inside, head.p, head.n);
    struct whole again = read_sample();
    write_part(scratch_path("threads.data/data.0"), &again, true, false);
    write_part(scratch_path("threads.data/data.1"), &again, false, false);
    assert_is_sample(scratch_path("threads.data"));
    free(whole.bytes);
    free(again.bytes);
}

/* SAMPLE: identifier, ip, pid/tid, time, cpu, a call chain of two, raw bytes, trace. */
static void put_sample(struct bytes *out, uint64_t time, const uint8_t *trace, size_t n)
{
    size_t at = out->n, padded = (n + 7) & ~(size_t)7;
    static const uint8_t zeros[8];
    add_le(out, PERF_SAMPLE, 4);
    add_le(out, PERF_MISC_USER, 2);
    add_le(out, 0, 2);
    add_le(out, 1, 8);
    add_le(out, 0x401000, 8);
    add_le(out, 100 | UINT64_C(100) << 32, 8);
    add_le(out, time, 8);
    add_le(out, 1, 8);
    add_le(out, 2, 8);
    add_le(out, 0x401000, 8);
    add_le(out, 0x401005, 8);
    add_le(out, 12, 4);
    add(out, "raw bytes...", 12);
    add_le(out, padded, 8);
    add(out, trace, n);
    add(out, zeros, padded - n);
    put_le(out->p + at + 6, out->n - at, 2);
}

/* A pipe's head. The sample type of the first event: what cofi writes, and more. */
static void begin_samples(struct bytes *out, const struct whole *whole, uint64_t more)
{
    size_t type = PERF_PIPE_HEADER_BYTES + 8 + ATTR_SAMPLE_TYPE;
    out->n = 0;
    add_pipe_head(out, whole);
    put_le(out->p + type, le64(out->p + type) | more, 8);
}

/* perf record --aux-sample: the trace is in the samples of another event. */
static void trace_in_samples(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out;
    begin_samples(&out, &whole, SAMPLE_CALLCHAIN | SAMPLE_RAW | SAMPLE_AUX);
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        if (le32(whole.bytes + at) != PERF_AUXTRACE)
            add(&out, whole.bytes + at, record_bytes(&whole, at));
    size_t end = out.n;
    put_sample(&out, 0x3000, sample_trace, sizeof sample_trace);
    const char *path = scratch_path("samples.data");
    write_whole(path, out.p, out.n);
    struct cofi_recording *recording;
    uint8_t got[64];
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_null(cofi_recording_warning(recording, 0));
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_int_equal(cofi_recording_stream(recording, 0)->tid, 100);
    assert_int_equal(cofi_recording_stream(recording, 0)->pid, 100);
    assert_int_equal(read_stream(recording, 0, got, 64), 48);
    assert_memory_equal(got, sample_trace, sizeof sample_trace);
    cofi_recording_close(recording);
    /* Cut anywhere, it says so or has less of it, and ends. */
    for (size_t n = end; n < out.n; n++) {
        write_whole(path, out.p, n);
        if (cofi_recording_open(&recording, path, NULL) == 0)
            cofi_recording_close(recording);
    }
    free(whole.bytes);
}

/* Of the event whose samples have trace (the first one), and not because a filter left them out. */
static void lost_samples_are_told(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out;
    begin_samples(&out, &whole, SAMPLE_AUX);
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        add(&out, whole.bytes + at, record_bytes(&whole, at));
    static const struct { uint16_t misc; uint64_t id; } lost[] = {{0, ID_TRACE}, {PERF_MISC_LOST_BY_BPF, ID_TRACE}, {0, ID_SIDEBAND}};
    for (size_t i = 0; i < ARRAY_LEN(lost); i++) {
        add_le(&out, PERF_LOST_SAMPLES, 4);
        add_le(&out, lost[i].misc, 2);
        add_le(&out, 24, 2);
        add_le(&out, 5, 8);
        add_le(&out, lost[i].id, 8);
    }
    const char *path = scratch_path("lost.data");
    write_whole(path, out.p, out.n);
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "lost 5 samples"));
    assert_null(cofi_recording_warning(recording, 1));
    cofi_recording_close(recording);
    free(whole.bytes);
}

/* Each sample has bytes of the one before: they are one stream. (To compare each with all before it would take minutes.) */
static void many_samples_that_share_bytes(void **state)
{
    (void)state;
    enum { SAMPLES = 60000, TIMES = 100 };
    struct whole whole = read_sample();
    static struct bytes out;
    uint8_t trace[sizeof sample_trace + 40];
    memcpy(trace, sample_trace, sizeof sample_trace);
    memset(trace + sizeof sample_trace, 4, 40);
    begin_samples(&out, &whole, SAMPLE_CALLCHAIN | SAMPLE_RAW | SAMPLE_AUX);
    add(&out, whole.bytes + whole.start, record_bytes(&whole, whole.start));
    const char *path = scratch_path("many.data");
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(out.p, 1, out.n, file), out.n);
    for (size_t i = 0; i < SAMPLES; i += TIMES) {
        out.n = 0;
        for (size_t k = 0; k < TIMES; k++)
            put_sample(&out, 0x3000 + i + k, trace, sizeof trace);
        assert_int_equal(fwrite(out.p, 1, out.n, file), out.n);
    }
    fclose(file);
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_int_equal(cofi_recording_stream(recording, 0)->pieces, SAMPLES);
    cofi_recording_close(recording);
    unlink(path);
    free(whole.bytes);
}

/* A sample of all that the kernel may put before the trace, in its order. group: 0 or READ_GROUP. */
static void put_full_sample(struct bytes *out, const uint8_t *trace, size_t n, uint64_t group)
{
    enum { MEMBERS = 9 }; /* how many a group has; a counter by itself has all but that */
    size_t at = out->n, padded = (n + 7) & ~(size_t)7;
    static const uint8_t zeros[8];
    static const uint64_t words[] = {
        1, 0x401000, 100 | UINT64_C(100) << 32, 0x3000, /* identifier, ip, pid and tid, time */
        7, 1, 1, 1, 4096,                               /* address, id, stream, processor, period */
        1, 10, 11, 1000, 1, 0,                          /* a group of one: times, value, id, lost */
        1, 0x401000,                                    /* call chain */
        UINT64_C(0x6261000000000004),                   /* raw: 4 bytes */
        2, 0, 1, 2, 3, 4, 5, 6, 7, 8,                   /* two branches with an index, and their counters */
        2, 90, 91, 8, 0x1122, 8,                        /* registers, 8 bytes of stack */
        1, 2, 3,                                        /* weight, source, transaction */
        0, 5, 6, 7, 8,                                  /* no registers; address, cgroup, sizes of pages */
    };
    add_le(out, PERF_SAMPLE, 4);
    add_le(out, PERF_MISC_USER, 2);
    add_le(out, 0, 2);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (i != MEMBERS || group)
            add_le(out, words[i], 8);
    add_le(out, padded, 8);
    add(out, trace, n);
    add(out, zeros, padded - n);
    put_le(out->p + at + 6, out->n - at, 2);
}

static void trace_is_behind_all_else(uint64_t group)
{
    struct whole whole = read_sample();
    static struct bytes out;
    uint8_t got[64];
    out.n = 0;
    add_pipe_head(&out, &whole);
    uint8_t *attr = out.p + PERF_PIPE_HEADER_BYTES + 8;
    put_le(attr + ATTR_SAMPLE_TYPE, (UINT64_C(1) << 24) - 1, 8);
    put_le(attr + ATTR_READ_FORMAT, READ_TIME_ENABLED | READ_TIME_RUNNING | READ_ID | READ_LOST | group, 8);
    put_le(attr + ATTR_BRANCH_SAMPLE_TYPE, BRANCH_HW_INDEX | BRANCH_COUNTERS, 8);
    put_le(attr + ATTR_SAMPLE_REGS_USER, 3, 8);
    put_le(attr + ATTR_SAMPLE_REGS_INTR, 1, 8);
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        if (le32(whole.bytes + at) == PERF_AUXTRACE_INFO)
            add(&out, whole.bytes + at, record_bytes(&whole, at));
    put_full_sample(&out, sample_trace, sizeof sample_trace, group);
    const char *path = scratch_path("full.data");
    write_whole(path, out.p, out.n);
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_null(cofi_recording_warning(recording, 0));
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_int_equal(read_stream(recording, 0, got, 64), 48);
    assert_memory_equal(got, sample_trace, sizeof sample_trace);
    cofi_recording_close(recording);
    free(whole.bytes);
}

static void trace_behind_all_else_in_a_sample(void **state)
{
    (void)state;
    trace_is_behind_all_else(READ_GROUP);
    trace_is_behind_all_else(0);
}

static void put_snapshot(struct bytes *out, const uint8_t *trace, size_t n)
{
    add_le(out, PERF_AUXTRACE, 4);
    add_le(out, 0, 2);
    add_le(out, AUXTRACE_BYTES, 2);
    add_le(out, n, 8);
    add_le(out, 0, 8);
    add_le(out, 1, 8);
    add_le(out, 0, 4);
    add_le(out, 100, 4);
    add_le(out, UINT32_MAX, 4);
    add_le(out, 0, 4);
    add(out, trace, n);
}

/* Pages of files that are in this process's memory, in bytes. */
static size_t file_bytes(void)
{
    unsigned long size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu %lu", &size, &resident, &shared), 3);
    fclose(file);
    return shared * (size_t)sysconf(_SC_PAGESIZE);
}

/* 256 MiB of trace, all holes of the file. */
static void a_large_recording_does_not_stay_in_memory(void **state)
{
    (void)state;
    enum { PIECES = 1024, PIECE = 256 << 10, ROOM = 40 << 20 };
    struct whole whole = read_sample();
    static struct bytes out;
    const char *path = scratch_path("large.data");
    out.n = 0;
    add_pipe_head(&out, &whole);
    size_t info = record_bytes(&whole, whole.start);
    add(&out, whole.bytes + whole.start, info);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(out.p, 1, out.n, file), out.n);
    for (uint64_t i = 0; i < PIECES; i++) {
        out.n = 0;
        put_snapshot(&out, whole.bytes, 0);
        put_le(out.p + 8, PIECE, 8);
        put_le(out.p + 16, i * PIECE, 8);
        assert_int_equal(fwrite(out.p, 1, out.n, file), out.n);
        assert_int_equal(fseek(file, PIECE - (i + 1 == PIECES), SEEK_CUR), 0);
    }
    fputc(0, file);
    fclose(file);
    size_t before = file_bytes(), n;
    struct cofi_recording *recording;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_null(cofi_recording_warning(recording, 0));
    assert_int_equal(cofi_recording_stream(recording, 0)->bytes, (uint64_t)PIECES * PIECE);
    if (file_bytes() >= before + ROOM)
        fail_msg("%zu bytes of files in memory, %zu before", file_bytes(), before);
    for (uint64_t at = 0, sum = 0; at < (uint64_t)PIECES * PIECE; at += n) {
        const uint8_t *bytes = cofi_recording_bytes(recording, 0, at, &n);
        for (size_t i = 0; i < n; i += 512)
            sum += bytes[i];
        assert_int_equal(sum, 0);
        cofi_recording_unneeded(recording, 0, at, n);
        if (at < PIECE)
            assert_int_equal(bytes[n / 2], 0); /* still to be looked at */
    }
    if (file_bytes() >= before + ROOM)
        fail_msg("%zu bytes of files in memory, %zu before", file_bytes(), before);
    cofi_recording_close(recording);
    free(whole.bytes);
    unlink(path);
}

/* Events of 64 bytes (perf of 2010) and of 136 (newer than any). */
static void events_of_any_size(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static const size_t sizes[] = {64, 72, 128, 136};
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        static struct bytes out;
        uint8_t attr[256] = {0};
        out.n = 0;
        add(&out, whole.bytes, PERF_HEADER_BYTES + 16);
        for (size_t i = 0; i < 2; i++) {
            const uint8_t *entry = whole.bytes + PERF_HEADER_BYTES + 16 + i * (ATTR_BYTES + 16);
            memcpy(attr, entry, ATTR_BYTES);
            put_le(attr + ATTR_SIZE, sizes[s], 4);
            add(&out, attr, sizes[s]);
            add(&out, entry + ATTR_BYTES, 16);
        }
        put_le(out.p + 16, sizes[s] + 16, 8);
        put_le(out.p + 32, 2 * (sizes[s] + 16), 8);
        put_le(out.p + 40, out.n, 8);
        put_le(out.p + 72, 1 << 3, 8); /* one feature, so that the file counts as closed */
        put_le(out.p + 80, 0, 8);
        put_le(out.p + 88, 0, 8);
        put_le(out.p + 96, 0, 8);
        add(&out, whole.bytes + whole.start, whole.end - whole.start);
        add_le(&out, out.n + 16, 8);
        add_le(&out, 0, 8);
        const char *path = scratch_path("attr.data");
        write_whole(path, out.p, out.n);
        assert_is_sample(path);
    }
    free(whole.bytes);
}

/* Two snapshots of one circular buffer: the second begins with what the first ends with. */
static void snapshots_that_share_bytes_are_one_stream(void **state)
{
    (void)state;
    struct whole whole = read_sample();
    static struct bytes out;
    uint8_t trace[400];
    for (size_t i = 0; i < sizeof trace; i++)
        trace[i] = (uint8_t)(i % 7 * 2 + 4);
    for (size_t i = 0; i < 3; i++) /* PSB, TSC */
        memcpy(trace + i * 120, sample_trace, 24), trace[i * 120 + 18] = (uint8_t)i;
    out.n = 0;
    add_pipe_head(&out, &whole);
    size_t info = out.n;
    add(&out, whole.bytes + whole.start, le16(whole.bytes + whole.start + 6));
    put_le(out.p + info + 16 + 8 * INFO_SNAPSHOT_MODE, 1, 8);
    put_snapshot(&out, trace, 310);
    put_snapshot(&out, trace + 20, 300);
    put_snapshot(&out, trace + 80, 320); /* what it adds to has no PSB */
    put_snapshot(&out, sample_trace, 40); /* another one, later */
    const char *path = scratch_path("snapshot.data");
    write_whole(path, out.p, out.n);
    struct cofi_recording *recording;
    uint8_t got[400];
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_true(cofi_recording_info(recording)->snapshot);
    assert_int_equal(cofi_recording_streams(recording), 2);
    assert_int_equal(read_stream(recording, 0, got, 400), 400);
    assert_memory_equal(got, trace, 400);
    assert_int_equal(cofi_recording_stream(recording, 0)->pieces, 3);
    assert_int_equal(read_stream(recording, 1, got, 400), 40);
    cofi_recording_close(recording);
    free(whole.bytes);
}

static void note(void *opaque, uint64_t addr, uint64_t len)
{
    uint64_t *sum = opaque;
    sum[0] += len;
    sum[1] = addr;
}

static int byte_now(struct cofi_view *view, uint64_t addr)
{
    struct cofi_code code;
    return cofi_view_find(view, addr, &code) < 0 ? -1 : code.bytes[addr - code.start];
}

/* Processes 10 and 20 take turns on processor 1; they share one page and differ in another. */
static void a_stream_of_a_processor_shows_the_process_that_runs(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("cpu.data");
    static const uint8_t a[64] = "aaaa", b[64] = "bbbb";
    info.per_cpu = true;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (int32_t pid = 10; pid <= 20; pid += 10) {
        put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = pid, .tid = pid, .time_ns = 1, .name = "x"});
        put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = pid, .tid = pid, .time_ns = 2, .addr = 0x9000,
                                           .len = 0x1000, .name = "/bin/sh"});
        put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = pid, .tid = pid, .time_ns = 3, .addr = 0x1000,
                                           .bytes = pid == 10 ? a : b, .len = 64});
    }
    put(writer, (struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .cpu = 1, .pid = 10, .tid = 11, .time_ns = 5});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = 1, .pid = 10, .tid = 11, .ppid = 20, .ptid = 22,
                                       .out = true, .time_ns = 10});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = 1, .pid = 20, .tid = 22, .ppid = 10, .ptid = 11,
                                       .time_ns = 11});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = 2, .pid = 10, .tid = 11, .time_ns = 12});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 10, .tid = 10, .time_ns = 15, .addr = 0x1001,
                                       .bytes = (const uint8_t *)"c", .len = 1});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = 1, .pid = 0, .tid = 0, .time_ns = 20});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = 1, .pid = 10, .tid = 12, .time_ns = 30});
    assert_int_equal(cofi_writer_trace(writer, 10, 10, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct whole whole;
    whole.bytes = read_whole(path, &whole.n);
    whole.start = le64(whole.bytes + 40);
    whole.end = whole.start + le64(whole.bytes + 48);
    for (size_t at = whole.start; at < whole.end; at += record_bytes(&whole, at))
        if (le32(whole.bytes + at) == PERF_AUXTRACE) {
            put_le(whole.bytes + at + 36, UINT32_MAX, 4); /* tid */
            put_le(whole.bytes + at + 40, 1, 4);          /* cpu */
        }
    write_whole(path, whole.bytes, whole.n);
    struct cofi_recording *recording;
    struct cofi_view *view;
    uint64_t told[2] = {0};
    int32_t pid;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_int_equal(cofi_recording_thread(recording, 0, 0, &pid), 11);
    assert_int_equal(cofi_recording_thread(recording, 0, 10, &pid), 22);
    assert_int_equal(pid, 20);
    assert_int_equal(cofi_recording_thread(recording, 0, 25, &pid), 0);
    assert_int_equal(cofi_recording_thread(recording, 0, 99, &pid), 12);
    assert_int_equal(cofi_view_open(&view, cofi_recording_stream_image(recording, 0)), 0);
    cofi_view_advance(view, 5, NULL, NULL);
    assert_int_equal(byte_now(view, 0x1000), 'a');
    assert_int_equal(cofi_view_next_change(view), 10);
    assert_true(cofi_view_advance(view, 10, note, told) > 0);
    assert_int_equal(told[0], 4); /* only what differs: not the shared page, not the zeros */
    assert_int_equal(byte_now(view, 0x1000), 'b');
    cofi_view_advance(view, 20, NULL, NULL);
    assert_int_equal(byte_now(view, 0x1000), -1);
    cofi_view_advance(view, 30, NULL, NULL);
    assert_int_equal(byte_now(view, 0x1000), 'a');
    assert_int_equal(byte_now(view, 0x1001), 'c');
    cofi_view_close(view);
    cofi_recording_close(recording);
    free(whole.bytes);
}

static void a_compressed_recording_is_read_as_it_is_and_unpacks_to_a_plain_one(void **state)
{
    (void)state;
    const char *path = scratch_path("z.data.zst"), *plain = scratch_path("z.data");
    struct cofi_recording *recording;
    size_t n;
    write_sample(path, 46);
    assert_is_sample(path);
    uint8_t *packed = read_whole(path, &n), unpacked[1 << 16];
    size_t total = ZSTD_decompress(unpacked, sizeof unpacked, packed, n);
    assert_false(ZSTD_isError(total));
    write_whole(plain, unpacked, total);
    assert_is_sample(plain);
    const char *cut = scratch_path("cut.zst");
    for (size_t i = 0; i < n; i += 13) { /* whatever the end: no crash, and what there is */
        write_whole(cut, packed, i);
        if (cofi_recording_open(&recording, cut, NULL) >= 0)
            cofi_recording_close(recording);
    }
    size_t second = ZSTD_findFrameCompressedSize(packed, n); /* behind the header, which is a frame and stays readable */
    for (size_t i = second; i < n; i++) { /* what is damaged costs what follows, and is told */
        packed[i] ^= 1;
        write_whole(cut, packed, n);
        packed[i] ^= 1;
        if (i < n - 4 && cofi_recording_open(&recording, cut, NULL) == COFI_ERR_BAD_FORMAT)
            continue;
        assert_true(i < n - 4 || cofi_recording_open(&recording, cut, NULL) == 0); /* the checksum of it all */
        bool whole = cofi_recording_streams(recording) && cofi_recording_stream(recording, 0)->bytes == sizeof sample_trace;
        const char *warning = cofi_recording_warning(recording, 0);
        assert_true(whole || warning);
        assert_true(whole || i < n - 4);
        if (warning)
            assert_non_null(strstr(warning, "compressed data at "));
        assert_true(cofi_recording_damaged(recording, &(uint64_t){0}) == (warning != NULL));
        assert_true(warning || i < n - 4);
        cofi_recording_close(recording);
    }
    free(packed);
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    static uint8_t trace[1000000];
    for (size_t i = 0; i < sizeof trace; i++)
        trace[i] = (uint8_t)(i * i >> 9);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(cofi_writer_trace(writer, 1, 1, trace, sizeof trace, 1), 0);
        assert_int_equal(cofi_writer_trace(writer, 1, 2, trace, 12345, 1), 0);
        assert_int_equal(cofi_writer_flush(writer), 0);
        assert_int_equal(cofi_recording_open(&recording, path, NULL), 0); /* not closed yet */
        uint64_t bytes = cofi_recording_stream(recording, 0)->bytes + cofi_recording_stream(recording, 1)->bytes;
        assert_int_equal(bytes, (i + 1) * (sizeof trace + 12345));
        cofi_recording_close(recording);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_from_a_pipe),
        cmocka_unit_test(a_recording_with_compressed_records),
        cmocka_unit_test(compressed_records_that_would_fill_the_memory_are_left_out),
        cmocka_unit_test(a_directory_as_perf_record_kcore_makes_it),
        cmocka_unit_test(a_directory_as_perf_record_threads_makes_it),
        cmocka_unit_test(lost_samples_are_told), cmocka_unit_test(trace_in_samples),
        cmocka_unit_test(many_samples_that_share_bytes),
        cmocka_unit_test(trace_behind_all_else_in_a_sample),
        cmocka_unit_test(a_large_recording_does_not_stay_in_memory),
        cmocka_unit_test(events_of_any_size),
        cmocka_unit_test(a_stream_of_a_processor_shows_the_process_that_runs),
        cmocka_unit_test(a_compressed_recording_is_read_as_it_is_and_unpacks_to_a_plain_one),
        cmocka_unit_test(snapshots_that_share_bytes_are_one_stream),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
