/* SPDX-License-Identifier: MIT
 * What is written is what is read, of every kind. */
#include "sample.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static void info_and_trace_come_back(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 8, 46};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        const char *path = scratch_path("a.data");
        write_sample(path, pieces[i]);
        struct cofi_recording *recording = open_recording(path);
        const struct cofi_recording_info *info = cofi_recording_info(recording);
        struct cofi_recording_info want = sample_info();
        assert_int_equal(info->gen, COFI_PT);
        assert_int_equal(info->config, want.config);
        assert_memory_equal(&info->time, &want.time, sizeof want.time);
        assert_int_equal(info->family, 6);
        assert_int_equal(info->model, 78);
        assert_int_equal(info->stepping, 3);
        assert_string_equal(info->vendor, "GenuineIntel");
        assert_string_equal(info->command, "sample of the test");
        assert_null(info->filter);
        assert_null(cofi_recording_warning(recording, 0));
        assert_int_equal(cofi_recording_streams(recording), 1);
        const struct cofi_recording_stream *stream = cofi_recording_stream(recording, 0);
        assert_int_equal(stream->pid, 100);
        assert_int_equal(stream->tid, 100);
        assert_int_equal(stream->cpu, -1);
        assert_int_equal(stream->bytes, sizeof sample_trace);
        assert_int_equal(stream->reference_tsc, 0x1fff);
        uint8_t bytes[64];
        assert_int_equal(read_stream(recording, 0, bytes, sizeof bytes), sizeof sample_trace);
        assert_memory_equal(bytes, sample_trace, sizeof sample_trace);
        cofi_recording_close(recording);
    }
}

static const struct cofi_sideband rows[] = {
    {SAMPLE_SB(FORK, 10), .ppid = 7, .ptid = 8},
    {SAMPLE_SB(COMM, 11), .name = "first"},
    {SAMPLE_SB(COMM, 12), .name = "a longer name", .exec = true},
    {SAMPLE_SB(MMAP, 13), .name = "/nowhere", .addr = 0x1000, .len = 0x2000, .pgoff = 0x3000, .prot = 7, .flags = 1,
     .build_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, .build_id_size = 20},
    {SAMPLE_SB(MMAP, 14), .name = "/nowhere2", .addr = 0x8000, .len = 0x2000, .pgoff = 0x3000, .prot = 5, .flags = 2,
     .build_id = {9, 8, 7}, .build_id_size = 8},
    {SAMPLE_SB(MMAP, 14), .name = "[kernel.kallsyms]_text", .addr = 0xffffffff81000000, .len = 0x100000, .prot = 5,
     .pgoff = 0xffffffff81000000, .kernel = true},
    {SAMPLE_SB(ITRACE_START, 15)},
    {SAMPLE_SB(SWITCH, 16), .out = true, .preempt = true},
    {SAMPLE_SB(SWITCH, 17), .out = true},
    {SAMPLE_SB(SWITCH, 18)},
    {SAMPLE_SB(SWITCH_CPU, 19), .out = true, .ppid = 3, .ptid = 4},
    {SAMPLE_SB(AUX, 20), .aux_offset = 0x1234567890, .aux_size = 0x1000, .aux_flags = 1},
    {SAMPLE_SB(LOST, 21), .len = 77},
    {SAMPLE_SB(CODE, 22), .addr = 0x401000, .bytes = sample_code, .len = sizeof sample_code},
    {SAMPLE_SB(TEXT_POKE, 23), .addr = 0xffffffff81000010, .bytes = sample_code, .len = 5, .kernel = true},
    {.kind = COFI_SB_EXIT, .cpu = UINT32_MAX, .pid = 100, .tid = 101, .ppid = 100, .ptid = 100, .time_ns = 24},
    {SAMPLE_SB(FORK, 25), .ppid = 7, .ptid = 8, .exec = true},
};

static void assert_same(const struct cofi_sideband *got, const struct cofi_sideband *want)
{
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->exec, want->exec);
    assert_int_equal(got->out, want->out);
    assert_int_equal(got->preempt, want->preempt);
    assert_int_equal(got->cpu, want->cpu);
    assert_int_equal(got->pid, want->pid);
    assert_int_equal(got->tid, want->tid);
    assert_int_equal(got->ppid, want->ppid);
    assert_int_equal(got->ptid, want->ptid);
    assert_int_equal(got->time_ns, want->time_ns);
    assert_int_equal(got->addr, want->addr);
    assert_int_equal(got->len, want->len);
    assert_int_equal(got->pgoff, want->pgoff);
    assert_int_equal(got->flags, want->flags);
    assert_int_equal(got->kernel, want->kernel);
    assert_int_equal(got->build_id_size, want->build_id_size);
    assert_memory_equal(got->build_id, want->build_id, 20);
    assert_int_equal(got->aux_offset, want->aux_offset);
    assert_int_equal(got->aux_size, want->aux_size);
    assert_int_equal(got->aux_flags, want->aux_flags);
    if (want->name)
        assert_string_equal(got->name, want->name);
    if (want->bytes)
        assert_memory_equal(got->bytes, want->bytes, want->len);
}

