/* SPDX-License-Identifier: MIT
 * Packet decoders on the same bytes in one process, turn by turn: ours, libipt's, and the PSB search. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cofi/packet.h>
#include <cofi/stream.h>
#include <intel-pt.h>

#include "../test/packet/random.h"
#include "../test/packet/real_data.h"

enum { RUNS = 15, WORK_BYTES = 16 << 20 };

/* Processor time, so that what else the machine does is not counted. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

/* Packets of the buffer, and a sum so that nothing is left out. */
static uint64_t ours(uint8_t *bytes, size_t n, uint64_t *sum)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet packet;
    uint64_t packets = 0;
    for (size_t at = 0; at < n; packets++) {
        int size = cofi_packet_decode(&context, bytes + at, n - at, &packet);
        if (size < 0)
            break;
        at += (size_t)size;
        *sum += packet.kind + packet.tnt.bits;
    }
    return packets;
}

static uint64_t stream(uint8_t *bytes, size_t n, uint64_t *sum)
{
    struct cofi_stream s;
    struct cofi_stream_item item;
    uint64_t packets = 0;
    cofi_stream_init(&s, COFI_PT, 0, true);
    cofi_stream_feed(&s, bytes, n);
    cofi_stream_finish(&s);
    for (; cofi_stream_next(&s, &item); packets++)
        *sum += item.packet.kind + item.packet.tnt.bits;
    return packets;
}

static uint64_t libipt(uint8_t *bytes, size_t n, uint64_t *sum)
{
    struct pt_config config;
    pt_config_init(&config);
    config.begin = bytes;
    config.end = bytes + n;
    struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
    struct pt_packet packet;
    uint64_t packets = 0;
    pt_pkt_sync_set(decoder, 0);
    for (; pt_pkt_next(decoder, &packet, sizeof packet) > 0; packets++)
        *sum += (uint64_t)packet.type + packet.payload.tnt.payload;
    pt_pkt_free_decoder(decoder);
    return packets;
}

static uint64_t sync(uint8_t *bytes, size_t n, uint64_t *sum)
{
    uint64_t found = 0;
    for (size_t at = 0; (at = cofi_sync_forward(COFI_PT, bytes, n, at)) != COFI_NO_PSB; at++)
        found++;
    *sum += found;
    return found;
}

static const struct {
    const char *name;
    uint64_t (*run)(uint8_t *, size_t, uint64_t *);
} decoders[] = {{"libipt", libipt}, {"cofi", ours}, {"cofi stream", stream}, {"cofi PSB search", sync}};
enum { DECODERS = sizeof decoders / sizeof *decoders };

static void compare(const char *name, uint8_t *bytes, size_t n)
{
    double seconds[DECODERS][RUNS], ratio[DECODERS][RUNS];
    uint64_t packets[DECODERS], sum = 0;
    unsigned repeat = (unsigned)(WORK_BYTES / n) + 1;
    for (int run = 0; run < RUNS; run++)
        for (int d = 0; d < DECODERS; d++) {
            double start = now();
            for (unsigned i = 0; i < repeat; i++)
                packets[d] = decoders[d].run(bytes, n, &sum);
            seconds[d][run] = (now() - start) / repeat;
            ratio[d][run] = seconds[0][run] / seconds[d][run];
        }
    printf("%s: %zu bytes, %llu packets (sum %llx)\n", name, n, (unsigned long long)packets[0],
           (unsigned long long)sum);
    for (int d = 0; d < DECODERS; d++) {
        double s = median(seconds[d], RUNS), r = median(ratio[d], RUNS);
        if (decoders[d].run != sync && packets[d] != packets[0])
            printf("  %s decodes %llu packets\n", decoders[d].name, (unsigned long long)packets[d]);
        printf("  %-16s %8.0f MB/s  %6.2f ns/packet  %5.2f x libipt\n", decoders[d].name, (double)n / s * 1e-6,
               s * 1e9 / (double)packets[0], r);
    }
}

