/* SPDX-License-Identifier: MIT
 * The trace unit: registers and events in, packets out. One frame for RTIT and PT.
 *
 * An emulator has one unit for each logical processor. What it calls, and when:
 *
 *   the processor is made     cofi_unit_open, then cofi_unit_context with its state and first address
 *   CPUID                     cofi_unit_cpuid: leaves 14H, 15H, and the bit of 7 that says that they are there
 *   RDMSR                     cofi_unit_rdmsr; COFI_ERR_GP is #GP, COFI_ERR_NOT_FOUND somebody else's register
 *   WRMSR                     a WRMSR event where the traced program executes it, for packets have its address;
 *                             cofi_unit_wrmsr for what is no instruction: a debugger, a recorder
 *   XSAVES, XRSTORS           cofi_unit_xsaves, cofi_unit_xrstors: state component 8
 *   an instruction retired    cofi_unit_event, if it branches, transfers far or changes struct cofi_context:
 *                             JCC, JMP, CALL, JMP_IND, CALL_IND, RET, FAR, MOV_CR3, MOV_CR0, STATE, WRMSR,
 *                             PTWRITE, VMPTRLD, XBEGIN, XEND, XABORT, MWAIT. Others as INSN where cofi_unit_wants
 *                             asks for them, or at will. One that faults has not retired: its fault is an EVENT
 *   interrupt, fault, SMI,    EVENT before it is delivered, with the address that FUP carries (enum cofi_cause).
 *   INIT, VM exit, …          Where it leads is its target or, known only later, deferred: the next event with an
 *                             address completes it (BOUNDARY, if there is no other)
 *   time                      CLOCK when it has passed, before the event to which it belongs; or config.clock, to
 *                             be asked. Without either no time passes, which only TSC, MTC and CYC packets show
 *   HLT, wake, another ratio  SLEEP, WAKE, FREQ
 *   the guest's TSC moves     cofi_unit_tsc
 *   ToPA's interrupt          comes by config.pmi: a performance monitoring interrupt, and
 *                             IA32_PERF_GLOBAL_STATUS[55]
 *   reset                     cofi_unit_reset; INIT is an EVENT
 *   the trace is looked at    it is in memory, or at the sink, once TraceEn is 0; earlier after cofi_unit_drain
 *
 * For PT, with the trace in the guest's memory (whole programs: examples/pt_machine.c, RTIT examples/toy_machine.c):
 *
 *   struct cofi_context user = {.cpl = 3, .mode = 64, .cr3 = cr3, .vmcs = UINT64_MAX}, kernel = user;
 *   struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = "skylake",
 *                                     .memory = {load, store, vm}, .pmi = note_pmi, .opaque = vm};
 *   kernel.cpl = 0;
 *   cofi_unit_open(&unit, &config);
 *   cofi_unit_context(unit, &kernel, rip);
 *
 *   struct cofi_event wrmsr = {.kind = COFI_EV_WRMSR, .ip = rip, .next = rip + 2, .msr = ecx, .value = edx_eax};
 *   if (cofi_unit_event(unit, &wrmsr) == COFI_ERR_GP)
 *       …                                   deliver #GP, which is an EVENT of its own
 *   struct cofi_event sysret = {.kind = COFI_EV_FAR, .cause = COFI_FAR_SYSRET, .vector = COFI_NO_VECTOR, .ip = rip,
 *                               .next = rip + 3, .target = rcx, .context_set = true, .after = user};
 *   struct cofi_event jcc = {.kind = COFI_EV_JCC, .ip = rip, .next = rip + 2, .target = rip + 64, .taken = zf};
 *   struct cofi_event fault = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_FAULT, .vector = 14, .value = cr2,
 *                              .ip = rip, .target = handler, .context_set = true, .after = kernel};
 *
 * A host that sees instructions only has cofi_stepper (event.h), which tells these events from them; one that has
 * already found out what binds has cofi_unit_tnt and cofi_unit_tip below.
 *
 * Callbacks run inside of a call. They may read the unit's registers (cofi_unit_rdmsr, cofi_unit_get_field) and call
 * nothing else of it: a PMI, for one, is noted and delivered later. A unit belongs to one thread at a time; units are
 * independent of each other. Arguments' pointers are not kept, but for callbacks and their opaques, which outlive the
 * unit. No argument may be null unless it says so.
 *
 * Cost, as bench/bench_unit.c measures it: a conditional branch 10 to 20 ns with every enable, filter and kind of
 * packet on, an indirect one 40 ns, a CLOCK event with nothing due 10 ns, an outcome by cofi_unit_tnt 1 to 3 ns;
 * registers below 1 us. Memory: 10 KB and config.buffer_bytes. */