static void every_kind_of_sideband_comes_back_in_time_order(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("b.data");
    info.filter = "filter 0x1000/0x10@/bin/x";
    info.gen = COFI_RTIT;
    info.config = 0xfedcba9876543210;
    info.ranges_known = true;
    info.events = 0x32;
    info.cr3_match = 0x5000;
    for (size_t i = 0; i < 2; i++) {
        info.range_base[i] = 0x401000 + i;
        info.range_limit[i] = UINT64_MAX - i;
    }
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (size_t i = ARRAY_LEN(rows); i-- > 0;) /* backwards, but for equal times */
        put(writer, rows[i == 4 ? 5 : i == 5 ? 4 : i]);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_same(cofi_recording_sideband(recording, i), &rows[i]);
    assert_null(cofi_recording_sideband(recording, ARRAY_LEN(rows)));
    /* What was lost is told. */
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "lost 77 sideband records"));
    assert_non_null(strstr(cofi_recording_warning(recording, 1), "buffer was full 1 times"));
    assert_null(cofi_recording_warning(recording, 2));
    assert_string_equal(cofi_recording_info(recording)->filter, info.filter);
    assert_int_equal(cofi_recording_info(recording)->gen, COFI_RTIT);
    assert_int_equal(cofi_recording_info(recording)->config, info.config);
    assert_true(cofi_recording_info(recording)->ranges_known);
    assert_int_equal(cofi_recording_info(recording)->events, info.events);
    assert_int_equal(cofi_recording_info(recording)->cr3_match, info.cr3_match);
    assert_memory_equal(cofi_recording_info(recording)->range_base, info.range_base, sizeof info.range_base);
    assert_memory_equal(cofi_recording_info(recording)->range_limit, info.range_limit, sizeof info.range_limit);
    cofi_recording_close(recording);
}

/* RTIT ends without a packet when its buffer is full: an AUX record of no bytes says so [RTIT 4.2.5]. */
/* As AUX records say: once each, in its own stream, not where nothing was lost, before the first byte, beyond the end, or in a circular buffer.
 * The first byte is the buffer's BASE-th. */
static void where_the_buffer_was_full_is_told(void **state)
{
    (void)state;
    enum { FULL = 1, GAPS = 4, SIZE = 40, BASE = 1000 };
    static const struct cofi_sideband aux[] = {
        {.tid = 1, .aux_flags = FULL}, {.tid = 1, .aux_size = 8, .aux_flags = GAPS}, {.tid = 1, .aux_offset = 8, .aux_size = 8, .aux_flags = FULL}, {.tid = 1, .aux_offset = 16, .aux_flags = FULL},
        {.tid = 3, .aux_size = 20, .aux_flags = FULL}, {.tid = 1, .aux_offset = 16, .aux_size = SIZE - 16, .aux_flags = FULL},
        {.tid = 1, .aux_offset = SIZE, .aux_size = 8, .aux_flags = FULL},
    };
    for (int circular = 0; circular < 2; circular++) {
        struct cofi_recording_info info = sample_info();
        struct cofi_writer *writer;
        const char *path = scratch_path("full.data");
        info.snapshot = circular;
        assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
        for (int32_t tid = 1; tid <= 2; tid++)
            assert_int_equal(cofi_writer_trace(writer, tid, tid, sample_trace, SIZE, 1), 0);
        for (size_t i = 0; i < ARRAY_LEN(aux); i++) {
            struct cofi_sideband row = aux[i];
            row.kind = COFI_SB_AUX;
            row.aux_offset += BASE;
            row.time_ns = 100 + i;
            put(writer, row);
        }
        assert_int_equal(cofi_writer_close(writer, NULL), 0);
        set_in_auxtraces(path, 16, BASE, 8);
        struct cofi_recording *recording = open_recording(path);
        assert_non_null(strstr(cofi_recording_warning(recording, 0), "buffer was full 6 times"));
        assert_non_null(strstr(cofi_recording_warning(recording, 1), "1 of 9 pieces of the trace have gaps"));
        for (size_t i = 0, n; i < 2; i++) {
            const uint64_t *breaks = cofi_recording_breaks(recording, i, &n);
            bool is_it = cofi_recording_stream(recording, i)->tid == 1 && !circular;
            assert_int_equal(n, is_it ? 2 : 0);
            if (is_it)
                assert_true(breaks[0] == 16 && breaks[1] == SIZE);
        }
        cofi_recording_close(recording);
    }
}

