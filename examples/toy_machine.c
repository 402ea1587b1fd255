/* SPDX-License-Identifier: MIT
 * A machine of six instructions that carries an RTIT unit: it runs a program, and its trace is in its memory.
 * Usage: toy_machine; prints the packets. */
#include <stdio.h>
#include <string.h>

#include <cofi/packet.h>
#include <cofi/unit.h>

/* One byte opcode, one byte operand. */
enum { SET, ADD, LOOP, CALL, RETURN, HALT };
static const uint8_t program[] = {SET, 5, CALL, 8, LOOP, 2, HALT, 0, /* 8: */ ADD, 1, RETURN, 0};
static uint8_t memory[4096];

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    (void)opaque;
    if (address > sizeof memory || n > sizeof memory - address)
        return COFI_ERR_RANGE;
    memcpy(memory + address, bytes, n);
    return 0;
}

static void run(struct cofi_unit *unit)
{
    unsigned counter = 0, sum = 0, back = 0;
    for (unsigned ip = 0; program[ip] != HALT;) {
        struct cofi_event e = {.kind = COFI_EV_INSN, .ip = ip, .next = ip + 2, .target = program[ip + 1]};
        switch (program[ip]) {
        case SET: counter = program[ip + 1]; break;
        case ADD: sum += program[ip + 1]; break;
        case LOOP: e.kind = COFI_EV_JCC; e.taken = --counter > 0; break;
        case CALL: e.kind = COFI_EV_CALL; back = ip + 2; break;
        case RETURN: e.kind = COFI_EV_RET; e.target = back; break;
        }
        ip = e.kind == COFI_EV_INSN || (e.kind == COFI_EV_JCC && !e.taken) ? (unsigned)e.next : (unsigned)e.target;
        cofi_unit_event(unit, &e);
    }
    cofi_unit_drain(unit);
    printf("sum %u\n", sum);
}

int main(void)
{
    static const struct { const char *name; uint64_t value; } fields[] = {
        {"base_phys_addr", 0}, {"mask_value", 0xfff >> 6}, {"filter_event_id", 7}, {"tracestop_event_id", 6},
        {"user", 1}, {"dest", 1}, {"cmprs_ret", 1}, {"trace_en", 1}, {"trace_active", 1}};
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT, .memory = {.write = store}};
    struct cofi_context context = {.cpl = 3, .mode = 32, .vmcs = UINT64_MAX};
    struct cofi_packet_context codec = {.gen = COFI_RTIT};
    struct cofi_packet packet;
    struct cofi_unit *unit;
    char text[128];
    if (cofi_unit_open(&unit, &config) < 0)
        return 1;
    cofi_unit_context(unit, &context, 0);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (cofi_unit_set_field(unit, fields[i].name, fields[i].value) < 0)
            return 1;
    run(unit);
    for (uint64_t at = 0; at < cofi_unit_bytes(unit); at += packet.size) {
        if (cofi_packet_decode(&codec, memory + at, sizeof memory - at, &packet) < 0)
            return 1;
        cofi_packet_print(&packet, text, sizeof text);
        puts(text);
    }
    cofi_unit_close(unit);
    return 0;
}
