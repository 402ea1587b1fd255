/* SPDX-License-Identifier: MIT
 * Random programs of real x86 code, run with random outcomes: truth, and the trace that a unit makes. */
#ifndef COFI_TEST_FLOW_PROG_H
#define COFI_TEST_FLOW_PROG_H

#include <cofi/image.h>
#include <cofi/packet.h>
#include <cofi/unit.h>

enum { PROG_BREAKS = 64, PROG_BYTES = 1 << 18, PROG_BASE = 0x401000, KERNEL = 0x700000 };

struct prog_insn {
    uint8_t cls, length, guard; /* guard: a JCC that skips a call; taken when calls nest too deep */
    uint64_t target;
};

struct prog {
    uint8_t code[PROG_BYTES];
    size_t size;
    struct prog_insn at[PROG_BYTES]; /* by offset; length 0: none starts there */
    uint64_t entry[512];
    unsigned functions;
    uint64_t restorer;
    uint64_t seed;
};

/* How to run it. Chances are in 1/65536 an instruction (or RET for odd_return). */
struct prog_run {
    enum cofi_gen gen;
    uint64_t ctl;          /* PT: IA32_RTIT_CTL with BranchEn; RTIT: RTIT_CTL without TraceActive */
    size_t insns;
    unsigned interrupt, signal, odd_return;
    unsigned overflow;
    bool os;               /* the kernel's code is traced, too */
    bool clock;            /* time passes */
    bool deferred;
    uint64_t base, limit;  /* an address filter, if limit is not 0 */
    unsigned mtc_freq;
    size_t full;           /* PT: each time so many bytes were written the output is full: a packet may be cut, what runs then is lost, and
                            * tracing begins anew; 0: never */
    bool deaf;             /* nothing more is written until then */
    /* out */
    uint64_t breaks[PROG_BREAKS]; /* offsets where it was full; truth[resumed[i]] ran first behind that of i */
    size_t resumed[PROG_BREAKS], sure[PROG_BREAKS], breaks_n; /* up to truth[sure[i]] all is told before it */
    uint64_t *truth;
    size_t truth_n, truth_max;
    uint8_t *trace;
    size_t n, max;
    uint64_t seed;
};

/* Its code and, at KERNEL, what stands for a kernel: NOP, IRETQ. The caller closes it. */
struct cofi_image *prog_image(const struct prog *prog);
void prog_make(struct prog *prog, uint64_t seed, unsigned functions);
void prog_go(struct prog *prog, struct prog_run *run);
void prog_free(struct prog_run *run);

#endif
