/* SPDX-License-Identifier: MIT
 * Writes a recording as `perf record -e intel_pt//u` makes it by default: streams of processors. Two threads of a process
 * begin the sample's program on processor 0, one after the other, are interrupted in its function, and end it on
 * processor 1, in the other order. usage: percpu FILE [TID]; TID: as the streams of a recorded command have its number.
 * percpu FILE many IDS: one of them forks many threads, one after the other, which have so many numbers in turn
 * percpu FILE full: the buffer was full in the second one's half, within a packet
 * percpu FILE found PROGRAM OTHER: the process ran PROGRAM as the recording began; who forked it runs OTHER */
#include "sample.h"

#include "base/bytes.h"
#include "trace/perf_data.h"

/* PSB+ with a time, tracing begins at an address. */
static const uint8_t head[] = {
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
    0x19, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x03, 0x18, 0x00, 0x02, 0x23, 0x99, 0x01, 0x71, 0, 0x10, 0x40, 0x00, 0x00, 0x00, 0x00,
};
static const uint8_t first_half[] = {0x3d, 0x18, 0x10, 0x01};                   /* FUP 401018, TIP.PGD */
static const uint8_t second_half[] = {0x2d, 0x0a, 0x10, 0x1c, 0x2d, 0x1a, 0x10, 0x01}; /* from 401018 on */

/* So many bytes of its end are not there. */
static size_t cut;

static void turn(struct cofi_writer *writer, uint32_t cpu, int32_t tid, uint64_t time, bool second)
{
    uint8_t bytes[64];
    memcpy(bytes, head, sizeof head);
    put_le(bytes + 17, time, 7);
    bytes[33] = second ? 0x18 : 0x00;
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = cpu, .pid = 10, .tid = tid, .time_ns = time - 16});
    const uint8_t *half = second ? second_half : first_half;
    size_t n = second ? sizeof second_half : sizeof first_half;
    memcpy(bytes + sizeof head, half, n);
    assert_int_equal(cofi_writer_trace(writer, -1, (int32_t)cpu, bytes, sizeof head + n - cut, time - 8), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = cpu, .pid = 10, .tid = tid, .out = true,
                                       .time_ns = time + 0x800});
}

enum { THREADS = 2000, THREADS_FROM = 100 };

/* Each does one half of the program, those with an even place in the order the first. */
static void put_many(struct cofi_writer *writer, int32_t ids)
{
    for (int32_t i = 0; i < THREADS; i++) {
        int32_t tid = THREADS_FROM + i % ids;
        uint32_t cpu = (uint32_t)i & 1;
        uint64_t time = 0x10000 + 0x2000 * (uint64_t)i;
        put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .cpu = !cpu, .pid = 10, .tid = tid, .ppid = 10, .ptid = 11, .time_ns = time - 0x100});
        put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = cpu, .pid = 10, .tid = tid, .time_ns = time - 0x80, .name = i & 1 ? "odd" : "even"});
        turn(writer, cpu, tid, time, i & 1);
        put(writer, (struct cofi_sideband){.kind = COFI_SB_EXIT, .cpu = cpu, .pid = 10, .tid = tid, .ppid = 10, .ptid = 11, .time_ns = time + 0x700});
    }
}

static void put_found(struct cofi_writer *writer, const char *program, const char *other)
{
    put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = 9, .tid = 9, .addr = 0x10000000, .len = 0x100000, .prot = 5, .name = other});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_FORK, .pid = 10, .tid = 11, .ppid = 9, .ptid = 9, .exec = true});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = 10, .tid = 11, .addr = 0x20000000, .len = 0x100000, .prot = 5, .name = program});
}

int main(int argc, char **argv)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    bool full = argc == 3 && !strcmp(argv[2], "full");
    info.per_cpu = true;
    if (argc < 2 || cofi_writer_open(&writer, argv[1], &info, NULL) < 0)
        return 2;
    if (argc > 4)
        put_found(writer, argv[3], argv[4]);
    for (int32_t tid = 11; tid <= 12; tid++)
        put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = 0, .pid = 10, .tid = tid, .time_ns = 0x1000,
                                           .name = tid == 11 ? "one" : "two"});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .cpu = 0, .pid = 10, .tid = 11, .time_ns = 0x1001,
                                       .addr = 0x401000, .bytes = sample_code, .len = sizeof sample_code});
    if (argc == 4)
        put_many(writer, atoi(argv[3]));
    if (argc == 4)
        return cofi_writer_close(writer, NULL) < 0 ? 2 : 0;
    turn(writer, 0, 11, 0x2000, false);
    cut = full ? 2 : 0;
    turn(writer, 0, 12, 0x3000, false);
    if (full)
        put(writer, (struct cofi_sideband){.kind = COFI_SB_AUX, .cpu = 0, .tid = 12, .time_ns = 0x3001, .aux_size = 2 * (sizeof head + sizeof first_half) - cut,
                                           .aux_flags = AUX_TRUNCATED});
    cut = 0;
    if (full)
        turn(writer, 0, 12, 0x4000, true);
    turn(writer, 1, 12, 0x5000, true);
    turn(writer, 1, 11, 0x6000, true);
    if (cofi_writer_close(writer, NULL) < 0)
        return 2;
    if (argc == 3 && !full)
        set_streams_tid(argv[1], (uint32_t)atoi(argv[2]));
    return 0;
}
