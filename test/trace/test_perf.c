/* SPDX-License-Identifier: MIT
 * Debian's perf as the judge of what is written, and of how perf's own recordings are read. */
#include "sample.h"

static bool have_perf(void)
{
    return system("perf --version >/dev/null 2>&1") == 0;
}

/* Output of a shell command, standard error included. */
static char *run(const char *format, const char *path)
{
    static char out[1 << 20];
    char command[512];
    snprintf(command, sizeof command, format, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof out - 1, pipe);
    out[n] = 0;
    pclose(pipe);
    return out;
}

#define SCRIPT "cd / && perf script -i %s --ns "

static void perf_decodes_the_code_inside_the_recording(void **state)
{
    (void)state;
    const char *path = scratch_path("p.data");
    for (size_t piece = 1; piece <= 46; piece += 45) {
        write_sample(path, piece);
        /* The list of example 16 in [PTREF 12]. */
        assert_string_equal(run(SCRIPT "--itrace=be -F ip,addr 2>&1 | sed 's/^ *//; s/ *=> */ /; s/ *$//'", path),
                            "0 401000\n401005 401018\n401019 40100a\n40100c 401005\n401005 401018\n"
                            "401019 40100a\n401015 40101a\n401021 0\n");
        assert_string_equal(run(SCRIPT "--itrace=i0nse -F ip 2>&1 | tr -d ' \\n'", path),
                            "401000401005401018401019"
                            "40100a40100c401005401018401019"
                            "40100a40100c40100e40101540101a40101f401021");
        assert_string_equal(run(SCRIPT "--itrace=be -F comm,pid,tid,time 2>&1 | head -1 | tr -s ' '", path),
                            " sample 100/100 0.000008192: \n");
    }
}

/* Each packet a piece of its own, in the file at once. */
static void perf_decodes_a_stream_of_many_pieces(void **state)
{
    (void)state;
    static const size_t ends[] = {16, 24, 28, 30, 32, 40, 41, 42, 45, 46};
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("u.data");
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 0x1001), .name = "sample", .exec = true});
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 0x1003), .addr = 0x401000, .bytes = sample_code,
                                       .len = sizeof sample_code});
    put(writer, (struct cofi_sideband){SAMPLE_SB(ITRACE_START, 0x1004)});
    for (size_t i = 0, at = 0; i < ARRAY_LEN(ends); at = ends[i++]) {
        assert_int_equal(cofi_writer_trace(writer, 100, 100, sample_trace + at, ends[i] - at, 0x1fff), 0);
        assert_int_equal(cofi_writer_flush(writer), 0);
    }
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    assert_string_equal(run(SCRIPT "--itrace=be -F ip,addr 2>&1 | sed 's/^ *//; s/ *=> */ /; s/ *$//'", path),
                        "0 401000\n401005 401018\n401019 40100a\n40100c 401005\n401005 401018\n"
                        "401019 40100a\n401015 40101a\n401021 0\n");
}