/* A PSB+ each 8 KiB, at the times 1, 2 .. << 40; the fifth is cut within its TSC: what lies behind is none of its bytes. */
static void a_time_is_not_read_across_a_full_buffer(void **state)
{
    (void)state;
    enum { FULL = 1, STEPS = 8, STEP = 8192, CUT = 4 * STEP + 16 + 3 };
    static uint8_t bytes[STEPS * STEP];
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("cut.data");
    for (unsigned i = 0; i < STEPS; i++) {
        memcpy(bytes + i * STEP, sample_trace, 16);
        memcpy(bytes + i * STEP + 16, (uint8_t[]){0x19, 0, 0, 0, 0, 0, (uint8_t)(i + 1), 0, 0x02, 0x23}, 10);
    }
    memcpy(bytes + CUT, (uint8_t[]){0x99, 1, 0, 0, 0, 0, 0}, 7);
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    assert_int_equal(cofi_writer_trace(writer, 1, 1, bytes, sizeof bytes, 1), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_AUX, .tid = 1, .time_ns = 100, .aux_size = CUT, .aux_flags = FULL});
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    for (unsigned i = 0; i < STEPS; i++)
        assert_int_equal(cofi_recording_seek(recording, 0, (UINT64_C(1) << 40) * (i + 1) + 1), (i == 4 ? 3 : i) * STEP);
    cofi_recording_close(recording);
}

/* As the fast host wrote them until November 2026: what tells the time are PSBs, one in every other piece. */
static void pieces_of_the_same_reference_are_told_apart_by_their_psbs(void **state)
{
    (void)state;
    enum { PIECES = 40, PIECE_BYTES = 8192 };
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("same.data");
    static uint8_t bytes[PIECE_BYTES];
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (unsigned i = 0; i < PIECES; i++) {
        memset(bytes, 4, sizeof bytes);
        if (i % 2 == 0) {
            memcpy(bytes + 100, sample_trace, 16);
            memcpy(bytes + 116, (uint8_t[]){0x19, (uint8_t)(i + 1), 1, 0, 0, 0, 0, 0, 0x02, 0x23}, 10);
        }
        assert_int_equal(cofi_writer_trace(writer, 1, 1, bytes, sizeof bytes, 1), 0);
        assert_int_equal(cofi_writer_flush(writer), 0);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_stream(recording, 0)->pieces, PIECES);
    for (unsigned i = 0; i < PIECES; i += 2) {
        uint64_t psb = (uint64_t)i * PIECE_BYTES + 100, time = 0x100 + i + 1;
        uint64_t from = cofi_recording_seek(recording, 0, time + 1);
        assert_true(from <= psb && (i < 4 || from >= psb - 2 * PIECE_BYTES));
        assert_true(cofi_recording_seek(recording, 0, time) < psb);
    }
    cofi_recording_close(recording);
}

static void a_stream_that_ends_in_an_overflow_says_so(void **state)
{
    (void)state;
    for (int marked = 0; marked < 2; marked++) {
        struct cofi_recording_info info = sample_info();
        struct cofi_writer *writer;
        const char *path = scratch_path("o.data");
        static const uint8_t psb[9] = {0xc0};
        info.gen = COFI_RTIT;
        assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
        assert_int_equal(cofi_writer_trace(writer, 1, 1, psb, sizeof psb, 1), 0);
        struct cofi_sideband mark = {.kind = COFI_SB_AUX, .cpu = UINT32_MAX, .pid = 1, .tid = 1, .time_ns = 50,
                                     .aux_offset = sizeof psb, .aux_flags = 1};
        if (marked)
            put(writer, mark);
        assert_int_equal(cofi_writer_close(writer, NULL), 0);
        struct cofi_recording *recording = open_recording(path);
        assert_int_equal(cofi_recording_stream(recording, 0)->ends_in_overflow, marked);
        assert_null(cofi_recording_warning(recording, 0));
        cofi_recording_close(recording);
    }
}

