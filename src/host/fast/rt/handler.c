/* SPDX-License-Identifier: MIT
 * The one signal handler: finds out what was interrupted and turns it into the guest's exact state. */
#include <asm/prctl.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "cofi/insn.h"
#include "host/fast/rt/block.h"
#include "host/fast/rt/sequence.h"
#include "host/fast/rt/signals.h"
#include "x86/fast.h"

enum { USER_DS = 0x2b, FLAG_RF = 0x10000 };

static void undo_stand_ins(struct thread *t, unsigned fix)
{
    unsigned stand_in = stand_ins[fix >> FIX_R11_SHIFT & 7];
    if (fix & FIX_R11)
        t->regs[R11] = t->regs[stand_in];
    if (fix & (FIX_R11 | FIX_STAND_IN))
        t->regs[stand_in] = t->s_reg;
    if (fix & FIX_RIP)
        t->regs[rip_stand_ins[fix >> FIX_RIP_SHIFT & 3]] = t->s_rip;
    if (fix & FIX_RCX)
        t->regs[RCX] = t->s_rcx;
    if (fix & FIX_RDX)
        t->regs[RDX] = t->s_rdx;
}

/* The guest's state when an instruction at RIP in the cache faulted; its own, or one that writes the log. The
 * outcomes up to there go to the log. */
static bool recover(struct thread *t, const struct ksigcontext *mc)
{
    const uint8_t *code = (const uint8_t *)mc->rip;
    const struct block *b = cache_find_code(code);
    if (!b)
        return false;
    const struct exit *e = cache_exit_at(b, code);
    struct point p;
    if (!e && (code < b->code_start || !point_find(b, code, &p)))
        return false;
    uint64_t r11 = t->regs[R11];
    regs_from_context(t, mc);
    t->regs[R11] = r11;
    t->p = mc->r11;
    log_settle(t);
    if (e) {
        static const uint8_t hows[] = {[EXIT_NEXT] = HOW_NEXT, [EXIT_JCC] = HOW_JCC, [EXIT_BRANCH] = HOW_DIRECT};
        t->pc = exit_pc(e);
        t->crossing.how = hows[e->kind];
        t->crossing.outcomes = 1;
        log_outcomes(t, e->outcomes);
        return true;
    }
    t->pc = b->pc + (uint64_t)(int64_t)p.pc;
    undo_stand_ins(t, p.fix);
    if (p.fix & FIX_DONE) {
        t->pc = mc->rcx;
        t->crossing.how = HOW_INDIRECT;
        t->crossing.outcomes = p.bits;
    } else {
        log_outcomes(t, p.bits);
    }
    return true;
}

/* Go on in rt_dispatch, with asynchronous signals blocked until the delivery has set the guest's mask. */
static void redirect(struct thread *t, struct kucontext *uc)
{
    t->miss_id = 2;
    uc->mc.rip = (uint64_t)rt_restart;
    uc->mc.rdi = (uint64_t)t;
    uc->mc.rsp = t->stack_top;
    uc->mc.eflags = 0x202;
    uc->mask = t->signal.has ? ~SYNC_SIGNALS : t->mask & ~SYNC_SIGNALS;
}

/* A trap of what ran before RIP, which is not to run again: a step's; a data watchpoint's, or of perf's
 * counters (TRAP_PERF). */
static bool comes_behind(int signo, const struct ksiginfo *info)
{
    enum { PERF = 6 };
    return signo == SIGTRAP && (info->code == TRAP_TRACE || info->code == TRAP_HWBKPT || info->code == PERF);
}