#ifndef COFI_UNIT_H
#define COFI_UNIT_H

#include <cofi/error.h>
#include <cofi/event.h>
#include <cofi/output.h>
#include <cofi/packet.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cofi_unit;

/* Errata of the RTIT reference's appendix E that a unit can show (config.errata).
 * [ERR E1] needs the number of prefixes in the size of a FAR event. */
#define COFI_ERRATUM_RTIT_E1 (UINT64_C(1) << 0) /* FUP.FAR inside a far transfer with
                                                 * > 3 prefixes */
#define COFI_ERRATUM_RTIT_E2 (UINT64_C(1) << 1) /* extra FUP.PGD */
#define COFI_ERRATUM_RTIT_E3 (UINT64_C(1) << 2) /* PSB one packet late */
#define COFI_ERRATUM_RTIT_E4 (UINT64_C(1) << 3) /* TraceStop in an overflow has no effect */
#define COFI_ERRATUM_RTIT_E5 (UINT64_C(1) << 4) /* TIP after FUP.BuffOvf */
#define COFI_ERRATUM_RTIT_E6 (UINT64_C(1) << 5) /* cycle counts one too small */
#define COFI_ERRATUM_RTIT_E7 (UINT64_C(1) << 6) /* first MTC at the wrong time */
#define COFI_ERRATUM_RTIT_E8 (UINT64_C(1) << 7) /* packets after a PSB out of order or lost */

/* Errata of Intel PT processors that a unit can show [PTREF 9.8]. */
#define COFI_ERRATUM_BDM70 (UINT64_C(1) << 16)  /* PSB+ at enable has FUP and
                                                 * MODE.Exec, TIP.PGE follows */
#define COFI_ERRATUM_BDM64 (UINT64_C(1) << 17)  /* wrong TIP just before a transaction aborts */
#define COFI_ERRATUM_SKD007 (UINT64_C(1) << 18) /* OVF overwrites the tail of a CYC */
#define COFI_ERRATUM_SKD022 (UINT64_C(1) << 19) /* FUP before TIP.PGD when VM entry
                                                 * clears TraceEn */
#define COFI_ERRATUM_SKD010 (UINT64_C(1) << 20) /* no FUP after OVF */
#define COFI_ERRATUM_SKL014 (UINT64_C(1) << 21) /* TIP.PGD without IP on a direct
                                                 * branch out of the filter */
#define COFI_ERRATUM_APL12 (UINT64_C(1) << 22)  /* stray FUP after OVF while packets are off */
#define COFI_ERRATUM_APL11 (UINT64_C(1) << 23)  /* TIP.PGD right after OVF */
#define COFI_ERRATUM_SKL168 (UINT64_C(1) << 24) /* CYC and MTC lost before a PSB */
#define COFI_ERRATUM_SKZ84 (UINT64_C(1) << 25)  /* TMA wrong and a byte longer under a TSC offset */
#define COFI_ERRATUM_BDM106 (UINT64_C(1) << 26) /* BranchEn=0 faults */
#define COFI_ERRATUM_GOLDMONT (UINT64_C(1) << 27) /* an EVENT at an indirect branch has
                                                   * FUP(next); the host says where that is
                                                   * by the event's next, 0 elsewhere */

/* The errata of a processor, by CPUID's family and model, that a unit can show: bits
 * of COFI_ERRATUM_*; of RTIT all on the parts it is documented for. 0: none known.
 * Thread safe. [PTREF 9.8], [RTIT Appendix E] */
uint64_t cofi_unit_errata(enum cofi_gen gen, uint32_t family, uint32_t model);

/* The bit of an erratum by its name, in lower case: "e1" to "e8" of RTIT, "bdm70",
 * "skl014", … of PT. COFI_ERR_NOT_FOUND: that generation has none of that name. */
int cofi_unit_erratum(enum cofi_gen gen, const char *name, uint64_t *bit);

/* What --explain shows: a packet and its rule, or why there is none. The rule and tag are
 * static; the packet lives as long as the call. Costs nothing where config.explain is null. */
struct cofi_explain {
    const struct cofi_packet *packet; /* null: the event made none */
    uint64_t offset;                  /* byte offset in the trace */
    const char *rule;                 /* what made it, or which enable was off */
    const char *tag;                  /* "[RTIT 4.2.8]" */
};

