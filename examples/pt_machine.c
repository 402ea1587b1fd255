/* SPDX-License-Identifier: MIT
 * How an emulator carries a PT unit: a guest driver programs it by WRMSR, the emulator reports what
 * retires, and the trace is in guest memory behind a ToPA table. Prints the packets. */
#include <stdio.h>
#include <string.h>

#include <cofi/packet.h>
#include <cofi/unit.h>

enum { TABLE = 0x1000, REGION = 0x2000, BYTES = 0x4000 };
static uint8_t memory[BYTES]; /* the guest's physical memory */

static bool inside(uint64_t address, size_t n) { return address <= BYTES && n <= BYTES - address; }

static int load(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    (void)opaque;
    return inside(address, n) ? memcpy(bytes, memory + address, n), 0 : COFI_ERR_RANGE;
}

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    return inside(address, n) ? memcpy(memory + address, bytes, n), 0 : COFI_ERR_RANGE;
}

/* User code: a loop of three turns that calls a function, then a page fault whose handler is not traced. */
static void run(struct cofi_unit *unit, struct cofi_context user, struct cofi_context kernel)
{
    const struct cofi_event call = {.kind = COFI_EV_CALL, .ip = 0x401000, .next = 0x401005, .target = 0x402000};
    const struct cofi_event ret = {.kind = COFI_EV_RET, .ip = 0x402003, .next = 0x402004, .target = 0x401005};
    struct cofi_event jcc = {.kind = COFI_EV_JCC, .ip = 0x401006, .next = 0x401008, .target = 0x401000};
    const struct cofi_event fault = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_FAULT, .vector = 14, .ip = 0x401008,
                                     .target = 0xffffffff81000000, .context_set = true, .after = kernel};
    const struct cofi_event iret = {.kind = COFI_EV_FAR, .cause = COFI_FAR_IRET, .vector = COFI_NO_VECTOR,
                                    .ip = 0xffffffff81000100, .next = 0xffffffff81000102, .target = 0x401008,
                                    .context_set = true, .after = user};
    for (int turn = 3; turn > 0; turn--) {
        jcc.taken = turn > 1;
        cofi_unit_event(unit, &call);
        cofi_unit_event(unit, &ret);
        cofi_unit_event(unit, &jcc);
    }
    cofi_unit_event(unit, &fault);
    cofi_unit_event(unit, &iret);
}

int main(void)
{
    static const uint64_t table[] = {REGION, TABLE | 1}; /* 4 KiB, then END: a link back to the table */
    static const struct { uint32_t msr; uint64_t value; } writes[] = {
        {0x560, TABLE}, {0x561, 0x7f}, {0x571, 0}, {0x570, 0x2109}}; /* last: BranchEn, ToPA, User, TraceEn */
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = "skylake",
                                      .memory = {load, store, NULL}};
    struct cofi_context user = {.cpl = 3, .mode = 64, .vmcs = UINT64_MAX}, kernel = {.mode = 64, .vmcs = UINT64_MAX};
    struct cofi_packet_context codec = {.gen = COFI_PT};
    struct cofi_packet packet;
    struct cofi_unit *unit;
    uint64_t mask_ptrs;
    char text[128];
    memcpy(memory + TABLE, table, sizeof table);
    if (cofi_unit_open(&unit, &config) < 0)
        return 1;
    cofi_unit_context(unit, &user, 0x401000);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        if (cofi_unit_wrmsr(unit, writes[i].msr, writes[i].value) < 0)
            return 1; /* here an emulator raises #GP */
    run(unit, user, kernel);
    cofi_unit_wrmsr(unit, 0x570, 0);
    cofi_unit_rdmsr(unit, 0x561, &mask_ptrs);
    for (size_t at = 0, end = mask_ptrs >> 32; at < end; at += packet.size) {
        if (cofi_packet_decode(&codec, memory + REGION + at, end - at, &packet) <= 0)
            return 1;
        cofi_packet_print(&packet, text, sizeof text);
        puts(text);
    }
    cofi_unit_close(unit);
    return 0;
}