/* One waits, and none is to be lost: a fault comes before it, any other waits again, in the kernel or as held. */
static void keep(struct thread *t, const struct ksiginfo *info, const struct ksigcontext *mc, bool sync)
{
    if (t->signal.has && !sync) {
        signals_put_back(t, info);
        return;
    }
    if (t->signal.has) { /* a fault before the safepoint that the waiting signal has asked for */
        t->signal.second = t->signal.info;
        t->signal.has_second = true;
    }
    t->signal.info = *info;
    t->signal.has = true;
    t->signal.sync = sync;
    t->signal.once = comes_behind(info->signo, info);
    /* the fault of a call there is not told, the last one is ours */
    bool vsyscall = info->code == SI_KERNEL && mc->trapno == TRAP_PAGE_FAULT;
    if (sync && !vsyscall) { /* in a frame without a fault of its own, the kernel leaves the thread's last one's */
        t->fault.err = mc->err;
        t->fault.trapno = mc->trapno;
        t->fault.cr2 = mc->trapno == TRAP_PAGE_FAULT ? mc->cr2 : t->fault.cr2;
    }
    t->fault.pc = t->pc;
}

/* Whether the block that writes may be made of code of the page that it writes to. */
static bool writes_beside_itself(const struct ksiginfo *info, const struct kucontext *uc)
{
    const struct block *writer = cache_find_code((const uint8_t *)uc->mc.rip);
    uint64_t page = info->addr & ~UINT64_C(4095);
    return writer && block_overlaps(writer, page, page + 4096);
}

/* A write to a page that is watched for code: the page is writable again; the write is still to be done. */
static bool write_to_watched(int signo, const struct ksiginfo *info, const struct kucontext *uc)
{
    if (signo != SIGSEGV || info->code != SEGV_ACCERR || !(uc->mc.err & 2))
        return false;
    rt_lock();
    bool watched = pages_write_fault(info->addr);
    if (watched && !writes_beside_itself(info, uc))
        pages_wrote(info->addr);
    rt_unlock();
    return watched;
}

/* A write fault at a page that is not watched: another thread may have released it since. It is tried
 * again; the guest's own fault is one that comes again though nothing was released, and not where the
 * guest may write: on a busy machine that was seen to come twice (measured on Linux 6.18). */
static bool try_again(struct thread *t, int signo, const struct ksiginfo *info, const struct kucontext *uc)
{
    if (signo != SIGSEGV || info->code != SEGV_ACCERR || !(uc->mc.err & 2))
        return false;
    enum { MOST = 1000 };
    uint64_t releases = __atomic_load_n(&rt.releases, __ATOMIC_ACQUIRE);
    bool again = t->doubt.rip == uc->mc.rip && t->doubt.addr == info->addr && t->doubt.releases == releases;
    t->doubt.times = again ? t->doubt.times + 1 : 0;
    bool known = again && (t->doubt.times > MOST || !maps_writable(info->addr));
    t->doubt.rip = known ? 0 : uc->mc.rip;
    t->doubt.addr = info->addr;
    t->doubt.releases = releases;
    return !known;
}

/* Whether the trap flag has trapped, where it was not INT1. A busy machine's hypervisor may lose what
 * tells one from the other, DR6.BS: one step in some hundred thousands on KVM on Intel's processors. */
static bool is_step(int signo, const struct ksiginfo *info)
{
    return signo == SIGTRAP && (info->code == TRAP_TRACE || info->code == TRAP_BRKPT);
}

/* Whether the instruction that was to run in place has run. A SIGTRAP that somebody sent meanwhile takes
 * the place of the step's, for of a number one is pending [signal(7)]. */
static bool has_run(const struct thread *t, int signo, const struct ksiginfo *info, uint64_t rip)
{
    bool instead = signo == SIGTRAP && info->code <= 0 && rip != t->pc && !t->step.traps;
    return instead || (is_step(signo, info) && (info->code == TRAP_TRACE || t->step.cls != COFI_CLASS_FAR_CALL));
}

static uint64_t current_gs(void)
{
    uint64_t base = 0;
    sys(SYS_arch_prctl, ARCH_GET_GS, (uint64_t)&base, 0, 0, 0, 0);
    return base;
}

/* Keep GS as the program has left it, and have our own again. */
void take_gs(struct thread *t)
{
    t->gs.base = current_gs();
    __asm__ volatile("movw %%gs, %0" : "=m"(t->gs.selector));
    t->gs.apart = false;
    if (t->gs.selector) {
        __asm__ volatile("movw %0, %%gs" : : "m"(t->gs.selector));
        t->gs.apart = current_gs() != t->gs.base;
    }
    sys(SYS_arch_prctl, ARCH_SET_GS, (uint64_t)t, 0, 0, 0, 0);
}