/* PT: what a processor can do, for a machine of one's own: CPUID leaves 14H and 15H
 * as they stand, and what no leaf of them says. Capability bits that this library
 * does not know are dropped, and so not shown by cofi_unit_cpuid. [PTREF 1] */
struct cofi_unit_cpu {
    uint32_t leaf14_ebx, leaf14_ecx;                 /* CPUID.(14H,0) EBX, ECX */
    uint32_t leaf14_1_eax, leaf14_1_ebx, leaf14_1_ecx; /* CPUID.(14H,1); all 0: the
                                                        * sub-leaf does not exist */
    uint32_t leaf15_eax, leaf15_ebx, leaf15_ecx;     /* CPUID.15H; EAX or EBX 0: no
                                                      * MTC (config.tsc_art_* wins) */
    uint8_t maxphyaddr;                              /* CPUID.80000008H EAX[7:0], 32..52 */
    uint8_t ratio;                                   /* CBR's value until the first
                                                      * FREQ event, in 100 MHz */
    bool vmx;                                        /* IA32_VMX_MISC[14]: traces in
                                                      * VMX operation */
};

struct cofi_unit_config {
    size_t size;                 /* sizeof(struct cofi_unit_config) */
    enum cofi_gen gen;
    const char *model;           /* PT: capability preset (cofi_unit_model lists
                                  * them), null: "all"; RTIT: null */
    uint64_t errata;             /* bits of COFI_ERRATUM_*; 0: none */
    struct cofi_sink sink;       /* where bytes go without memory.write, and under
                                  * FabricEn; null write: nowhere */
    struct cofi_memory memory;   /* physical memory; with write set, output follows
                                  * the registers. ToPA needs read. A store that it
                                  * refuses is dropped, as to restricted memory */
    uint32_t buffer_bytes;       /* internal buffer; 0: unbounded, never overflows;
                                  * else at least 256 (RTIT 10) */
    uint32_t drain_bytes;        /* the buffer drains this many bytes … */
    uint32_t drain_cycles;       /* … each so many core cycles, as CLOCK and its like
                                  * tell; 0: only drains */
    uint32_t weak_lines;         /* with memory: so many 64-byte lines may leave out of
                                  * order, at most 16; 0: strongly ordered [RTIT 2.3.2] */
    uint64_t weak_seed;          /* picks the order */
    uint64_t tsc_art_num, tsc_art_den; /* PT: TSC ticks = ART * num / den; 0: as
                                        * CPUID.15H EBX/EAX says */
    bool deferred_tips;          /* PT: [SDM Deferred TIPs] */
    bool long_tnt;               /* PT: collect up to 47 bits */
    void (*explain)(void *opaque, const struct cofi_explain *);
    void (*pmi)(void *opaque);   /* PT: a ToPA region with INT is full; null: nobody
                                  * wants to know */
    void *opaque;                /* of explain, pmi and clock */
    /* Asked for the time whenever a packet may carry it; null: the last CLOCK event's. For
     * operations whose packets span cycles, and for hosts that would rather be asked than
     * tell. tsc: hardware TSC in ticks, cycles: core cycles; neither ever decreases. */
    void (*clock)(void *opaque, uint64_t *tsc, uint64_t *cycles);
    uint64_t tsc_offset;         /* PT: what software's TSC is ahead of the hardware's [SDM TSC] */
    uint64_t cyc_limit;          /* PT: after so many cycles without a CYC, a CLOCK
                                  * event makes one; 0: 2^19 */
    bool returns_pop;            /* PT: a return that is not compressed takes one address off the
                                  * stack, and far transfers keep it, as the manual says; else both
                                  * clear it, so that every public decoder agrees [PTREF 7.2] */
    uint32_t trigger_msrs;       /* PT: address of the first trigger register, the others
                                  * follow; 0: they have field names only
                                  * ("trigger0_cfg"), for no public source tells it */
    uint32_t mtc_burst;          /* PT: at most so many MTC per CLOCK event; 0: every one. A
                                  * host whose clock moves in leaps (ptrace) should say 1. */
    const struct cofi_unit_cpu *cpu; /* PT: the capabilities, leaf by leaf, in place
                                      * of model; null: model's */
};