/* Process 1 maps, forks 2, which execs; then 1's code is rewritten; 2 ends and its number is used again. */
static void address_spaces_follow_fork_exec_and_rewritten_code(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("c.data");
    static const uint8_t a[16] = "aaaaaaaaaaaaaaa", b[16] = "bbbbbbbbbbbbbbb", c[16] = "ccccccccccccccc";
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 1, .tid = 1, .time_ns = 1, .name = "one"});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 1, .tid = 1, .time_ns = 2, .addr = 0x1000,
                                       .bytes = a, .len = 16});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 2, .tid = 2, .ppid = 1, .ptid = 1, .time_ns = 3});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 1, .tid = 1, .time_ns = 4, .addr = 0x1004,
                                       .bytes = b, .len = 4});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 2, .tid = 2, .time_ns = 5, .name = "two", .exec = true});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 2, .tid = 2, .time_ns = 6, .addr = 0x2000,
                                       .bytes = c, .len = 16});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = 2, .tid = 2, .time_ns = 7});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 2, .tid = 2, .ppid = 1, .ptid = 1, .time_ns = 8});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 2, .tid = 9, .ppid = 2, .ptid = 2, .time_ns = 9});
    assert_int_equal(cofi_writer_trace(writer, 1, 1, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(byte_of(recording, 1, 1, 0x1000), -1);
    assert_int_equal(byte_of(recording, 1, 3, 0x1004), 'a');
    assert_int_equal(byte_of(recording, 1, 4, 0x1003), 'a');
    assert_int_equal(byte_of(recording, 1, 4, 0x1004), 'b');
    assert_int_equal(byte_of(recording, 2, 4, 0x1004), 'a');
    assert_int_equal(byte_of(recording, 2, 5, 0x1004), -1);
    assert_int_equal(byte_of(recording, 2, 6, 0x2000), 'c');
    assert_int_equal(byte_of(recording, 2, 8, 0x2000), -1);
    assert_int_equal(byte_of(recording, 2, 8, 0x1004), 'b');
    assert_null(cofi_recording_image(recording, 77));
    assert_string_equal(cofi_recording_comm(recording, 2, 4), "one");
    assert_string_equal(cofi_recording_comm(recording, 2, 6), "two");
    assert_string_equal(cofi_recording_comm(recording, 2, 8), "one");
    assert_string_equal(cofi_recording_comm(recording, 9, 100), "one");
    assert_null(cofi_recording_comm(recording, 10, 100));
    cofi_recording_close(recording);
}

static void a_stream_is_called_what_its_thread_was_called_last(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("names.data");
    info.time.conv = (struct cofi_time_conv){.mult = 1024, .shift = 10};
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 1, .tid = 1, .time_ns = 1, .name = "one"});
    for (unsigned i = 0; i < 3; i++) {
        uint64_t time = 100 * (i + 1);
        put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 2, .tid = 2, .ppid = 1, .ptid = 1, .time_ns = time});
        assert_int_equal(cofi_writer_trace(writer, 2, 2, sample_trace, sizeof sample_trace, time + 10), 0);
        if (i)
            put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 2, .tid = 2, .time_ns = time + 20, .name = "two", .exec = true});
        if (i == 1)
            put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 2, .tid = 2, .time_ns = time + 30, .name = "three"});
        put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = 2, .tid = 2, .time_ns = time + 50});
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_streams(recording), 3);
    assert_string_equal(cofi_recording_stream_comm(recording, 0), "one");
    assert_string_equal(cofi_recording_stream_comm(recording, 1), "three");
    assert_string_equal(cofi_recording_stream_comm(recording, 2), "two");
    assert_null(cofi_recording_stream_comm(recording, 3));
    cofi_recording_close(recording);
}

/* Other first 16 bytes for which known_code.c's sum over n bytes is the same. */
static void make_namesake(uint8_t *code, size_t n)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t first, second, other;
    memcpy(&first, code, 8);
    memcpy(&second, code + 8, 8);
    other = ~first;
    second ^= (n ^ first) * factor ^ (n ^ other) * factor;
    memcpy(code, &other, 8);
    memcpy(code + 8, &second, 8);
}

/* The last mapping of code in a file shows another place of it now. */
static void lead_last_code_astray(const char *path)
{
    enum { PGOFF = 32, GENERATION = 56 };
    static uint8_t file[1 << 20];
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    size_t n = fread(file, 1, sizeof file, f), at = n;
    while (at && memcmp(file + at, "COFICODE", 8))
        at--;
    assert_true(at > GENERATION && n < sizeof file);
    file[at - GENERATION + PGOFF] ^= 8;
    rewind(f);
    assert_int_equal(fwrite(file, 1, n, f), n);
    fclose(f);
}