/* One instruction has run in place (or has not: a fault, a signal before it). `halt`: what asks for a
 * halt, perhaps in the place of the step's trap. */
static void stepped(struct thread *t, int signo, struct ksiginfo *info, struct kucontext *uc, bool halt)
{
    take_gs(t);
    t->step.on = false;
    if (halt && !t->step.traps && uc->mc.rip != t->pc)
        *info = (struct ksiginfo){.signo = SIGTRAP, .code = TRAP_TRACE, .addr = uc->mc.rip};
    bool ran = has_run(t, signo, info, uc->mc.rip);
    uint64_t own = t->flags & FLAG_TF;
    regs_from_context(t, &uc->mc);
    t->regs[R11] = uc->mc.r11;
    if (!ran || !t->step.pops)
        t->flags = (t->flags & ~(uint64_t)FLAG_TF) | own;
    must_be_64_bit(uc->mc.cs, t->pc);
    uint64_t from = t->pc;
    t->pc = uc->mc.rip;
    if (ran)
        step_done(t, from);
    if (ran && is_step(signo, info)) {
        if (own) /* the program steps itself */
            keep(t, info, &uc->mc, true);
        return;
    }
    /* it wrote to two pages, and this is the second */
    if (write_to_watched(signo, info, uc) || try_again(t, signo, info, uc)) {
        t->step.force = true;
        return;
    }
    if (halt) {
        if (t->step.traps) /* so that it traps */
            t->pc = from;
        return;
    }
    bool sync = SYNC_SIGNALS >> (signo - 1) & 1 && info->code > 0;
    /* INT3, INT1 and INT 4 report the address behind them; the trace's event is at the instruction. */
    keep(t, info, &uc->mc, sync);
    t->fault.pc = sync && (signo == SIGTRAP || uc->mc.trapno == TRAP_OVERFLOW) ? from : t->pc;
}

/* No IRETQ goes to t->pc, an address that is not canonical: that is the fault of who comes there. */
static bool goes_nowhere(const struct thread *t, struct kucontext *uc)
{
    if (!t->step.on || uc->mc.rip != (uint64_t)rt_native_iret)
        return false;
    regs_to_context(t, &uc->mc);
    uc->mc.eflags |= FLAG_RF; /* as any fault */
    return true;
}

static bool is_ours(uint64_t rip)
{
    return rip >= COFI__FAST_RUNTIME_BASE && rip < COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_BYTES;
}

/* Not the program's: records and what is compared have any address, where AC is set; and what is compared runs, but
 * may not be read (protection keys), or ends on a page that is not there, which the program may not come to. */
static bool is_own_access(struct thread *t, int signo, const struct ksiginfo *info, const struct kucontext *uc)
{
    const uint8_t *code = (const uint8_t *)uc->mc.rip;
    if (signo != SIGSEGV && signo != SIGBUS)
        return false;
    t->step.unchecked = t->crossing.how != HOW_INDIRECT && point_is_check(cache_find_code(code), code);
    t->step.force |= t->step.unchecked;
    return t->step.unchecked || (signo == SIGBUS && info->code == BUS_ADRALN && t->crossing.how == HOW_INDIRECT);
}

/* In the code of a restartable sequence that runs as a whole. All of a thread's signals come when the
 * kernel has led it out of that, to where it comes to rt_dispatch. */
static bool in_sequence(const struct thread *t, uint64_t rip)
{
    return t->sequence.runs && !is_ours(rip);
}

/* … a fault: the sequence is restarted. */
static void fault_in_sequence(struct thread *t, int signo, struct ksiginfo *info, struct kucontext *uc)
{
    if (!sequence_restarts(t->sequence.runs, uc->mc.rip))
        rt_die("internal fault at", uc->mc.rip);
    if (write_to_watched(signo, info, uc) || try_again(t, signo, info, uc))
        return;
    keep(t, info, &uc->mc, true);
    uc->mask = ~SYNC_SIGNALS;
    t->safepoint |= SAFEPOINT_SIGNAL;
}