/* Make a unit in its reset state; config is copied, cpu too. Allocates once; nothing after
 * it allocates, does I/O or reads a clock: same configuration, writes and events give the
 * same bytes. Errors, *unit untouched: COFI_ERR_NOMEM; COFI_ERR_RANGE (gen is none, unknown
 * model, impossible cpu, buffer, weak_lines or size); COFI_ERR_UNSUPPORTED (a member that
 * only a newer library knows is set). Inverse: cofi_unit_close, which drains nothing. */
int cofi_unit_open(struct cofi_unit **unit, const struct cofi_unit_config *config);
void cofi_unit_close(struct cofi_unit *unit); /* null: nothing */

/* A reset of the processor. COLD (power-on) clears every register; WARM only TraceEn, on parts with
 * IP filtering, else all [SDM Warm Reset]. Both stop tracing where it stands, without packets: what
 * the internal buffer holds is lost, so the output may end inside a packet. INIT changes nothing
 * here: its packets are an EVENT's. Tell the state after it by cofi_unit_context. */
enum cofi_reset { COFI_RESET_COLD, COFI_RESET_WARM, COFI_RESET_INIT };
void cofi_unit_reset(struct cofi_unit *unit, enum cofi_reset kind);

/* Registers. COFI_ERR_GP: the access faults (#GP) and has had no effect. COFI_ERR_NOT_FOUND: no
 * register of this unit. Reads are of this moment, also while TraceEn is 1, when a processor's
 * may be old; only bytes in the internal buffer are not in the output's offset yet. Writes made
 * here are no instruction: addresses in packets that they cause are that of the next instruction,
 * as the last event told it. Clearing TraceEn drains; COFI_ERR_FULL: the write is done, but the
 * sink refused bytes, as in cofi_unit_event. A WRMSR of the traced program is an event. */
int cofi_unit_rdmsr(struct cofi_unit *unit, uint32_t msr, uint64_t *value);
int cofi_unit_wrmsr(struct cofi_unit *unit, uint32_t msr, uint64_t value);
/* Put a saved value back without any effect on the trace: what firmware does on
 * leaving C6, or a debugger [RTIT 3.3.13]. All registers saved after cofi_unit_drain
 * and loaded into another unit continue the stream byte for byte. COFI_ERR_GP as for
 * a write; COFI_ERR_UNSUPPORTED where a generation has no such thing. */
int cofi_unit_load_msr(struct cofi_unit *unit, uint32_t msr, uint64_t value);
/* PT: the XSAVES image of the registers, state component 8 [SDM Trace Configuration
 * Context Switch Using XSAVES/XRSTORS]: CTL, OUTPUT_BASE, OUTPUT_MASK_PTRS, STATUS,
 * CR3_MATCH, ADDR0_A/B, ADDR1_A/B, 8 bytes each, little-endian, and reserved bytes (0).
 * save is XSAVES: CTL as it is, then TraceEn is cleared (as by a WRMSR at the last
 * boundary), then the rest. restore is XRSTORS, with an image or (null) to the initial
 * configuration; COFI_ERR_GP and no effect while TraceEn is 1, and for values that a
 * WRMSR would not take. COFI_ERR_FULL as for a write. RTIT: COFI_ERR_UNSUPPORTED. */
enum { COFI_XSAVE_BYTES = 128 };
int cofi_unit_xsaves(struct cofi_unit *unit, uint8_t image[COFI_XSAVE_BYTES]);
int cofi_unit_xrstors(struct cofi_unit *unit, const uint8_t *image);

/* A PT capability preset of cofi_unit_config.model: the i-th, or null past the last;
 * text says which processors it stands for, cpu (may be null) is family << 16 |
 * model, 0: none in particular. */
const char *cofi_unit_model(unsigned i, const char **text, uint32_t *cpu);
/* The i-th PT capability's name ("MTC", …) and whether the unit has it (-1 past the last). */
int cofi_unit_capability(const struct cofi_unit *unit, unsigned i, const char **name);
/* The i-th field of the unit's registers: name, MSR, lowest bit and width; -1 past
 * the last, else whether the unit has it (RTIT: always). */
struct cofi_unit_field {
    const char *name;
    uint32_t msr; /* 0: the register has no address (config.trigger_msrs) */
    uint8_t lsb, width;
};
int cofi_unit_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field);

/* PT: what RDTSC shows from now on: the hardware's TSC times multiplier (48 bits of fraction as in the VMCS; 0:
 * 1) plus offset (TSC_ADJUST and the VMCS's). TSC packets have it; MTC, TMA and CYC do not [SDM TSC Scaling].
 * Makes no packet. Replaces config.tsc_offset. RTIT's packets have the hardware's TSC: no effect. */
