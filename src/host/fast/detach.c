/* SPDX-License-Identifier: MIT
 * The recording ends before the program: all threads of a process out of the runtime again. They rest
 * there where their state is exact, or wait in a system call [rt/leave.c]; stopped by ptrace, they give
 * back what was the program's, and go on in its own code. */
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "host/fast/collect.h"
#include "host/fast/hold.h"
#include "host/fast/limits.h"
#include "host/fast/own_calls.h"

enum { STOP_MS = 20, POLL_US = 100, BEGIN_US = 10000 };

struct leaver {
    struct cofi__fast_collector *c;
    struct cofi__fast_held h;
    struct user_regs_struct *regs; /* of each thread, as it stood when all were at rest */
};

static bool is_in_slot(const struct cofi__fast_collector *c, uint32_t i, pid_t tid)
{
    const struct cofi__fast_seat *seat = &c->seats[i];
    return seat->placed && seat->tid == tid && cofi__fast_slot(c, i)->head.state == COFI__FAST_SLOT_LIVE;
}

static struct thread *thread_of(const struct cofi__fast_collector *c, struct cofi__fast_tracee *thread,
                                uint64_t *address)
{
    uint32_t n = cofi__fast_slots(c), i = thread->slot; /* they may become more any moment */
    if (!is_in_slot(c, i, thread->tid))
        for (i = 0; i < n && !is_in_slot(c, i, thread->tid); i++)
            ;
    if (i == n)
        return NULL;
    thread->slot = i;
    *address = cofi__fast_slot_address(&c->made, i);
    return cofi__fast_slot(c, i);
}

static void place_all(struct cofi__fast_collector *c)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (cofi__fast_slot(c, i)->head.state == COFI__FAST_SLOT_LIVE)
            cofi__fast_place(c, i);
}

/* Whether the process has our runtime: not, when it has executed another program. */
static bool has_runtime(const struct cofi__fast_collector *c, pid_t pid)
{
    uint64_t at = COFI__FAST_SHARED_BASE, theirs[2] = {0};
    struct iovec to = {theirs, sizeof theirs}, from = {(void *)at, sizeof theirs};
    return process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof theirs && !memcmp(theirs, c->control, sizeof theirs);
}

/* A signal of ours that has not reached the thread yet must not reach the program. */
static bool is_asked(pid_t tid)
{
    struct __ptrace_peeksiginfo_args args = {.nr = 1};
    siginfo_t info;
    for (; ptrace(PTRACE_PEEKSIGINFO, tid, &args, &info) == 1; args.off++)
        if (info.si_signo == SIGTRAP && info.si_code == COFI__FAST_SI_HALT)
            return true;
    return false;
}

/* Whether a thread that is stopped can be taken out as it is. */
static bool is_at_rest(const struct leaver *l, struct cofi__fast_tracee *thread, struct user_regs_struct *regs)
{
    uint64_t address = 0;
    const struct thread *t = thread_of(l->c, thread, &address);
    if (!t || ptrace(PTRACE_GETREGS, thread->tid, 0, regs) || t->signal.has || t->safepoint || is_asked(thread->tid))
        return false;
    bool in_handler = regs->rsp - (address + COFI__FAST_SLOT_STACK) >= COFI__FAST_STACK_BYTES;
    return (t->attach.parked && !in_handler) ||
           (t->paused && regs->rip == l->c->control->call_end && cofi__fast_call_of(regs) != CALL_NONE);
}

/* Let a thread go on to its rest: out of translated code by our signal. In the runtime it looks by
 * itself whether it is to rest. */
static void nudge(const struct leaver *l, struct cofi__fast_tracee *thread, uint64_t rip)
{
    uint64_t address;
    pid_t tid = thread->tid;
    struct thread *t = thread_of(l->c, thread, &address);
    siginfo_t info = {.si_signo = SIGTRAP, .si_code = COFI__FAST_SI_HALT};
    if (t && rip - COFI__FAST_RUNTIME_BASE >= COFI__FAST_RUNTIME_BYTES && !is_asked(tid)) {
        info.si_addr = (void *)(uintptr_t)t->pid;
        __atomic_store_n(&t->asked, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_rt_tgsigqueueinfo, l->h.pid, tid, SIGTRAP, &info);
    }
    ptrace(PTRACE_CONT, tid, 0, 0);
}

