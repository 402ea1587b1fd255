/* SPDX-License-Identifier: MIT
 * Any register writes and events -> the RTIT unit: no crash, and the same input
 * gives the same bytes. */
#include <stdlib.h>
#include <string.h>

#include <cofi/unit.h>

#include "base/bytes.h"
#include "fuzz.h"

struct out {
    uint8_t bytes[1 << 16];
    size_t n;
};

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct out *out = opaque;
    if (n > sizeof out->bytes - out->n)
        return COFI_ERR_FULL;
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    return 0;
}

/* One step takes 16 bytes: what, how, three numbers. */
static void step(struct cofi_unit *unit, const uint8_t *p, struct cofi_context *context, uint64_t *clock)
{
    uint64_t a = le32(p + 4), b = le32(p + 8), c = le32(p + 12);
    struct cofi_event e = {.kind = p[0] % (COFI_EVENT_KINDS + 4), .taken = p[1] & 1, .deferred = p[1] & 2, .ip = a, .next = a + p[3] % 16,
                           .target = b << (p[1] >> 4), .value = c, .size = p[2], .vector = COFI_NO_VECTOR, .msr = 0x760 + p[3] % 32};
    if (e.kind >= COFI_EVENT_KINDS) {
        cofi_unit_wrmsr(unit, e.msr, b | c << (p[2] & 32));
        cofi_unit_rdmsr(unit, 0x760 + p[2] % 32, &a);
        return;
    }
    e.cause = p[2] % (e.kind == COFI_EV_FAR ? COFI_FAR_KINDS : COFI_CAUSE_KINDS);
    e.tsc = *clock += p[3];
    e.cycles = *clock / 2;
    if (p[1] & 4) {
        context->cpl = p[2] & 3;
        context->cr3 = c;
        context->smm = p[2] & 4;
        context->vmx = p[2] >> 3 & 1;
        context->cr0_pg = p[2] & 16;
        e.context_set = true;
        e.after = *context;
    }
    cofi_unit_event(unit, &e);
}

static void run(const uint8_t *data, size_t n, struct out *out)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .sink = {take, out}};
    struct cofi_context context = {.vmcs = UINT64_MAX, .cpl = 3, .mode = 64};
    struct cofi_unit *unit;
    uint64_t clock = 0, value;
    config.buffer_bytes = data[0] ? 10 + data[0] : 0;
    config.drain_bytes = data[1] % 16;
    config.drain_cycles = data[2] % 16;
    config.errata = data[3] & 0x7f;
    out->n = 0;
    if (cofi_unit_open(&unit, &config) < 0)
        return;
    cofi_unit_rdmsr(unit, 0x768, &value);
    cofi_unit_wrmsr(unit, 0x76c, 0x37);
    cofi_unit_context(unit, &context, 0x1000);
    for (size_t at = 4; n - at >= 16; at += 16)
        step(unit, data + at, &context, &clock);
    cofi_unit_drain(unit);
    if (out->n < 1 << 15 && cofi_unit_bytes(unit) != out->n)
        abort();
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