void cofi_unit_tsc(struct cofi_unit *unit, uint64_t multiplier, uint64_t offset);

/* The unit's CPUID leaves, EAX, EBX, ECX, EDX (PT: 7 with EBX[25] alone, 14H, 15H;
 * sub-leaves that do not exist are 0). Returns 0, or COFI_ERR_RANGE for another
 * leaf, and any of RTIT, which no leaf enumerates. */
int cofi_unit_cpuid(const struct cofi_unit *unit, uint32_t leaf, uint32_t subleaf,
                    uint32_t regs[4]);

/* Set a field of a register by the manual's name in snake case ("dis_retc", "pkt_mask"),
 * on top of what the register holds, as cofi_unit_wrmsr does. COFI_ERR_NOT_FOUND: no
 * such field; COFI_ERR_RANGE: does not fit; COFI_ERR_GP, COFI_ERR_FULL as there. */
int cofi_unit_set_field(struct cofi_unit *unit, const char *field, uint64_t value);

/* The field's value as RDMSR would show it; does not count as the read of
 * [RTIT 3.3.1]. COFI_ERR_NOT_FOUND. */
int cofi_unit_get_field(const struct cofi_unit *unit, const char *field, uint64_t *value);

/* The i-th register of the unit, in order of address, for listings.
 * COFI_ERR_NOT_FOUND past the last. value is as cofi_unit_get_field shows it. */
struct cofi_unit_register {
    const char *name; /* "RTIT_CTL"; static */
    uint32_t msr;
    uint64_t value;
};
int cofi_unit_register_at(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg);

/* Processor state and the address of the next instruction: before the first event,
 * after a reset, and where a host that runs several programs on one unit puts
 * another in, with TraceEn 0. While tracing, state changes by events: this tells no
 * packet. To trace user code with RTIT: filter_event_id 7 (always on; the reset
 * value 0 means RANGE0), tracestop_event_id 6 (off), user 1, dest 1, whatever else
 * is wanted, then trace_en 1 and at last trace_active 1 [RTIT 3.3.2, Table 7]. */
void cofi_unit_context(struct cofi_unit *unit, const struct cofi_context *context, uint64_t ip);

/* Report what happened, in program order; members that the kind does not name (event.h) are 0, but
 * for the vector of an EVENT or FAR that has none: COFI_NO_VECTOR. 0, or COFI_ERR_GP for a WRMSR
 * that faults (report the fault as the next event) or a transition whose lists load what WRMSR
 * refuses (it has not happened: report its failure), or COFI_ERR_FULL when the sink refused bytes:
 * they are lost, and the unit goes on as after an operational error, STATUS.Error until software
 * clears it. What guests do wrong with their output is told to them in STATUS, not here. */
int cofi_unit_event(struct cofi_unit *unit, const struct cofi_event *event);

/* Which events the unit needs beyond branches, transfers and state, as its registers
 * stand now: bits of COFI_WANTS_*. Ask again after a register write. */
#define COFI_WANTS_INSN 1u /* every instruction as INSN: the IP filters watch it walk in and out */
unsigned cofi_unit_wants(const struct cofi_unit *unit);

/* The narrow door, for hosts that already know what binds: n conditional outcomes (oldest at bit n
 * - 1, n <= 64), and the target of one indirect branch. For branches that keep tracing on
 * (PacketEn) before and after: filters are not looked at; while packets are off, both make nothing.
 * A return is an outcome of 1 where the host has found it compressible, else a target: the unit's
 * own stack of calls does not see this door, so a host uses one door for calls and returns, with
 * DisRETC or its own stack. A PSB+ that is due waits for the next target, or BOUNDARY. Errors:
 * COFI_ERR_FULL as for cofi_unit_event. Mixes with events; no deferred transfer may be waiting. */
int cofi_unit_tnt(struct cofi_unit *unit, uint64_t bits, unsigned n);
int cofi_unit_tip(struct cofi_unit *unit, uint64_t target);

/* Force the internal buffer and partly written lines out, as clearing TraceEn does
 * (RTIT: a WRMSR to the control register, a fence). TNT bits not yet in a packet stay.
 * That the sink refused bytes is told by the next call that can return COFI_ERR_FULL. */
void cofi_unit_drain(struct cofi_unit *unit);
/* Bytes made so far: all that went into the internal buffer; not those that an overflow lost. */
uint64_t cofi_unit_bytes(const struct cofi_unit *unit);

#ifdef __cplusplus
}
#endif
#endif