/* A fault in translated code: the log's end, a write to watched code, or the guest's own. */
static void fault(struct thread *t, int signo, struct ksiginfo *info, struct kucontext *uc)
{
    if (uc->mc.rip >= (uint64_t)rt_probe_begin && uc->mc.rip < (uint64_t)rt_probe_end) {
        if (write_to_watched(signo, info, uc) || try_again(t, signo, info, uc))
            return;
        uc->mc.rip = (uint64_t)rt_probe_fault;
        return;
    }
    if (in_sequence(t, uc->mc.rip)) {
        fault_in_sequence(t, signo, info, uc);
        return;
    }
    bool guard = signo == SIGSEGV && log_is_guard(t, info->addr);
    bool watched = !guard && write_to_watched(signo, info, uc);
    if (!guard && !watched && try_again(t, signo, info, uc))
        return;
    if (signo == SIGSEGV && uc->mc.rip == (uint64_t)rt_restart) { /* sigreturn, with a state of the FPU
                                                                   * that cannot be, or an SS */
        if (uc->mc.ss == USER_DS) /* the call has failed, and returns 0 */
            t->regs[RAX] = 0;
        if (uc->mc.ss == USER_DS || !t->signal.has) /* else the SS has been told */
            signals_raise(t, info);
        uc->mc.ss = USER_DS;
        redirect(t, uc);
        return;
    }
    if (watched && !writes_beside_itself(info, uc))
        return; /* the write is done by who was about to: the program, or the runtime, whose is a frame
                 * on the program's stack */
    if (is_ours(uc->mc.rip) || !recover(t, &uc->mc))
        rt_die("internal fault at", uc->mc.rip);
    if (guard) {
        log_guard(t);
        redirect(t, uc);
        return;
    }
    if (watched) {
        t->step.force = true; /* so that it does get past the write: its own code is made anew behind it */
        redirect(t, uc);
        return;
    }
    if (is_own_access(t, signo, info, uc)) {
        redirect(t, uc);
        return;
    }
    if (is_step(signo, info) && t->flags & FLAG_TF) { /* POPF has set it; all runs in place from here on */
        redirect(t, uc);
        return;
    }
    if (info->addr == uc->mc.rip) /* SIGILL and SIGFPE name the instruction */
        info->addr = t->pc;
    keep(t, info, &uc->mc, true);
    redirect(t, uc);
}

/* A signal while the guest's system call was about to run, running or done: none of these is a fault of
 * an instruction. */
static bool at_syscall(const struct kucontext *uc)
{
    return uc->mc.rip >= (uint64_t)rt_sys_begin && uc->mc.rip <= (uint64_t)rt_sys_end;
}

/* A call that only our own signal has interrupted begins anew: the kernel itself makes those anew that it can
 * [signal(7)]. It had just begun, for who waits longer is not asked to halt. A file that was to be closed is closed. */
static void call_again(const struct thread *t, struct kucontext *uc)
{
    if (uc->mc.rip != (uint64_t)rt_sys_end || uc->mc.rax != (uint64_t)-EINTR || t->sysno == SYS_close)
        return;
    uc->mc.rip = (uint64_t)rt_sys_insn;
    uc->mc.rax = t->sysno;
}

/* SECCOMP_RET_TRAP, or the like of it. */
static bool is_trap(int signo, const struct ksiginfo *info)
{
    return signo == SIGSYS && info->code == 1;
}

/* … instead of the guest's call: siginfo names the address behind it. */
static void trap_call(struct thread *t, struct ksiginfo *info, const struct ksigcontext *mc)
{
    call_done(t, mc->rax);
    if (is_ours(info->addr))
        info->addr = t->pc;
}

/* Whether the kernel has forced the signal on the thread: its code says so, where the program does not
 * send itself just that. */
static bool is_forced(const struct thread *t, const struct ksiginfo *info)
{
    enum { NR_pidfd_send_signal = 424 };
    bool sends = t->sysno == SYS_rt_sigqueueinfo || t->sysno == SYS_rt_tgsigqueueinfo ||
                 t->sysno == NR_pidfd_send_signal;
    return SYNC_SIGNALS >> (info->signo - 1) & 1 && info->code == SI_KERNEL && !sends;
}

