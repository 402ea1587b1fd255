/* SPDX-License-Identifier: MIT
 * A small recording: example 16 of [PTREF 12], its code in the recording. */
#ifndef COFI_TEST_SAMPLE_H
#define COFI_TEST_SAMPLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <cofi/trace.h>

#include "base/bytes.h"
#include "base/error.h"
#include "trace/perf_data.h"

static const uint8_t sample_code[] = {
    0xb9, 0x02, 0x00, 0x00, 0x00,             /* 401000 mov ecx, 2 */
    0xe8, 0x0e, 0x00, 0x00, 0x00,             /* 401005 call 401018 */
    0xff, 0xc9,                               /* 40100a dec ecx */
    0x75, 0xf7,                               /* 40100c jnz 401005 */
    0x48, 0x8d, 0x05, 0x05, 0x00, 0x00, 0x00, /* 40100e lea rax, [401 01a] */
    0xff, 0xe0,                               /* 401015 jmp rax */
    0x90,                                     /* 401017 */
    0x90,                                     /* 401018 nop */
    0xc3,                                     /* 401019 ret */
    0xb8, 0x3c, 0x00, 0x00, 0x00,             /* 40101a mov eax, 60 */
    0x31, 0xff,                               /* 40101f xor edi, edi */
    0x0f, 0x05,                               /* 401021 syscall */
};

/* PSB TSC CBR PSBEND MODE.Exec TIP.PGE, TNT, TNT, TIP, TIP.PGD. */
static const uint8_t sample_trace[] = {
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
    0x19, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x18, 0x00, 0x02, 0x23, 0x99, 0x01,
    0x71, 0x00, 0x10, 0x40, 0x00, 0x00, 0x00, 0x00, 0x1e, 0x04, 0x2d, 0x1a, 0x10, 0x01,
};

static inline struct cofi_recording_info sample_info(void)
{
    return (struct cofi_recording_info){
        .size = sizeof(struct cofi_recording_info),
        .gen = COFI_PT,
        .config = 0x300e689,
        .time = {.conv = {.zero = 0, .mult = 1024, .shift = 10}, .tsc_num = 2, .tsc_den = 1, .mtc_freq = 3,
                 .nominal_ratio = 24, .tsc = true, .mtc = true},
        .family = 6, .model = 78, .stepping = 3, .vendor = "GenuineIntel", .command = "sample of the test",
    };
}

static char scratch[96];

static inline int make_scratch(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/cofi-trace-%d", tmp ? tmp : "/tmp", (int)getpid());
    return mkdir(scratch, 0700);
}

static inline int remove_scratch(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command);
}

static inline const char *scratch_path(const char *name)
{
    static char path[8][224];
    static unsigned next;
    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/%s", scratch, name);
    return path[next];
}

static inline struct cofi_recording *open_recording(const char *path)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    if (cofi_recording_open(&recording, path, &error) < 0)
        fail_msg("%s", error.text);
    return recording;
}

/* What code of a process has there at a time; -1: there is none. */
static inline int byte_of(struct cofi_recording *recording, int32_t pid, uint64_t time_ns, uint64_t addr)
{
    const struct cofi_image *image = cofi_recording_image(recording, pid);
    struct cofi_view *view;
    struct cofi_code code;
    assert_non_null(image);
    assert_int_equal(cofi_view_open(&view, image), 0);
    cofi_view_advance(view, time_ns, NULL, NULL);
    int byte = cofi_view_find(view, addr, &code) < 0 ? -1 : code.bytes[addr - code.start];
    cofi_view_close(view);
    return byte;
}

static inline void put(struct cofi_writer *writer, struct cofi_sideband sideband)
{
    assert_int_equal(cofi_writer_sideband(writer, &sideband), 0);
}

#define SAMPLE_SB(k, t) .kind = COFI_SB_##k, .cpu = 1, .pid = 100, .tid = 100, .time_ns = (t)

/* Write it, the trace in pieces of `piece` bytes. */
static inline void write_sample(const char *path, size_t piece)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    struct cofi_error error = {0};
    if (cofi_writer_open(&writer, path, &info, &error) < 0)
        fail_msg("%s", error.text);
    put(writer, (struct cofi_sideband){SAMPLE_SB(FORK, 0x1000), .ppid = 1, .ptid = 1});
    put(writer, (struct cofi_sideband){SAMPLE_SB(COMM, 0x1001), .name = "sample", .exec = true});
    put(writer, (struct cofi_sideband){SAMPLE_SB(MMAP, 0x1002), .name = "/bin/sh", .addr = 0x7f0000000000,
                                       .len = 0x20000, .prot = 5, .flags = 2, .pgoff = 0x1000});
    put(writer, (struct cofi_sideband){SAMPLE_SB(MMAP, 0x1002), .name = "[vdso]", .addr = 0x401000, .len = 0x1000,
                                       .prot = 5, .flags = 2});
    put(writer, (struct cofi_sideband){SAMPLE_SB(CODE, 0x1003), .addr = 0x401000, .bytes = sample_code,
                                       .len = sizeof sample_code});
    put(writer, (struct cofi_sideband){SAMPLE_SB(ITRACE_START, 0x1004)});
    put(writer, (struct cofi_sideband){SAMPLE_SB(SWITCH, 0x1005)});
    for (size_t i = 0; i < sizeof sample_trace; i += piece) {
        size_t n = sizeof sample_trace - i < piece ? sizeof sample_trace - i : piece;
        assert_int_equal(cofi_writer_trace(writer, 100, 100, sample_trace + i, n, 0x1fff), 0);
    }
    put(writer, (struct cofi_sideband){SAMPLE_SB(EXIT, 0x4000), .ppid = 1, .ptid = 1});
    assert_int_equal(cofi_writer_close(writer, &error), 0);
}

/* All bytes of a stream. Returns how many. */
static inline size_t read_stream(const struct cofi_recording *recording, size_t stream, uint8_t *out, size_t room)
{
    size_t at = 0, n;
    const uint8_t *bytes;
    while ((bytes = cofi_recording_bytes(recording, stream, at, &n)), n) {
        assert_true(at + n <= room);
        memcpy(out + at, bytes, n);
        at += n;
    }
    return at;
}

static inline uint8_t *read_whole(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    return bytes;
}

static inline void write_whole(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Another number in each piece of trace that a file has: so many bytes of it, at a place in its record. */
static inline void set_in_auxtraces(const char *path, size_t word, uint64_t value, size_t word_bytes)
{
    size_t n;
    uint8_t *bytes = read_whole(path, &n);
    uint64_t start = le64(bytes + 40), end = start + le64(bytes + 48);
    for (uint64_t at = start, next; at < end; at = next) {
        next = at + le16(bytes + at + 6);
        if (le32(bytes + at) != PERF_AUXTRACE)
            continue;
        put_le(bytes + at + word, value, word_bytes);
        next += le64(bytes + at + 8);
    }
    write_whole(path, bytes, n);
    free(bytes);
}

/* As perf record COMMAND has them: each processor's stream has the number of one thread. */
static inline void set_streams_tid(const char *path, uint32_t tid) { set_in_auxtraces(path, 36, tid, 4); }

/* A command of the shell, which must succeed. */
static inline void run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void run_command(const char *format, ...)
{
    char command[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

#endif