/* Most processes have the same code, of which perf sees 16 bytes more each time; one has other code, two such as is taken for it at first. */
static void code_that_is_told_again_is_in_the_file_once(void **state)
{
    (void)state;
    enum { LEN = 2048, AHEAD = 16, PIDS = 40 };
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("again.data");
    static uint8_t codes[PIDS + 1][LEN + AHEAD];
    struct stat st;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (int pid = 1; pid <= PIDS; pid++) {
        uint8_t *code = codes[pid];
        for (size_t i = 0; i < sizeof codes[0]; i++)
            code[i] = (uint8_t)(i * 7 + (i >> 8) + (pid == 3));
        if (pid == 5 || pid == 21)
            make_namesake(code, sizeof codes[0]);
        put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = pid, .tid = pid, .time_ns = (uint64_t)pid, .addr = 0x1000u * (unsigned)pid,
                                           .bytes = code, .len = LEN, .ahead = AHEAD});
        if (pid % 8 == 0) /* from here on they are not on their way to the file any more but in it */
            assert_int_equal(cofi_writer_flush(writer), 0);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 3 * sizeof codes[0], 12 * sizeof codes[0]);
    struct cofi_recording *recording = open_recording(path);
    for (int pid = 1; pid <= PIDS; pid++) {
        uint64_t at = 0x1000u * (unsigned)pid;
        for (size_t i = 0; i < LEN; i++)
            assert_int_equal(byte_of(recording, pid, 100, at + i), codes[pid][i]);
        assert_int_equal(byte_of(recording, pid, 100, at + LEN), -1);
    }
    const struct cofi_sideband *sb;
    size_t told = 0;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        told += sb->kind == COFI_SB_CODE && sb->len == LEN && sb->ahead == AHEAD && !memcmp(sb->bytes, codes[sb->pid], LEN + AHEAD);
    assert_int_equal(told, PIDS);
    cofi_recording_close(recording);
    lead_last_code_astray(path);
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    uint64_t missing;
    assert_true(cofi_recording_damaged(recording, &missing) && cofi_recording_damaged(recording, NULL));
    assert_null(cofi_recording_image(recording, PIDS)); /* it has no code but this */
    assert_int_equal(byte_of(recording, PIDS - 1, 100, 0x1000u * (PIDS - 1)), codes[PIDS - 1][0]);
    cofi_recording_close(recording);
}

/* A large program's pages, each told by two processes. */
static void all_of_a_large_program_is_in_the_file_once(void **state)
{
    (void)state;
    enum { PAGE = 4096, PAGES = 6000, A_ROW = 300 };
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("large.data");
    static uint64_t page[PAGE / 8];
    struct stat st[2];
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (int pid = 1; pid <= 2; pid++) {
        for (uint64_t n = 0; n < PAGES; n++) {
            for (uint64_t i = 0; i < PAGE / 8; i++)
                page[i] = n * 1000003 + i * i;
            put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = pid, .tid = pid, .time_ns = (uint64_t)pid, .addr = PAGE * (n + 1),
                                               .bytes = (uint8_t *)page, .len = PAGE});
        }
        assert_int_equal(cofi_writer_flush(writer), 0);
        assert_int_equal(stat(path, &st[pid - 1]), 0);
    }
    assert_true(st[0].st_size > PAGE * PAGES && st[1].st_size - st[0].st_size < A_ROW * PAGES);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(byte_of(recording, 2, 100, PAGE * PAGES), (uint8_t)((PAGES - 1) * UINT64_C(1000003)));
    cofi_recording_close(recording);
}

static void code_longer_than_a_record_is_whole_at_every_address(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("d.data");
    enum { N = 300000 };
    uint8_t *code = malloc(N);
    for (size_t i = 0; i < N; i++)
        code[i] = (uint8_t)(i * 31 + (i >> 8));
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 1), .addr = 0x10000, .bytes = code, .len = N});
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    struct cofi_view *view;
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 100)), 0);
    cofi_view_advance(view, 1, NULL, NULL);
    for (size_t i = 0; i < N; i++) {
        struct cofi_code found;
        assert_int_equal(cofi_view_find(view, 0x10000 + i, &found), 0);
        assert_int_equal(found.bytes[0x10000 + i - found.start], code[i]);
    }
    cofi_view_close(view);
    cofi_recording_close(recording);
    free(code);
}

enum { WRITERS = 4, EACH = 3000000 };

static void *write_thread(void *opaque)
{
    struct cofi_writer *writer = *(struct cofi_writer **)opaque;
    static _Atomic int next = 1000;
    int tid = next++;
    uint8_t bytes[1000];
    for (size_t at = 0; at < EACH; at += sizeof bytes) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)((at + i) * (unsigned)tid >> 3);
        if (cofi_writer_trace(writer, 1000, tid, bytes, sizeof bytes, at + 1) < 0)
            return opaque;
        if (at % 50000 == 0) {
            struct cofi_sideband sb = {.kind = COFI_SB_SWITCH, .pid = 1000, .tid = tid, .time_ns = at};
            if (cofi_writer_sideband(writer, &sb) < 0)
                return opaque;
        }
        if (at % 1000000 == 0 && cofi_writer_flush(writer) < 0)
            return opaque;
    }
    return NULL;
}

static void threads_write_at_once_and_flush_between(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("e.data");
    pthread_t threads[WRITERS];
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_thread, &writer), 0);
    for (size_t i = 0; i < WRITERS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_null(cofi_recording_warning(recording, 0));
    assert_int_equal(cofi_recording_streams(recording), WRITERS);
    for (size_t s = 0; s < WRITERS; s++) {
        const struct cofi_recording_stream *stream = cofi_recording_stream(recording, s);
        assert_int_equal(stream->bytes, EACH);
        size_t n;
        for (uint64_t at = 0; at < EACH; at += n) {
            const uint8_t *bytes = cofi_recording_bytes(recording, s, at, &n);
            for (size_t i = 0; i < n; i++)
                if (bytes[i] != (uint8_t)((at + i) * (unsigned)stream->tid >> 3))
                    fail_msg("byte %llu of thread %d", (unsigned long long)(at + i), stream->tid);
        }
    }
    cofi_recording_close(recording);
}