/* Before the guest's call, or behind it: then the runtime first does what follows from the call. */
static void came_to_call(struct thread *t, struct ksiginfo *info, struct kucontext *uc)
{
    bool behind = uc->mc.rip == (uint64_t)rt_sys_end, trap = behind && is_trap(info->signo, info), forced = false;
    if (trap)
        trap_call(t, info, &uc->mc);
    if (!t->signal.has)
        forced = is_forced(t, info);
    keep(t, info, &uc->mc, false);
    if (forced)
        t->signal.sync = t->signal.once = true;
    t->safepoint |= SAFEPOINT_SIGNAL;
    if (trap || !behind)
        uc->mc.rip = (uint64_t)rt_sys_pending;
    uc->mask = ~SYNC_SIGNALS;
}

/* … instead of a new thread or process: thread_clone gives back what it has prepared. */
static bool traps_clone(struct thread *t, int signo, struct ksiginfo *info, struct kucontext *uc)
{
    if (!is_trap(signo, info) || uc->mc.rip != (uint64_t)rt_clone_end)
        return false;
    trap_call(t, info, &uc->mc);
    keep(t, info, &uc->mc, false);
    uc->mc.rax = (uint64_t)SYS_PENDING;
    uc->mask = ~SYNC_SIGNALS;
    return true;
}

/* Whether the instruction at RIP, which a signal came before, may wait for a page that it misses, and
 * its code is but itself: then it would wait again, and come to no record. */
static bool may_miss_a_page(const struct kucontext *uc)
{
    const uint8_t *code = (const uint8_t *)uc->mc.rip;
    const struct block *b = rt.misses_pages ? cache_find_code(code) : NULL;
    struct point p;
    return b && !cache_exit_at(b, code) && code >= b->code_start && point_find(b, code, &p) &&
           !(p.fix & ~(FIX_RCX | FIX_RDX)) && b->code_start + p.offset == code;
}

/* The thread comes to rt_dispatch as soon as its state is exact. */
static void stop_soon(struct thread *t, struct kucontext *uc, unsigned why)
{
    t->safepoint |= why;
    bool in_miss = uc->mc.rip >= (uint64_t)rt_miss_arrival && uc->mc.rip < (uint64_t)rt_miss_slow;
    if (uc->mc.rip >= (uint64_t)rt_resume && uc->mc.rip < (uint64_t)rt_resume_end) {
        redirect(t, uc); /* the runtime has looked already */
    } else if ((in_miss || !is_ours(uc->mc.rip)) && !t->real_p && !in_sequence(t, uc->mc.rip)) {
        t->real_p = uc->mc.r11; /* the next record stops the thread */
        uc->mc.r11 = log_nowhere(t);
    }
}

/* A signal is for where execution is now, if the state is exact here; else for where it will be as soon as it is. */
static void came(struct thread *t, const struct ksiginfo *info, struct kucontext *uc, bool exact, bool sync)
{
    exact = exact && recover(t, &uc->mc);
    keep(t, info, &uc->mc, exact && sync);
    if (exact) {
        redirect(t, uc);
        return;
    }
    uc->mask = ~SYNC_SIGNALS;
    stop_soon(t, uc, SAFEPOINT_SIGNAL);
}

/* Whether RIP, at point p of block b, is between two of the guest's instructions: where one's code
 * begins, all of it. */
static bool is_between(const struct block *b, const struct point *p, const uint8_t *code)
{
    struct point before;
    return code > b->code_start && b->code_start + p->offset == code && point_find(b, code - 1, &before) &&
           before.pc != p->pc;
}

/* Whether the kernel is entered by the instruction at pc or, if that is a MOV SS, by the one behind it:
 * a watchpoint's trap waits for that one then, and the kernel keeps it to itself. */
