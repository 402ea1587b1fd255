/* SPDX-License-Identifier: MIT
 * What a host's thread did -> events, clock and sideband for all observers. Hosts share it. */
#ifndef COFI_HOST_FEED_H
#define COFI_HOST_FEED_H

#include <cofi/host.h>
#include <cofi/insn.h>

enum {
    /* The virtual clock: 1 GHz TSC, 25 MHz crystal, one cycle an instruction at ratio 10. */
    COFI__TSC_PER_ART = 40,
    COFI__RATIO = 10,
    /* Ticks that a visit to the kernel takes before and after what it changes: sideband of the visit lies
     * between the two, apart from every instruction. */
    COFI__KERNEL_TICKS = 500,
};
#define COFI__TSC_START UINT64_C(1000000000)
/* Where the unseen kernel would be. */
#define COFI__KERNEL_IP UINT64_C(0xffffffff81000000)

/* Vectors of x86 and of Linux. */
enum {
    COFI__VECTOR_DE = 0, COFI__VECTOR_DB = 1, COFI__VECTOR_BP = 3, COFI__VECTOR_OF = 4,
    COFI__VECTOR_UD = 6, COFI__VECTOR_GP = 13, COFI__VECTOR_PF = 14, COFI__VECTOR_MF = 16,
    COFI__VECTOR_AC = 17, COFI__VECTOR_SYSCALL32 = 0x80, COFI__VECTOR_TIMER = 0xec,
    COFI__VECTOR_RESCHEDULE = 0xfd
};

/* The logical processor that a thread is to the units. */
struct cofi__cpu {
    struct cofi_task task;
    struct cofi_context context;
    uint64_t ip;         /* the next instruction, while not in the kernel */
    bool begun, in_kernel;
    uint8_t way_in;      /* enum cofi_far it entered the kernel by, or COFI_FAR_KINDS for an event */
    uint64_t cycles;     /* while it ran */
    uint64_t changes;    /* feed.changes when it ran last */
};

struct cofi__feed {
    const struct cofi_observer *const *observers;
    size_t observers_n;
    bool real_clock;
    uint64_t tsc;
    uint64_t changes;            /* sideband records told */
    uint32_t tasks;              /* begun so far */
    uint64_t insns;
    struct cofi__cpu *current;   /* who ran last; null: nobody or gone */
    int status;                  /* first error of an observer */
};

void cofi__feed_init(struct cofi__feed *feed, const struct cofi_observer *const *observers, size_t n,
                     bool real_clock);
void cofi__feed_time_info(bool real_clock, struct cofi_time_info *time);

/* A thread appears, in the kernel; cpu->task.pid and .tid are set. And goes: in user mode it is
 * interrupted first. */
void cofi__feed_begin(struct cofi__feed *feed, struct cofi__cpu *cpu);
void cofi__feed_end(struct cofi__feed *feed, struct cofi__cpu *cpu);
/* Fills in time_ns and tells it; a thread in user mode is interrupted first. */
void cofi__feed_sideband(struct cofi__feed *feed, struct cofi_sideband *sideband);

/* In user mode: the instruction at ip retired and execution went on at `to` in `mode`. taken: for a Jcc
 * whose target is its own successor, else ignored. */
void cofi__feed_retire(struct cofi__feed *feed, struct cofi__cpu *cpu, const struct cofi_insn *insn,
                       uint64_t ip, uint64_t to, unsigned mode, bool taken);
/* The instruction at ip entered the kernel as it should: SYSCALL, SYSENTER, INT n. */
void cofi__feed_call_kernel(struct cofi__feed *feed, struct cofi__cpu *cpu,
                            const struct cofi_insn *insn, uint64_t ip, uint16_t vector);
/* The kernel was entered at cpu->ip otherwise: cause is enum cofi_cause. address: CR2 of a page fault. */
void cofi__feed_interrupt(struct cofi__feed *feed, struct cofi__cpu *cpu, uint8_t cause, uint16_t vector,
                          uint64_t address);
/* The kernel returned to ip in mode. */
void cofi__feed_return(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ip, unsigned mode);
/* PTWRITE retired with this payload. */
void cofi__feed_ptwrite(struct cofi__feed *feed, struct cofi__cpu *cpu, uint64_t ip, uint64_t next,
                        uint64_t value, uint8_t size);

/* ---- derive.c: an instruction and where it led -> its event ---- */

/* Fill *event but for time and context. next: ip + length, truncated to the mode. */
void cofi__derive(struct cofi_event *event, const struct cofi_insn *insn, uint64_t ip, uint64_t next,
                  uint64_t to, bool taken);
/* Could the instruction at ip have led to `to` by itself? */
bool cofi__derive_plausible(const struct cofi_insn *insn, uint64_t ip, uint64_t to, unsigned mode);
/* ip + length as the mode truncates it. */
uint64_t cofi__derive_next(const struct cofi_insn *insn, uint64_t ip, unsigned mode);

#endif
