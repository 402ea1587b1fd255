/* SPDX-License-Identifier: MIT
 * Any register writes and events -> the PT unit: no crash, its bytes are packets, and the same input gives
 * the same bytes. */
#include <stdlib.h>
#include <string.h>

#include <cofi/unit.h>

#include "base/bytes.h"
#include "fuzz.h"

struct out {
    uint8_t bytes[1 << 16];
    size_t n;
    size_t checked;  /* bytes[0, checked) were found to be packets */
    bool is_packets; /* no erratum, and nothing was refused */
};

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct out *out = opaque;
    if (n > sizeof out->bytes - out->n) {
        out->is_packets = false;
        return COFI_ERR_FULL;
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    return 0;
}

enum { PAGES = 1 << 16 };

/* Memory of 64 KiB for ToPA: its tables are the input's own bytes, and the trace overwrites them. */
static int load(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    if (address > PAGES || n > PAGES - address)
        return COFI_ERR_RANGE;
    memcpy(bytes, (uint8_t *)opaque + address, n);
    return 0;
}

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    if (address > PAGES || n > PAGES - address)
        return COFI_ERR_RANGE;
    memcpy((uint8_t *)opaque + address, bytes, n);
    return 0;
}

/* What came since the last check is packets; cut: but for the last one, of which a reset lost the end. */
static void check_packets(struct out *out, bool cut)
{
    struct cofi_packet_context codec = {.gen = COFI_PT};
    struct cofi_packet packet;
    while (out->is_packets && out->checked < out->n) {
        int n = cofi_packet_decode(&codec, out->bytes + out->checked, out->n - out->checked, &packet);
        if (n == COFI_ERR_TRUNCATED && cut)
            n = (int)(out->n - out->checked);
        if (n <= 0)
            abort();
        out->checked += (size_t)n;
    }
}

static const uint32_t registers[] = {0x560, 0x561, 0x570, 0x570, 0x570, 0x571, 0x572, 0x580,
                                     0x581, 0x582, 0x583, 0x584, 0x585, 0x586, 0x587, 0x123};

static void reset(struct cofi_unit *unit, enum cofi_reset kind, struct out *out)
{
    cofi_unit_reset(unit, kind);
    if (kind != COFI_RESET_INIT)
        check_packets(out, true);
}

static void access(struct cofi_unit *unit, const uint8_t *p, struct out *out)
{
    uint8_t image[COFI_XSAVE_BYTES] = {0};
    uint64_t value = le64(p + 4);
    if (p[1] < 200) {
        cofi_unit_wrmsr(unit, registers[p[2] % 16], value);
        cofi_unit_rdmsr(unit, registers[p[3] % 16], &value);
    } else if (p[1] < 220) {
        cofi_unit_tnt(unit, value, p[2] % 65);
        cofi_unit_tip(unit, value >> 8);
    } else if (p[1] < 230) {
        cofi_unit_xsaves(unit, image);
        cofi_unit_xrstors(unit, p[2] & 1 ? image : NULL);
    } else if (p[1] < 240) {
        cofi_unit_drain(unit);
    } else {
        reset(unit, p[2] % 3, out);
    }
}

/* One step takes 16 bytes: what, how, three numbers. */
static void step(struct cofi_unit *unit, const uint8_t *p, struct cofi_context *context, uint64_t *clock,
                 struct out *out)
{
    uint64_t a = le32(p + 4), b = le32(p + 8), c = le32(p + 12);
    struct cofi_event e = {.kind = p[0] % (COFI_EVENT_KINDS + 6), .taken = p[1] & 1, .deferred = p[1] & 2, .ip = a, .next = a + p[3] % 16,
                           .target = b << (p[1] >> 4), .value = c, .value2 = b, .size = p[2], .vector = p[3],
                           .msr = p[1] & 8 ? 0x570 : 0, .control = c | b << 32};
    if (e.kind >= COFI_EVENT_KINDS) {
        access(unit, p, out);
        return;
    }
    e.cause = p[2] % (e.kind == COFI_EV_FAR ? COFI_FAR_KINDS : COFI_CAUSE_KINDS);
    e.tsc = *clock += (uint64_t)p[3] << (p[2] & 15);
    e.cycles = *clock / 2;
    if (p[1] & 4) {
        *context = (struct cofi_context){.cpl = p[2] & 3, .cr3 = c, .vmcs = b, .vmx = p[3] % 3, .mode = 16 << p[2] % 3,
                                         .iflag = p[3] & 4, .enclave = p[3] & 8, .intx = p[3] & 16, .pae = p[3] & 32,
                                         .conceal = p[3] >> 5, .cs_base = p[2] & 128 ? a : 0};
        e.context_set = true;
        e.after = *context;
    }
    cofi_unit_event(unit, &e);
}

static void run(const uint8_t *data, size_t n, struct out *out)
{
    static uint8_t memory[PAGES];
    static const char *const models[] = {"all", "skylake", "broadwell", "alderlake"};
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = models[data[0] & 3], .sink = {take, out}};
    struct cofi_context context = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64};
    struct cofi_unit *unit;
    uint64_t clock = 0;
    config.buffer_bytes = data[0] & 4 ? 256 + data[1] : 0;
    config.drain_bytes = data[1] % 16;
    config.drain_cycles = data[2] % 16;
    config.deferred_tips = data[0] & 8;
    config.long_tnt = data[0] & 16;
    config.errata = data[0] & 32 ? (uint64_t)data[3] << 16 : 0;
    config.mtc_burst = 8;
    if (data[0] & 64) {
        config.memory = (struct cofi_memory){load, store, memory};
        memset(memory, 0, sizeof memory);
        memcpy(memory, data, n < PAGES ? n : PAGES);
    }
    out->n = out->checked = 0;
    out->is_packets = !config.errata; /* some errata are not packets */
    if (cofi_unit_open(&unit, &config) < 0)
        return;
    cofi_unit_context(unit, &context, 0x1000);
    cofi_unit_wrmsr(unit, 0x570, data[0] & 128 ? 0x2009 : 0x240f);
    for (size_t at = 4; n - at >= 16; at += 16)
        step(unit, data + at, &context, &clock, out);
    cofi_unit_drain(unit);
    check_packets(out, false);
    cofi_unit_close(unit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct out one, two;
    if (n < 4)
        return 0;
    run(data, n, &one);
    run(data, n, &two);
    if (one.n != two.n || memcmp(one.bytes, two.bytes, one.n) != 0)
        abort();
    return 0;
}