static bool enters_kernel(uint64_t pc)
{
    const uint8_t *code = (const uint8_t *)pc;
    size_t left = 4096 - (pc & 4095);
    struct cofi__fast x;
    int n = cofi__fast_decode(&x, code, left);
    if (n > 0 && x.map == 0 && x.space == COFI__FAST_LEGACY && x.opcode == 0x8e && (x.modrm >> 3 & 7) == 2)
        n = cofi__fast_decode(&x, code + n, left - (unsigned)n);
    return n > 0 && cofi__fast_class(&x) == COFI_CLASS_FAR_CALL;
}

/* What a watchpoint or a counter says is true behind the instruction that it speaks of: here, or as soon as
 * the state is exact. Watchpoints do not tell what the kernel reads, nor, therefore, what the runtime does. */
static void trapped_behind(struct thread *t, const struct ksiginfo *info, struct kucontext *uc)
{
    const uint8_t *code = (const uint8_t *)uc->mc.rip;
    bool watch = info->code == TRAP_HWBKPT, ours = is_ours(uc->mc.rip) || in_sequence(t, uc->mc.rip);
    const struct block *b = ours ? NULL : cache_find_code(code);
    struct point p;
    bool found = b && code >= b->code_start && point_find(b, code, &p);
    bool exact = found && (cache_exit_at(b, code) || is_between(b, &p, code));
    bool untold = ours || (found && !exact && enters_kernel(b->pc + (uint64_t)(int64_t)p.pc));
    if (t->signal.has_second || (watch && untold))
        return;
    came(t, info, uc, exact, true);
}

void rt_handler(int signo, struct ksiginfo *info, struct kucontext *uc)
{
    uint64_t here = (uint64_t)__builtin_frame_address(0);
    __asm__ volatile("pushfq\n andl $~0x40000, (%%rsp)\n popfq" : : : "memory", "cc"); /* AC is the guest's */
    const struct cofi__fast_control *control = (struct cofi__fast_control *)COFI__FAST_SHARED_BASE;
    struct thread *t = (struct thread *)cofi__fast_slot_address(control, cofi__fast_slot_index(control, here));
    frame_learn(t, &uc->mc);
    held_as_sent(info);
    bool halt = halt_asked(t, signo, info), nowhere = goes_nowhere(t, uc);
    if (nowhere || (t->step.on && !is_ours(uc->mc.rip))) {
        stepped(t, signo, info, uc, halt);
        t->signal.once |= nowhere;
        redirect(t, uc);
        return;
    }
    if (SYNC_SIGNALS >> (signo - 1) & 1 && info->code > 0 && !at_syscall(uc)) {
        if (comes_behind(signo, info) && info->code != TRAP_TRACE)
            trapped_behind(t, info, uc);
        else
            fault(t, signo, info, uc);
        return;
    }
    if (halt) {
        call_again(t, uc);
        stop_soon(t, uc, SAFEPOINT_HALT);
        return;
    }
    if (traps_clone(t, signo, info, uc))
        return;
    if (at_syscall(uc)) {
        came_to_call(t, info, uc);
        return;
    }
    came(t, info, uc, !in_sequence(t, uc->mc.rip) && may_miss_a_page(uc), false);
}

/* GS as the program has it. A base that is not the descriptor's, or lies in the kernel's half of the
 * addresses, can only be of WRGSBASE, which is there then. */
void native_gs(const struct thread *t)
{
    bool set = true;
    if (t->gs.selector)
        __asm__ volatile("movw %0, %%gs" : : "m"(t->gs.selector));
    else
        set = !sys(SYS_arch_prctl, ARCH_SET_GS, t->gs.base, 0, 0, 0, 0);
    if (!set || t->gs.apart)
        __asm__ volatile("wrgsbase %0" : : "r"(t->gs.base));
}

/* Run the instruction at pc in place, under the trap flag; its effects come back through the handler. */
void native_step(struct thread *t)
{
    uint64_t frame[20];
    static const uint8_t order[15] = {RAX, RCX, RDX, RBX, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15};
    for (unsigned i = 0; i < 15; i++)
        frame[i] = t->regs[order[i]];
    frame[15] = t->pc;
    frame[16] = 0x33;
    frame[17] = t->flags | 0x100;
    frame[18] = t->regs[RSP];
    frame[19] = USER_DS;
    t->step.on = true;
    native_gs(t);
    rt_native(t, frame);
}