/* The header is right after every piece: a copy of the file at any time is a recording. */
static void a_recording_that_is_not_closed_is_read_up_to_what_was_written(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("f.data");
    static uint8_t bytes[600001];
    memset(bytes, 0x5a, sizeof bytes);
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (int flushed = 0; flushed < 2; flushed++) {
        put(writer, rows[1]);
        assert_int_equal(cofi_writer_trace(writer, 100, 100, bytes, sizeof bytes, 1), 0);
        if (flushed)
            assert_int_equal(cofi_writer_flush(writer), 0);
        struct cofi_recording *recording = open_recording(path);
        const struct cofi_recording_stream *stream = cofi_recording_stream(recording, 0);
        assert_int_equal(stream->bytes, sizeof bytes * (flushed + 1));
        assert_non_null(cofi_recording_sideband(recording, (size_t)flushed));
        cofi_recording_close(recording);
    }
    cofi_writer_close(writer, NULL);
}

/* A PSB each 1000 bytes, a piece each 2500; the piece's reference is its number. */
static struct cofi_recording *write_pieces(enum cofi_gen gen, bool cyc, const uint8_t *psb, size_t n)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("seek.data");
    static uint8_t bytes[100000];
    info.gen = gen;
    info.time.cyc = cyc;
    memset(bytes, 4, sizeof bytes);
    for (size_t i = 500; i + n <= sizeof bytes; i += 1000)
        memcpy(bytes + i, psb, n);
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (size_t i = 0; i < sizeof bytes; i += 2500) {
        assert_int_equal(cofi_writer_trace(writer, 1, 1, bytes + i, 2500, 10 + i / 2500), 0);
        assert_int_equal(cofi_writer_flush(writer), 0);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    return open_recording(path);
}

static void a_place_to_start_from_is_found_by_offset_and_by_time(void **state)
{
    (void)state;
    struct cofi_recording *recording = write_pieces(COFI_PT, false, sample_trace, 16);
    assert_int_equal(cofi_recording_stream(recording, 0)->pieces, 40);
    assert_int_equal(cofi_recording_psb(recording, 0, 0, true), 500);
    assert_int_equal(cofi_recording_psb(recording, 0, 500, true), 500);
    assert_int_equal(cofi_recording_psb(recording, 0, 501, true), 1500);
    assert_int_equal(cofi_recording_psb(recording, 0, 2400, true), 2500);
    assert_int_equal(cofi_recording_psb(recording, 0, 99501, true), UINT64_MAX);
    assert_int_equal(cofi_recording_psb(recording, 0, 499, false), UINT64_MAX);
    assert_int_equal(cofi_recording_psb(recording, 0, 500, false), 500);
    assert_int_equal(cofi_recording_psb(recording, 0, 2499, false), 1500);
    assert_int_equal(cofi_recording_psb(recording, 0, 2500, false), 2500);
    assert_int_equal(cofi_recording_psb(recording, 0, UINT64_MAX, false), 99500);
    assert_int_equal(cofi_recording_psb(recording, 1, 0, true), UINT64_MAX);
    assert_int_equal(cofi_recording_seek(recording, 0, 9), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, 10), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, 11), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, 12), 2500);
    assert_int_equal(cofi_recording_seek(recording, 0, 13), 4500);
    assert_int_equal(cofi_recording_seek(recording, 0, UINT64_MAX), 97500);
    cofi_recording_close(recording);
}

/* Their estimates may run ahead of a PSB's time, and what follows it has theirs until it is as late. */
static void with_cycle_counts_the_place_is_as_far_before(void **state)
{
    (void)state;
    enum { AHEAD = 65536 };
    struct cofi_recording *recording = write_pieces(COFI_PT, true, sample_trace, 16);
    assert_int_equal(cofi_recording_seek(recording, 0, 13), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, AHEAD + 11), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, AHEAD + 12), 2500);
    assert_int_equal(cofi_recording_seek(recording, 0, AHEAD + 13), 4500);
    cofi_recording_close(recording);
}

/* At an RTIT PSB no address is known yet. */
static void of_rtit_the_psb_before_is_the_place(void **state)
{
    (void)state;
    static const uint8_t psb[9] = {0xc0};
    struct cofi_recording *recording = write_pieces(COFI_RTIT, false, psb, sizeof psb);
    assert_int_equal(cofi_recording_seek(recording, 0, 11), 0);
    assert_int_equal(cofi_recording_seek(recording, 0, 12), 1500);
    assert_int_equal(cofi_recording_seek(recording, 0, 13), 3500);
    assert_int_equal(cofi_recording_seek(recording, 0, UINT64_MAX), 96500);
    cofi_recording_close(recording);
}