static void emit(uint8_t *bytes, size_t *n, struct cofi_packet packet)
{
    static struct cofi_packet_context context = {.gen = COFI_PT};
    int size = cofi_packet_encode(&context, &packet, bytes + *n, COFI_PACKET_MAX);
    *n += size > 0 ? (size_t)size : 0;
}

/* Short TNT and compressed TIP in turn, with CYC before each and MTC between if timed. */
static size_t synthesize(uint8_t *bytes, size_t room, bool timed)
{
    struct random r = {1};
    size_t n = 0;
    emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_PSB});
    emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_PSBEND});
    while (n + 64 < room) {
        uint64_t v = random_u64(&r);
        if (timed)
            emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_CYC, .cyc = {(v >> 40) % 200, 0}});
        if (v % 8 < 5)
            emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_TNT, .tnt = {v >> 8 & 63, 6}});
        else if (v % 8 < 7)
            emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_TIP, .ip = {v >> 8 & 0xffff, 1}});
        else
            emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_TIP, .ip = {v >> 8 & 0xffffffff, 2}});
        if (timed && v >> 60 == 0)
            emit(bytes, &n, (struct cofi_packet){.kind = COFI_PT_MTC, .mtc = {.ctc = (uint8_t)v}});
    }
    return n;
}

/* RTIT, which nobody else decodes: TNT and TIP as above, with and without cycle counts. */
static void rtit(uint8_t *bytes, size_t room, bool cyc)
{
    struct random r = {1};
    struct cofi_packet_context context = {.gen = COFI_RTIT, .cyc = cyc};
    struct cofi_packet packet;
    double seconds[RUNS];
    size_t n = 0;
    uint64_t sum = 0, packets = 0;
    while (n + 64 < room) {
        uint64_t v = random_u64(&r);
        packet = (struct cofi_packet){.kind = COFI_RTIT_TNT, .ccp = cyc ? v >> 48 >> v % 9 : 0};
        packet.tnt.bits = v >> 8 & 63;
        packet.tnt.count = 6;
        if (v % 8 > 4) {
            packet.kind = COFI_RTIT_TIP;
            cofi_ip_compress(&packet, 0x400000 | (v >> 8 & 0xffff), 0x400000, v & 1);
        } else if (v % 8 == 4) {
            packet.kind = COFI_RTIT_MTC;
            packet.mtc.ctc = (uint8_t)v;
            packet.mtc.range = 1;
        }
        n += (size_t)cofi_packet_encode(&context, &packet, bytes + n, COFI_PACKET_MAX);
    }
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        packets = 0;
        for (size_t at = 0; at < n; packets++) {
            int size = cofi_packet_decode(&context, bytes + at, n - at, &packet);
            if (size < 0)
                break;
            at += (size_t)size;
            sum += packet.kind + packet.ccp;
        }
        seconds[run] = now() - start;
    }
    double s = median(seconds, RUNS);
    printf("RTIT %s cycle counts: %zu bytes, %llu packets (sum %llx)\n  %-16s %8.0f MB/s  %6.2f ns/packet\n",
           cyc ? "with" : "without", n, (unsigned long long)packets, (unsigned long long)sum, "cofi",
           (double)n / s * 1e-6, s * 1e9 / (double)packets);
}

int main(void)
{
    struct real_data data;
    uint8_t *bytes = malloc(4 << 20);
    if (real_data_open(&data)) {
        size_t n = 0;
        for (size_t i = 0; i < data.streams; n += data.stream[i++].n)
            memcpy(bytes + n, data.stream[i].bytes, data.stream[i].n);
        compare("real (perf.data.intel_pt-4.14)", bytes, n);
        real_data_close(&data);
    }
    compare("synthetic TNT and TIP", bytes, synthesize(bytes, 4 << 20, false));
    compare("synthetic with CYC and MTC", bytes, synthesize(bytes, 4 << 20, true));
    memset(bytes, 0, 4 << 20);
    compare("PAD", bytes, 4 << 20);
    rtit(bytes, 4 << 20, false);
    rtit(bytes, 4 << 20, true);
    free(bytes);
    return 0;
}
