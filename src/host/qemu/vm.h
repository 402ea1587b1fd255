/* SPDX-License-Identifier: MIT
 * The processors of an emulated machine: runs of instructions that begin -> events, code and switches
 * for observers. Knows nothing of the emulator but how to ask it for registers and memory. Not thread
 * safe: who has processors in several threads takes turns. */
#ifndef COFI_HOST_QEMU_VM_H
#define COFI_HOST_QEMU_VM_H

#include <cofi/host.h>
#include <cofi/insn.h>

#include "host/qemu/pages.h"

enum cofi__vm_reg { VM_RIP, VM_RSP, VM_EFLAGS, VM_CS, VM_CR3, VM_REGS };

/* A processor as of the start of a run, asked in its own thread. */
struct cofi__vm_door {
    void *opaque;
    uint64_t (*reg)(void *opaque, enum cofi__vm_reg reg);
    bool (*read)(void *opaque, uint64_t address, void *bytes, size_t n); /* virtual address */
};

struct cofi__run_insn {
    uint64_t target;  /* from the instruction's own address; RET: what it pops besides */
    uint16_t offset;  /* from the run's start */
    uint8_t length, cls, far, prefixes;
};

/* A run of instructions without a branch but at its end, wherever it is mapped: a translation block. */
struct cofi__run {
    struct cofi__run *next;  /* the owner's */
    uint16_t n, bytes_n;
    uint8_t mode;            /* in which it is decoded; 0: not yet */
    /* Where its code was last found to be as recorded. */
    int32_t space;
    uint32_t version;
    uint64_t at;
    const uint8_t *bytes;
    struct cofi__run_insn insns[];
};

/* One processor. */
struct cofi__vm_cpu {
    struct cofi_task task;
    struct cofi_context context;
    bool begun, last_known;
    int32_t space;           /* of its CR3 */
    uint32_t version;        /* of the pages, when its trace told the time last */
    struct cofi__run *run;   /* that is under way, at `at` */
    uint64_t at;
    struct cofi__run_insn last; /* begun, its end not known yet */
    uint64_t last_ip;
};

enum { VM_OBSERVERS = 2, VM_ENTRIES = 64 };

struct cofi__vm {
    const struct cofi_observer *observers[VM_OBSERVERS];
    size_t observers_n;
    uint64_t skip, limit;    /* instructions not traced before, and until the end (0: none) */
    bool every;              /* observers are told instructions that do not branch, too */
    bool ended;
    uint64_t kernel;         /* where the first instruction of the kernel's half of the addresses was */
    uint64_t tsc, retired;   /* of all processors */
    uint64_t unexplained;    /* transfers that nothing accounts for */
    struct cofi__vm_cpu **cpus;
    size_t cpus_n;
    struct cofi__pages pages;
    uint64_t entries[VM_ENTRIES]; /* where events were seen to lead */
    size_t entries_n;
    int status;              /* first error of an observer */
};

/* A run of n instructions of these lengths and bytes; next and bytes are in the same allocation. Null: no memory. */
struct cofi__run *cofi__run_new(const uint8_t *lengths, size_t n, const uint8_t *bytes, size_t bytes_n);

/* A run begins at the door's RIP; `started` instructions of the processor's last one have begun. */
void cofi__vm_run(struct cofi__vm *vm, unsigned cpu, struct cofi__run *run, unsigned started,
                  const struct cofi__vm_door *door);
/* The processor's last run is about to be freed. */
void cofi__vm_settle(struct cofi__vm *vm, unsigned cpu, unsigned started);
/* Nothing more is traced: all that was begun ends. May be called again. */
void cofi__vm_end(struct cofi__vm *vm);
void cofi__vm_fini(struct cofi__vm *vm);
/* Where Linux, if it is that, begins. */
uint64_t cofi__vm_kernel(const struct cofi__vm *vm);

#endif