static void a_thread_number_used_again_is_another_stream(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("g.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 5, .tid = 6, .ppid = 5, .ptid = 5, .time_ns = i});
        assert_int_equal(cofi_writer_trace(writer, 5, 6, sample_trace, 11 + i, 1), 0);
        put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = 5, .tid = 6, .ppid = 5, .ptid = 5, .time_ns = i});
        assert_int_equal(cofi_writer_trace(writer, 5, 6, sample_trace, 2, 1), 0); /* its last bytes come late */
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_streams(recording), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(cofi_recording_stream(recording, i)->tid, 6);
        assert_int_equal(cofi_recording_stream(recording, i)->bytes, 13 + i);
    }
    cofi_recording_close(recording);
}

/* All that is told of threads first, as who makes a recording from another one does. */
static void a_thread_that_has_ended_leaves_its_number_to_another_stream(void **state)
{
    (void)state;
    static const int32_t pids[] = {5, 6, 5, 5};
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("g1.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    assert_int_equal(cofi_writer_end(writer, 6), 0);
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++)
        put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = pids[i], .tid = 6, .ppid = 5, .ptid = 5, .time_ns = i});
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
        assert_int_equal(cofi_writer_trace(writer, pids[i], 6, sample_trace, 11 + i, 1), 0);
        assert_int_equal(cofi_writer_trace(writer, pids[i], 6, sample_trace, 2, 1), 0);
        assert_int_equal(cofi_writer_end(writer, 6), 0);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_streams(recording), ARRAY_LEN(pids));
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
        assert_int_equal(cofi_recording_stream(recording, i)->bytes, 13 + i);
        assert_int_equal(cofi_recording_stream(recording, i)->pid, pids[i]);
    }
    cofi_recording_close(recording);
}

/* A thread of process 5, a process, another thread of 5: whatever comes by the number later, the ones before are where they were. */
static void a_thread_number_used_again_is_in_the_process_that_has_it_then(void **state)
{
    (void)state;
    static const int32_t pids[] = {5, 6, 5};
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("g2.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
        put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = pids[i], .tid = 6, .ppid = 5, .ptid = 5, .time_ns = 2 * i});
        assert_int_equal(cofi_writer_trace(writer, pids[i], 6, sample_trace, 11 + i, 1), 0);
        put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .pid = pids[i], .tid = 6, .ppid = 5, .ptid = 5, .time_ns = 2 * i + 1});
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_streams(recording), ARRAY_LEN(pids));
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
        assert_int_equal(cofi_recording_stream(recording, i)->bytes, 11 + i);
        assert_int_equal(cofi_recording_stream(recording, i)->pid, pids[i]);
    }
    cofi_recording_close(recording);
}

static void a_full_disk_is_an_error_and_what_was_written_stays_readable(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    struct cofi_error error = {0};
    assert_int_equal(cofi_writer_open(&writer, "/dev/full", &info, &error), COFI_ERR_IO);
    assert_non_null(strstr(error.text, "No space left"));
    /* A limit on the file's size fails like a full disk in the middle. */
    const char *path = scratch_path("h.data");
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){1000000, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, rows[1]);
    setrlimit(RLIMIT_FSIZE, &small);
    int status = 0;
    uint64_t written = 0;
    for (; status >= 0 && written < 10000000; written += sizeof sample_trace)
        status = cofi_writer_trace(writer, 100, 100, sample_trace, sizeof sample_trace, 1);
    assert_int_equal(status, COFI_ERR_IO);
    assert_int_equal(cofi_writer_sideband(writer, &rows[2]), COFI_ERR_IO);
    assert_int_equal(cofi_writer_close(writer, &error), COFI_ERR_IO);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_non_null(strstr(error.text, "h.data: "));
    struct cofi_recording *recording = open_recording(path);
    assert_int_equal(cofi_recording_streams(recording), 1);
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "did not close the file"));
    assert_null(cofi_recording_warning(recording, 1)); /* the header says no more than there is */
    const struct cofi_recording_stream *stream = cofi_recording_stream(recording, 0);
    assert_in_range(stream->bytes, 700000, 1000000);
    uint8_t *bytes = malloc(stream->bytes);
    read_stream(recording, 0, bytes, stream->bytes);
    for (uint64_t i = 0; i < stream->bytes; i++)
        assert_int_equal(bytes[i], sample_trace[i % sizeof sample_trace]);
    free(bytes);
    cofi_recording_close(recording);
}

