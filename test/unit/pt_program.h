/* SPDX-License-Identifier: MIT
 * A random program of real x86 bytes and the processor that runs it: a stream of events, and the list of
 * the instructions that ran. */
#ifndef COFI_TEST_PT_PROGRAM_H
#define COFI_TEST_PT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/event.h>

enum { PROGRAM_REGIONS = 4, PROGRAM_INSNS = 600, PROGRAM_BYTES = 8192, PROGRAM_STACK = 200 };

struct program_insn {
    uint16_t offset;
    uint8_t length, kind;
    uint16_t target; /* index of a direct branch's target in the region */
};

struct program_region {
    uint64_t base;
    unsigned mode, cpl; /* of the code in it */
    unsigned count;
    struct program_insn insns[PROGRAM_INSNS];
    uint8_t bytes[PROGRAM_BYTES];
    uint16_t used;
};

struct program_place {
    uint8_t region;
    uint16_t insn;
};

struct program {
    uint64_t random;
    struct program_region regions[PROGRAM_REGIONS];
    struct program_place at;
    struct program_place stack[PROGRAM_STACK];
    unsigned depth;
    struct program_place fallback; /* of the transaction */
    struct cofi_context context;
    /* what may happen, one in so many; 0: never */
    unsigned interrupts, faults, wild_returns, transactions;
    bool user32;
    /* of wide programs: VMX, SMM, WRMSR, MWAIT */
    bool wide;
    unsigned exits, smis;
    bool toggles, sleeps;      /* a WRMSR turns tracing off and on; MWAIT sleeps */
    uint64_t ctl;              /* the trace control register, as software left it */
    uint64_t host_cr3;
    struct program_place interrupted; /* by an SMI */
    struct cofi_context before_smm;
};

uint64_t program_random(struct program *program, uint64_t below);
/* Code and processor state from a seed; wide: with VMX, SMM, WRMSR, MWAIT and UD2 too. */
void program_make(struct program *program, uint64_t seed, bool wide);
uint64_t program_ip(const struct program *program);
/* Run one instruction, or take an event before it. Fills *event; returns whether an instruction at
 * event->ip ran (retired), so that it belongs into the list. */
bool program_step(struct program *program, struct cofi_event *event);
/* Code bytes at ip (for decoders); returns how many of n, 0 none. */
size_t program_read(const struct program *program, uint64_t ip, uint8_t *bytes, size_t n);

#endif