/* Nudge who is not at rest, and stop it again. A thread that does not stop may wait for another one to go on
 * (a parent in vfork, for a child that waits for the cache's lock). Returns how many were not at rest. */
static size_t round_of_nudges(struct leaver *l)
{
    size_t busy = 0;
    for (size_t i = 0; i < l->h.n; i++) {
        struct cofi__fast_tracee *thread = &l->h.threads[i];
        if (thread->stopped && is_at_rest(l, thread, &l->regs[i]))
            continue;
        busy++;
        if (thread->stopped)
            nudge(l, thread, l->regs[i].rip);
        thread->stopped = false;
    }
    if (busy) {
        cofi__fast_let_run(&l->h, 1 + (unsigned)(busy / 8));
        cofi__fast_stop_all(&l->h, STOP_MS);
    }
    return busy;
}

/* All threads at rest: 0, or with an error they are as they were, if somewhat later. COFI_ERR_NOT_FOUND:
 * there is nobody in the runtime. */
static int bring_to_rest(struct leaver *l)
{
    uint64_t end = cofi__fast_now_ns() + HOLD_PATIENCE_MS * UINT64_C(1000000);
    while (cofi__fast_now_ns() < end) {
        struct cofi_error error;
        int more = 0;
        do
            more = cofi__fast_hold_more(&l->h, STOP_MS, &error);
        while (more > 0);
        COFI_TRY(more);
        free(l->regs);
        l->regs = calloc(l->h.n + 1, sizeof *l->regs);
        if (!l->regs)
            return COFI_ERR_NOMEM;
        if (!l->h.n || !has_runtime(l->c, l->h.pid))
            return COFI_ERR_NOT_FOUND;
        place_all(l->c);
        if (!round_of_nudges(l))
            return 0;
    }
    return COFI_ERR_UNSUPPORTED;
}

/* The program's registers, of one at rest. */
static struct user_regs_struct native_regs(pid_t tid, const struct thread *t, const struct user_regs_struct *now)
{
    const uint64_t *r = t->regs;
    struct user_regs_struct g = *now;
    g.rbx = r[RBX], g.rcx = r[RCX], g.rdx = r[RDX], g.rsi = r[RSI], g.rdi = r[RDI], g.rbp = r[RBP], g.rsp = r[RSP];
    g.r8 = r[R8], g.r9 = r[R9], g.r10 = r[R10], g.r11 = r[R11], g.r12 = r[R12], g.r13 = r[R13], g.r14 = r[R14],
    g.r15 = r[R15];
    g.rip = t->pc;
    g.eflags = t->flags | 0x200;
    g.gs_base = t->gs.base;
    g.gs = t->gs.selector;
    if (t->attach.parked) {
        g.rax = r[RAX];
        g.orig_rax = (unsigned long long)-1;
        return g;
    }
    g.rip += 2; /* behind the system call, as the kernel leaves it */
    g.rcx = g.rip;
    g.r11 = g.eflags;
    if (cofi__fast_is_to_call_anew(tid, &g))
        cofi__fast_call_anew(&g);
    return g;
}

/* Let a thread give back what was the program's. */
static void set_out(struct thread *t, uint64_t address, pid_t tid, const struct user_regs_struct *now, bool first)
{
    uint64_t all = UINT64_MAX;
    struct user_regs_struct start = *now;
    t->attach.how = first ? LEAVES_FIRST : LEAVES;
    t->attach.left = 0;
    cofi__fast_enter(&start, address);
    ptrace(PTRACE_SETSIGMASK, tid, sizeof all, &all);
    ptrace(PTRACE_SETREGS, tid, 0, &start);
    ptrace(PTRACE_CONT, tid, 0, 0);
}

/* Until it has: there is no way back, and nothing that it would wait for. Where job control wants it
 * stopped meanwhile, it goes on all the same. False: it is gone. */
static bool wait_out(const struct thread *t, pid_t tid)
{
    enum cofi__fast_stop stop;
    int status;
    while (!__atomic_load_n(&t->attach.left, __ATOMIC_ACQUIRE)) {
        pid_t got = cofi__fast_take_status(tid, &status);
        if ((got == tid && !WIFSTOPPED(status)) || got < 0)
            return false;
        if (got == tid) /* SIGSTOP, the stop that it has made, or one more stop of ours */
            ptrace(PTRACE_CONT, tid, 0, (void *)(long)(status >> 16 ? 0 : WSTOPSIG(status)));
        usleep(POLL_US);
    }
    while ((stop = cofi__fast_stop(tid, HOLD_PATIENCE_MS)) == STOP_NOT)
        ;
    return stop != STOP_GONE;
}