static void what_cannot_be_created_or_opened_says_why(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    assert_int_equal(cofi_writer_open(&writer, "/nowhere/x.data", &info, &error), COFI_ERR_IO);
    assert_non_null(strstr(error.text, "/nowhere/x.data: No such file or directory"));
    assert_int_equal(cofi_writer_open(&writer, scratch, &info, &error), COFI_ERR_IO);
    assert_non_null(strstr(error.text, "Is a directory"));
    assert_int_equal(cofi_recording_open(&recording, "/nowhere/x.data", &error), COFI_ERR_IO);
    assert_int_equal(cofi_recording_open(&recording, scratch, &error), COFI_ERR_IO);
    assert_non_null(strstr(error.text, "is a directory"));
    assert_int_equal(cofi_recording_open(&recording, "/dev/null", &error), COFI_ERR_BAD_FORMAT);
    assert_non_null(strstr(error.text, "empty"));
    assert_int_equal(cofi_recording_open(&recording, "/bin/sh", &error), COFI_ERR_BAD_FORMAT);
    assert_non_null(strstr(error.text, "an ELF file"));
}

/* Opens a recording at path, where `older` is already unless null, and discards it. */
static void discard(const char *path, const char *older, bool begun)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_sideband start = {SAMPLE_SB(ITRACE_START, 2)};
    struct cofi_writer *writer;
    FILE *f = older ? fopen(path, "w") : NULL;
    assert_true(!older || (f && fputs(older, f) >= 0 && !fclose(f)));
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 1), .name = "sample"});
    if (begun)
        put(writer, start);
    assert_int_equal(cofi_writer_discard(writer, NULL), 0);
}

/* Whether the file is that text and no more. */
static bool holds(const char *path, const char *text)
{
    char got[16] = "";
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(got, 1, sizeof got - 1, f) : 0;
    return f && !fclose(f) && n == strlen(text) && !strcmp(got, text);
}

static void a_recording_that_is_discarded_leaves_the_older_one(void **state)
{
    (void)state;
    const char *folder = scratch_path("f"), *file = scratch_path("f/older.data"), *packed = scratch_path("f/older.zst");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink("older.data", scratch_path("f/link")), 0);
    discard(scratch_path("f/link"), "older", false);
    assert_true(holds(file, "older"));
    discard(file, "older", false);
    assert_true(holds(file, "older"));
    discard(packed, "older", false);
    assert_true(holds(packed, "older"));
    unlink(packed);
    unlink(file);
    discard(file, NULL, false);
    unlink(scratch_path("f/link"));
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
}

static void a_recording_that_has_begun_is_not_discarded(void **state)
{
    (void)state;
    const char *const paths[] = {scratch_path("begun.data"), scratch_path("begun.zst")};
    for (size_t i = 0; i < 4; i++) {
        discard(paths[i / 2], i % 2 ? "older" : NULL, true);
        cofi_recording_close(open_recording(paths[i / 2]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_and_trace_come_back),
        cmocka_unit_test(every_kind_of_sideband_comes_back_in_time_order),
        cmocka_unit_test(where_the_buffer_was_full_is_told),
        cmocka_unit_test(a_time_is_not_read_across_a_full_buffer),
        cmocka_unit_test(pieces_of_the_same_reference_are_told_apart_by_their_psbs),
        cmocka_unit_test(a_stream_that_ends_in_an_overflow_says_so),
        cmocka_unit_test(address_spaces_follow_fork_exec_and_rewritten_code),
        cmocka_unit_test(a_stream_is_called_what_its_thread_was_called_last),
        cmocka_unit_test(code_that_is_told_again_is_in_the_file_once),
        cmocka_unit_test(all_of_a_large_program_is_in_the_file_once),
        cmocka_unit_test(code_longer_than_a_record_is_whole_at_every_address),
        cmocka_unit_test(threads_write_at_once_and_flush_between),
        cmocka_unit_test(a_recording_that_is_not_closed_is_read_up_to_what_was_written),
        cmocka_unit_test(a_place_to_start_from_is_found_by_offset_and_by_time),
        cmocka_unit_test(with_cycle_counts_the_place_is_as_far_before),
        cmocka_unit_test(of_rtit_the_psb_before_is_the_place),
        cmocka_unit_test(a_thread_number_used_again_is_another_stream),
        cmocka_unit_test(a_thread_that_has_ended_leaves_its_number_to_another_stream),
        cmocka_unit_test(a_thread_number_used_again_is_in_the_process_that_has_it_then),
        cmocka_unit_test(a_full_disk_is_an_error_and_what_was_written_stays_readable),
        cmocka_unit_test(what_cannot_be_created_or_opened_says_why),
        cmocka_unit_test(a_recording_that_is_discarded_leaves_the_older_one),
        cmocka_unit_test(a_recording_that_has_begun_is_not_discarded),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