static void perf_dumps_every_record_and_packet(void **state)
{
    (void)state;
    const char *path = scratch_path("q.data");
    write_sample(path, 46);
    char *out = run(SCRIPT "-D 2>&1", path);
    static const char *const lines[] = {
        "PERF_RECORD_AUXTRACE_INFO type: 1", "PERF_RECORD_ID_INDEX nr: 2", "PERF_RECORD_FORK(100:100):(1:1)",
        "PERF_RECORD_COMM exec: sample:100/100", "]: r-xp /bin/sh", "]: r-xp [vdso]", "PERF_RECORD_TEXT_POKE",
        "PERF_RECORD_ITRACE_START pid: 100 tid: 100", "PERF_RECORD_SWITCH IN", "PERF_RECORD_AUX offset: 0",
        "PERF_RECORD_EXIT(100:100):(1:1)", "PERF_RECORD_AUXTRACE size: 0x30  offset: 0  ref: 0x1fff  idx: 0  tid: 100",
        "PERF_RECORD_FINISHED_ROUND", "PSB", "TSC 0x2000", "TNT TTT (3)", "TIP 0x101a", "TIP.PGD no ip"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        if (!strstr(out, lines[i]))
            fail_msg("perf does not print: %s", lines[i]);
    assert_null(strstr(out, "Bad packet"));
    out = run(SCRIPT "--header-only -I 2>&1", path);
    static const char *const header[] = {"# cpuid : GenuineIntel,6,78,3", "# cmdline : sample of the test",
                                         "intel_pt//", "# contains AUX area data", "# arch : x86_64"};
    for (size_t i = 0; i < ARRAY_LEN(header); i++)
        if (!strstr(out, header[i]))
            fail_msg("perf's header has no: %s", header[i]);
    out = run("perf buildid-list -i %s 2>&1", path);
    assert_non_null(strstr(out, " /bin/sh\n"));
}

/* Example 16 among NOPs: the code is more than a record holds, and the JNZ lies across the seam. */
static void perf_decodes_code_longer_than_a_record(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("r.data");
    enum { SEAM = 60 * 1024 };
    uint8_t *code = malloc(70000);
    memset(code, 0x90, 70000);
    memcpy(code + SEAM - 13, sample_code, sizeof sample_code); /* 75 | f7 */
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 0x1001), .name = "sample", .exec = true});
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 0x1003), .addr = 0x401000 - SEAM + 13, .bytes = code, .len = 70000});
    put(writer, (struct cofi_sideband){SAMPLE_SB(ITRACE_START, 0x1004)});
    assert_int_equal(cofi_writer_trace(writer, 100, 100, sample_trace, sizeof sample_trace, 0x1fff), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    assert_string_equal(run(SCRIPT "--itrace=be -F ip,addr 2>&1 | sed 's/^ *//; s/ *=> */ /; s/ *$//'", path),
                        "0 401000\n401005 401018\n401019 40100a\n40100c 401005\n401005 401018\n"
                        "401019 40100a\n401015 40101a\n401021 0\n");
    free(code);
}

/* Code rewritten between two runs of it: perf must see the old one first, then the new one. */
static void perf_follows_code_that_is_rewritten(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("s.data");
    static const uint8_t first[] = {0x90, 0xff, 0xe0}, second[] = {0x90, 0x90, 0x90, 0xff, 0xe0}; /* nop…; jmp rax */
    uint8_t trace[2 * 48] = {0};
    for (size_t i = 0; i < 2; i++) {
        memcpy(trace + i * 48, sample_trace, 40);              /* up to TIP.PGE 401000 */
        trace[i * 48 + 18] = (uint8_t)(0x20 + i * 0x20);        /* TSC 0x2000, 0x4000 */
        memcpy(trace + i * 48 + 40, "\x2d\x00\x10\x01", 4);    /* TIP 401000 */
        trace[i * 48 + 43] = 0x01;                              /* TIP.PGD */
    }
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 0x1001), .name = "jit", .exec = true});
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 0x1003), .addr = 0x401000, .bytes = first, .len = 3});
    put(writer, (struct cofi_sideband){SAMPLE_SB(ITRACE_START, 0x1004)});
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 0x3000), .addr = 0x401000, .bytes = second, .len = 5});
    assert_int_equal(cofi_writer_trace(writer, 100, 100, trace, sizeof trace, 0x1fff), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    const char *out = run(SCRIPT "--itrace=be -F ip,addr 2>&1 | sed 's/^ *//; s/ *=> */ /; s/ *$//'", path);
    assert_non_null(strstr(out, "401001 401000"));
    assert_non_null(strstr(out, "401003 401000"));
    assert_null(strstr(out, "error"));
}

static void perf_refuses_an_rtit_recording_in_one_line(void **state)
{
    (void)state;
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    const char *path = scratch_path("t.data");
    info.gen = COFI_RTIT;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    assert_int_equal(cofi_writer_trace(writer, 1, 1, sample_trace, 5, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    assert_non_null(strstr(run(SCRIPT "2>&1; echo status $?", path), "failed to process type: 70 [Invalid argument]\nstatus 234"));
}

int main(void)
{
    if (!have_perf()) {
        puts("1..0 # SKIP perf is not here");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perf_decodes_the_code_inside_the_recording),
        cmocka_unit_test(perf_decodes_a_stream_of_many_pieces),
        cmocka_unit_test(perf_dumps_every_record_and_packet),
        cmocka_unit_test(perf_decodes_code_longer_than_a_record),
        cmocka_unit_test(perf_follows_code_that_is_rewritten),
        cmocka_unit_test(perf_refuses_an_rtit_recording_in_one_line),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