/* Those from one to another, all at rest -> they stand in the program's own code. */
static void take_out_some(struct leaver *l, size_t from, size_t to)
{
    uint64_t address = 0;
    for (size_t i = from; i < to; i++) {
        pid_t tid = l->h.threads[i].tid;
        struct thread *t = thread_of(l->c, &l->h.threads[i], &address);
        struct user_regs_struct now = l->regs[i];
        l->regs[i] = native_regs(tid, t, &now);
        set_out(t, address, tid, &now, i == 0);
    }
    for (size_t i = from; i < to; i++) {
        pid_t tid = l->h.threads[i].tid;
        const struct thread *t = thread_of(l->c, &l->h.threads[i], &address);
        if (!wait_out(t, tid))
            continue;
        ptrace(PTRACE_SETREGS, tid, 0, &l->regs[i]);
        ptrace(PTRACE_SETSIGMASK, tid, sizeof t->mask, &t->mask);
    }
}

/* All of them. The first one gives back the actions, before any sends itself what is held for it: what
 * is ignored from then on, the kernel forgets. */
static void take_out(struct leaver *l)
{
    bool unmapped = false;
    take_out_some(l, 0, 1);
    take_out_some(l, 1, l->h.n);
    for (size_t i = 0; i < l->h.n && !unmapped; i++)
        unmapped = cofi__fast_unmap(l->h.threads[i].tid, l->c->shared_bytes) >= 0;
    if (unmapped)
        cofi__fast_limits_without_room(l->c->control, l->h.pid);
}

static void rest(struct cofi__fast_collector *c, uint64_t space)
{
    __atomic_store_n(&c->control->leaving, space, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &c->control->leaving, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

/* Whether two processes share the memory, as a child of vfork does with its parent until it executes something. */
static bool is_shared(const struct cofi__fast_collector *c, const struct thread *t)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        const struct thread *o = cofi__fast_slot(c, i);
        if (o->head.state == COFI__FAST_SLOT_LIVE && o->space == t->space && o->head.pid != t->head.pid &&
            has_runtime(c, c->seats[i].pid))
            return true;
    }
    return false;
}

/* Whether a thread has its system calls raise SIGSYS, but from some place: it would, where it waits to
 * be let go. Or is in seccomp's strict mode, of which the kernel does not know. */
static bool is_confined(const struct cofi__fast_collector *c, const struct thread *t)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        const struct thread *o = cofi__fast_slot(c, i);
        if (o->head.state == COFI__FAST_SLOT_LIVE && o->space == t->space && (o->dispatch.on || o->strict))
            return true;
    }
    return false;
}

/* A child that shares its parent's memory executes another program or ends, soon. */
static bool wait_for_exec(const struct cofi__fast_collector *c, pid_t pid)
{
    uint64_t end = cofi__fast_now_ns() + HOLD_PATIENCE_MS * UINT64_C(1000000);
    while (has_runtime(c, pid) && cofi__fast_now_ns() < end)
        usleep(POLL_US);
    return !has_runtime(c, pid);
}

/* Whether all threads may make the calls that it takes. Filters that were installed in the runtime let them pass. */
static bool may_leave(struct leaver *l)
{
    struct cofi__fast_filters last = {0};
    uint64_t address;
    int status = 0;
    for (size_t i = 0; i < l->h.n && status >= 0; i++)
        if (thread_of(l->c, &l->h.threads[i], &address)->filtered)
            status = cofi__fast_filters_let_too(l->h.threads[i].tid, OWN_RUNTIME, &last, NULL);
    cofi__fast_free_filters(&last);
    return status >= 0;
}

static bool is_to_restart(const struct cofi__fast_collector *c, uint64_t space)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        const struct thread *t = cofi__fast_slot(c, i);
        uint32_t state = __atomic_load_n(&t->head.state, __ATOMIC_ACQUIRE);
        bool lives = state == COFI__FAST_SLOT_TAKEN || (state == COFI__FAST_SLOT_LIVE && t->space == space);
        if (lives && __atomic_load_n(&t->attach.restart, __ATOMIC_ACQUIRE) == RESTART_BLOCK)
            return true;
    }
    return false;
}

/* Who was attached to in a wait of some time goes on with it first: the kernel keeps but one such wait of a
 * thread, and one of the runtime's own (for its lock, say) in which it was stopped would take that place. */
static void wait_for_restarts(const struct cofi__fast_collector *c, uint64_t space)
{
    uint64_t end = cofi__fast_now_ns() + HOLD_PATIENCE_MS * UINT64_C(1000000);
    while (is_to_restart(c, space) && cofi__fast_now_ns() < end)
        usleep(POLL_US);
}

/* Threads that wait to be told so: they come to rest by themselves. */
static void answer_who_asked(struct cofi__fast_collector *c, pid_t pid)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++) {
        struct thread *t = cofi__fast_slot(c, i);
        if (!t->head.leaves || c->seats[i].pid != pid)
            continue;
        t->head.leaves = 0;
        cofi__fast_answer(t, 1);
    }
}

/* A process out of the runtime; false: it stays in it. If job control has stopped it, the kernel does so
 * again when it is let go, but for a SIGCONT that has come. */
static bool detach(struct cofi__fast_collector *c, pid_t pid, const struct thread *t)
{
    struct leaver l = {.c = c, .h = {.pid = pid}};
    if (t->head.vfork)
        return wait_for_exec(c, pid);
    wait_for_restarts(c, t->space);
    rest(c, t->space);
    answer_who_asked(c, pid);
    int status = bring_to_rest(&l);
    if (status >= 0 && (is_shared(c, t) || is_confined(c, t) || !may_leave(&l)))
        status = COFI_ERR_UNSUPPORTED;
    if (status >= 0)
        take_out(&l);
    for (size_t i = 0; i < l.h.n; i++)
        if (status >= 0)
            cofi__fast_go_on(l.h.threads[i].tid);
        else
            cofi__fast_leave_thread(l.h.threads[i].tid);
    rest(c, 0);
    free(l.h.threads);
    free(l.regs);
    return status >= 0 || status == COFI_ERR_NOT_FOUND;
}

/* One process that has not been tried yet; false: there is none. */
static bool detach_one(struct cofi__fast_collector *c, unsigned *stay)
{
    uint32_t n = cofi__fast_slots(c), i = 0;
    place_all(c);
    while (i < n && (c->seats[i].stays || cofi__fast_slot(c, i)->head.state != COFI__FAST_SLOT_LIVE))
        i++;
    if (i == n)
        return false;
    cofi__fast_place(c, i); /* it may have begun just now */
    int32_t pid = c->seats[i].pid;
    bool out = detach(c, pid, cofi__fast_slot(c, i));
    for (i = 0; i < cofi__fast_slots(c); i++) {
        if (c->seats[i].pid != pid || cofi__fast_slot(c, i)->head.state != COFI__FAST_SLOT_LIVE)
            continue;
        c->seats[i].stays = !out;
        *stay += !out;
        if (out)
            cofi__fast_vacate(c, i); /* a child of another process may have it next, and is to be found in it */
    }
    return true;
}

/* Its trace ends there. */
static void let_out(struct cofi__fast_collector *c, uint32_t index)
{
    int32_t pid = c->seats[index].pid;
    bool alien = c->seats[index].alien;
    if (!detach(c, pid, cofi__fast_slot(c, index)))
        return;
    cofi__fast_end_process(c, pid);
    c->result->let_out += !alien;
}

void cofi__fast_let_out(struct cofi__fast_collector *c)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (c->seats[i].known && __atomic_load_n(&cofi__fast_slot(c, i)->head.leaves, __ATOMIC_ACQUIRE))
            let_out(c, i);
}

static bool is_any_begun(const struct cofi__fast_collector *c)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (cofi__fast_slot(c, i)->head.state == COFI__FAST_SLOT_TAKEN)
            return true;
    return false;
}

unsigned cofi__fast_detach(struct cofi__fast_collector *c)
{
    unsigned stay = 0;
    c->control->stopped = 1;
    for (unsigned waits = 0; waits < 100;) {
        if (detach_one(c, &stay))
            continue;
        if (!is_any_begun(c))
            break;
        usleep(BEGIN_US); /* a child is on its way */
        waits++;
    }
    return stay;
}
