/* SPDX-License-Identifier: MIT
 * Signals as the guest asked for them: actions, masks, frames, sigreturn. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "host/fast/rt/signals.h"

#define SA_RESTORER_FLAG 0x04000000ul
/* What sigreturn takes from a frame: AC, RF, OF, DF, TF, SF, ZF, AF, PF, CF; not NT and ID [linux, FIX_EFLAGS]. */
#define FLAGS_OF_FRAME 0x50dd5ul

static struct sighand first_sighand;

static bool is_sync(int signo)
{
    return SYNC_SIGNALS >> (signo - 1) & 1;
}

/* Whether the default action ends the process. */
static bool is_fatal(int signo)
{
    const uint64_t others = 1ul << (SIGCHLD - 1) | 1ul << (SIGURG - 1) | 1ul << (SIGWINCH - 1) | 1ul << (SIGCONT - 1) |
                            1ul << (SIGSTOP - 1) | 1ul << (SIGTSTP - 1) | 1ul << (SIGTTIN - 1) | 1ul << (SIGTTOU - 1);
    return !(others >> (signo - 1) & 1);
}

/* Whether it comes to us, whatever the guest wants: faults do, and what ends the process, so that all of
 * its threads have told what they ran. */
static bool comes_anyway(int signo, const struct ksigaction *guest)
{
    return is_sync(signo) || (!guest->handler && is_fatal(signo));
}

/* Flags that every kernel knows. */
static const uint64_t known_flags = SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |
                                    SA_RESETHAND | SA_RESTORER_FLAG;

/* Whether the kernel's action is our handler. */
static bool is_ours(int signo, const struct ksigaction *guest)
{
    return guest->handler > 1 || comes_anyway(signo, guest);
}

/* The kernel's action for what the guest wants. Handlers become ours. */
static void set_action(int signo, const struct ksigaction *guest)
{
    struct ksigaction a = *guest;
    if (is_ours(signo, guest)) {
        uint64_t keep = SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT | ~known_flags;
        uint64_t again = guest->handler > 1 ? 0 : SA_RESTART; /* what the guest ignores, or has no
                                                               * handler for, ends no call */
        a.flags = (a.flags & keep) | again | SA_SIGINFO | SA_ONSTACK | SA_RESTORER_FLAG;
        a.handler = (uint64_t)rt_handler;
        a.restorer = (uint64_t)rt_restorer;
        a.mask = ~0ul;
    }
    sys(SYS_rt_sigaction, (uint64_t)signo, (uint64_t)&a, 0, 8, 0, 0);
}

/* The kernel's own default action, for a signal that ends the program. */
static void set_default(int signo)
{
    struct ksigaction a = {0};
    sys(SYS_rt_sigaction, (uint64_t)signo, (uint64_t)&a, 0, 8, 0, 0);
}

static uint64_t blockable(uint64_t mask)
{
    return mask & ~(1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1));
}

/* The guest's mask is in force, or, while a signal waits to be delivered, one of all: one more would
 * wait again, behind those of its number that were sent later. Signals of faults come before others, as
 * from the kernel, so for one that is held, too. */
static uint64_t kernel_mask(const struct thread *t)
{
    bool waits = t->signal.has || held_set(t) & ~t->mask;
    return (waits ? ~0ul : t->mask) & ~SYNC_SIGNALS;
}

void signals_set_mask(const struct thread *t)
{
    uint64_t m = kernel_mask(t);
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&m, 0, 8, 0, 0);
}

uint64_t signals_block_all(void)
{
    uint64_t m = ~SYNC_SIGNALS, old = 0;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&m, (uint64_t)&old, 8, 0, 0);
    return old;
}

/* The program's actions become ours. */
static void take_actions(const struct thread *t)
{
    for (int i = 1; i <= 64; i++)
        if (t->program.knows_ignored)
            first_sighand.actions[i].handler = t->program.ignored >> (i - 1) & 1;
        else if (i != SIGKILL && i != SIGSTOP)
            sys(SYS_rt_sigaction, (uint64_t)i, 0, (uint64_t)&first_sighand.actions[i], 8, 0, 0);
    for (int i = 1; i <= 64; i++)
        if (i != SIGKILL && is_ours(i, &first_sighand.actions[i]))
            set_action(i, &first_sighand.actions[i]);
}

/* … and the program's again. What is ignored is so already: told again, the kernel would forget what is
 * pending of it. */
void signals_give_back_actions(const struct thread *t)
{
    for (int i = 1; i <= 64; i++)
        if (i != SIGKILL && i != SIGSTOP && is_ours(i, &t->sighand->actions[i]))
            sys(SYS_rt_sigaction, (uint64_t)i, (uint64_t)&t->sighand->actions[i], 0, 8, 0, 0);
}

/* The first of what is held of a set waits in the kernel instead. False: there is none. */
static bool send_first(struct thread *t, uint64_t set)
{
    struct ksiginfo info;
    int signo = held_take(t, set, &info);
    if (signo)
        sys(SYS_rt_tgsigqueueinfo, (uint64_t)t->pid, (uint64_t)t->tid, (uint64_t)signo, (uint64_t)&info, 0, 0);
    return signo;
}

static void send_held(struct thread *t, uint64_t set)
{
    while (send_first(t, set))
        ;
}

/* What is held for all threads of the process waits for all of them again. Of a kill, only the first
 * thread may say so [rt_sigqueueinfo(2)]. */
static void send_shared(struct thread *t)
{
    struct ksiginfo info;
    for (int signo; (signo = held_take_shared(t, &info)) != 0;)
        if (t->filtered || sys(SYS_rt_sigqueueinfo, (uint64_t)t->pid, (uint64_t)signo, (uint64_t)&info, 0, 0, 0) < 0)
            sys(SYS_rt_tgsigqueueinfo, (uint64_t)t->pid, (uint64_t)t->tid, (uint64_t)signo, (uint64_t)&info, 0, 0);
}

/* What the kernel is to know of a thread that leaves: its alternate stack, and the signals that are held
 * for it, which wait in the kernel then. */
void signals_give_back(struct thread *t)
{
    struct kstack s = t->altstack;
    s.flags = s.size ? s.flags : SS_DISABLE;
    sys(SYS_sigaltstack, (uint64_t)&s, 0, 0, 0, 0, 0);
    if (t->attach.how == LEAVES_FIRST)
        send_shared(t);
    send_held(t, ~0ul);
}

/* The thread was stopped in a system call, which it is about to make again, and a handler is to run
 * first: some calls return then [signal(7)]. */
static void break_off(struct thread *t)
{
    const struct ksigaction *a = &t->sighand->actions[t->signal.info.signo];
    bool again = !t->attach.restart || t->attach.restart == RESTARTNOINTR ||
                 (t->attach.restart == RESTARTSYS && a->flags & SA_RESTART);
    if (again || !t->signal.has || a->handler <= 1)
        return;
    t->regs[RAX] = (uint64_t)-EINTR;
    t->pc += 2;
}

/* c is about to be made, and has t's actions. Those of a child with its own memory are a copy already,
 * unless they lie in t's slot. */
void signals_copy(const struct thread *t, struct thread *c, bool shares_memory)
{
    struct sighand *own = (struct sighand *)((uint64_t)c + SLOT_SIGHAND);
    if (!shares_memory && t->sighand == &first_sighand)
        return;
    *own = *t->sighand;
    c->sighand = own;
}

/* The first thread of a process with its own memory, which lives on when the thread's slot is another's. */
void signals_forked(struct thread *t)
{
    held_forked();
    if (t->sighand == &first_sighand)
        return;
    first_sighand = *t->sighand;
    t->sighand = &first_sighand;
}

/* A thread begins in the runtime: its alternate stack becomes ours, its signals come to us from now on. */
void signals_init(struct thread *t)
{
    t->sighand = &first_sighand;
    if (!t->attach.how)
        sys(SYS_rt_sigprocmask, SIG_SETMASK, 0, (uint64_t)&t->mask, 8, 0, 0);
    sys(SYS_sigaltstack, 0, (uint64_t)&t->altstack, 0, 0, 0, 0);
    if (!t->altstack.size && t->attach.how != ATTACHED_JOINS)
        t->altstack.flags = 0; /* as the first thread of a program has it, though the call does not say so */
    signals_own_stack(t);
    if (t->attach.how != ATTACHED_JOINS)
        take_actions(t);
    signals_set_mask(t);
    break_off(t);
}

/* Those of the flags that the kernel has kept, by which programs find out which it knows
 * (SA_UNSUPPORTED) [sigaction(2)]. */
static uint64_t flags_kept(int signo, uint64_t flags)
{
    struct ksigaction now = {0};
    if (!(flags & ~known_flags))
        return flags;
    sys(SYS_rt_sigaction, (uint64_t)signo, 0, (uint64_t)&now, 8, 0, 0);
    return flags & (known_flags | now.flags);
}

long do_sigaction(struct thread *t)
{
    int signo = (int)t->regs[RDI];
    struct ksigaction in, old;
    if (t->regs[R10] != 8)
        return -22;
    if (t->regs[RSI] && rt_probe(&in, (void *)t->regs[RSI], sizeof in))
        return -14;
    if (signo < 1 || signo > 64 || ((signo == SIGKILL || signo == SIGSTOP) && t->regs[RSI]))
        return -22;
    rt_lock();
    old = t->sighand->actions[signo];
    if (t->regs[RSI]) {
        in.mask = blockable(in.mask);
        set_action(signo, &in);
        in.flags = flags_kept(signo, in.flags);
        t->sighand->actions[signo] = in;
        if (in.handler == 1)
            held_drop(t, signo); /* as the kernel forgets what is pending */
    }
    rt_unlock();
    return t->regs[RDX] && rt_probe((void *)t->regs[RDX], &old, sizeof old) ? -14 : 0;
}

/* Whether a signal of the set waits to be delivered. */
static bool came_before(const struct thread *t, uint64_t set)
{
    return t->signal.has &&
           (set >> (t->signal.info.signo - 1) & 1 || (t->signal.has_second && set >> (t->signal.second.signo - 1) & 1));
}

long do_sigprocmask(struct thread *t)
{
    uint64_t set, old = t->mask, now = old;
    if (t->regs[R10] != 8)
        return -22;
    if (t->regs[RSI]) {
        if (rt_probe(&set, (void *)t->regs[RSI], 8))
            return -14;
        set = blockable(set);
        switch ((int)t->regs[RDI]) {
        case SIG_BLOCK: now = old | set; break;
        case SIG_UNBLOCK: now = old & ~set; break;
        case SIG_SETMASK: now = set; break;
        default: return -22;
        }
    }
    t->mask = now;
    signals_set_mask(t);
    if (came_before(t, now & ~old)) { /* it is delivered before the call, as to where it came: nothing
                                       * holds it for others */
        t->mask = old;
        return SYS_PENDING;
    }
    return t->regs[RDX] && rt_probe((void *)t->regs[RDX], &old, 8) ? -14 : 0;
}

/* What a far transfer or a sigreturn leads to. */
void must_be_64_bit(uint16_t cs, uint64_t pc)
{
    if (cs != 0x33)
        rt_die("the program goes to 32-bit code, which only --host=step records, at", pc);
}

/* Calls that wait with another mask: the register that points to it, or to where its address is. */
static const struct waiting {
    uint16_t nr;
    uint8_t reg;
    bool inside;
} waiting[] = {
    {SYS_rt_sigsuspend, RDI, false},
    {SYS_ppoll, R10, false},
    {SYS_epoll_pwait, R8, false},
    {SYS_epoll_pwait2, R8, false},
    {SYS_pselect6, R9, true},
    {SYS_io_pgetevents, R9, true},
    {SYS_io_uring_enter, R8, false},
};

static uint64_t mask_address(const struct thread *t, const struct waiting *w)
{
    enum { ENTER_EXT_ARG = 8 };
    uint64_t at = t->regs[w->reg], inside[2];
    if (!(w->inside || (w->nr == SYS_io_uring_enter && t->regs[R10] & ENTER_EXT_ARG)) || !at)
        return at;
    return rt_probe(inside, (void *)at, sizeof inside) ? 0 : inside[0];
}

/* Mask at the time of delivery: a call that waits with another mask has that one in force. */
uint64_t signals_mask_now(const struct thread *t)
{
    uint64_t at = 0, m = t->mask;
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        if (t->sysno == waiting[i].nr)
            at = mask_address(t, &waiting[i]);
    if (at)
        rt_probe(&m, (void *)at, 8);
    return blockable(m);
}

/* Signals that are held, but that the mask of the call lets in, are pending in the kernel while it lasts, which
 * tells what comes first. A SIGTRAP may stand there in the place of ours, and is taken for it, too [halt_asked]. */
bool signals_offer(struct thread *t)
{
    uint64_t open = held_set(t) ? held_set(t) & t->mask & ~signals_mask_now(t) : 0, all = ~0ul;
    if (!open)
        return false;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, 0, 8, 0, 0);
    for (int i = 1; i < 32; i++) /* one of a number: the kernel would lose a second one, which was sent
                                  * to the process */
        if (open >> (i - 1) & 1)
            send_first(t, 1ul << (i - 1));
    return true;
}

enum { MOST_XSTATE = 16 << 10 }; /* AMX's is 11 KB */

/* Touch the guest's stack where the frame goes: false when it is not there. */
static bool writable(uint64_t from, uint64_t to)
{
    for (uint64_t a = from; a < to; a = (a | 4095) + 1)
        if (rt_probe((void *)a, (void *)a, 1))
            return false;
    return !rt_probe((void *)(to - 1), (void *)(to - 1), 1);
}

enum { RED_ZONE = 128 };

/* Whether the frame is the first on the alternate stack. The kernel looks below the red zone. */
static bool enters_altstack(const struct thread *t, const struct ksigaction *a)
{
    return a->flags & SA_ONSTACK && t->altstack.size && !on_altstack(t, t->regs[RSP] - RED_ZONE);
}

static uint64_t frame_place(struct thread *t, const struct ksigaction *a)
{
    uint64_t sp = enters_altstack(t, a) ? t->altstack.sp + t->altstack.size : t->regs[RSP] - RED_ZONE;
    return (sp - frame_xstate_bytes(t)) & ~63ul;
}

/* Whether the default of the signal leaves a core. */
static bool leaves_core(int signo)
{
    return is_sync(signo) || signo == SIGQUIT || signo == SIGABRT || signo == SIGXCPU || signo == SIGXFSZ ||
           signo == SIGSYS;
}

/* Whether the signal ends the process as soon as it is sent, as the kernel has it: one that leaves a
 * core does so where it is delivered. */
bool signals_ends_all(const struct thread *t, int signo)
{
    return !t->sighand->actions[signo].handler && is_fatal(signo) && !leaves_core(signo);
}

/* End the program by a signal that waits until the thread has the program's registers again, for a core
 * is to show those. A first process of a PID namespace is not ended so; where this returns, nothing has
 * been done. A tracer that takes the signal away lets it go on natively. */
static void die_with_registers(struct thread *t, int signo)
{
    _Alignas(64) uint8_t fpu[MOST_XSTATE];
    struct kframe f;
    frame_know(t);
    if (t->pid == 1 || !leaves_core(signo) || !t->xstate.size || frame_xstate_bytes(t) > sizeof fpu)
        return;
    uint64_t all = ~0ul;
    frame_build(t, &(struct ksigaction){0}, &f, (uint64_t)fpu);
    f.uc.mask = ~(1ul << (signo - 1));
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, 0, 8, 0, 0);
    sys(SYS_tgkill, (uint64_t)t->pid, (uint64_t)t->tid, (uint64_t)signo, 0, 0, 0);
    native_gs(t);
    rt_sigreturn(&f.uc);
}

/* End the program as the kernel would for this signal: by the same fault, if it comes again, or by
 * sending the signal. */
static void die_of(struct thread *t, int signo)
{
    halt_others(t);
    set_default(signo);
    t->signal.has = false;
    if (t->signal.sync && !t->signal.once) {
        t->pc = t->fault.pc;
        native_step(t);
    }
    die_with_registers(t, signo);
    uint64_t others = ~SYNC_SIGNALS & ~(1ul << (signo - 1)); /* one that waits would come first, and block this one */
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&others, 0, 8, 0, 0);
    long r = sys(SYS_tgkill, (uint64_t)t->pid, (uint64_t)t->tid, (uint64_t)signo, 0, 0, 0);
    if (r < 0 && !t->filtered) /* RLIMIT_SIGPENDING is for real-time signals, but not of kill */
        sys(SYS_kill, (uint64_t)t->pid, (uint64_t)signo, 0, 0, 0, 0);
}

/* … whatever the guest has for it. */
void signals_end(struct thread *t, int signo)
{
    t->signal.sync = false;
    die_of(t, signo);
}

static void enter_handler(struct thread *t, const struct ksigaction *a, struct kframe *f, int signo)
{
    uint64_t waited = signals_mask_now(t);
    uint64_t mask = waited >> (signo - 1) & 1 ? t->mask : waited; /* a stop may have ended the call: then
                                                                   * its mask is gone */
    t->regs[RSP] = (uint64_t)f;
    t->regs[RDI] = (uint64_t)signo;
    t->regs[RSI] = (uint64_t)&f->info;
    t->regs[RDX] = (uint64_t)&f->uc;
    t->regs[RAX] = 0;
    t->flags &= ~(FLAG_TF | 0x400ul | 0x10000ul);
    t->pc = a->handler;
    uint64_t block = a->mask | (a->flags & SA_NODEFER ? 0 : 1ul << (signo - 1));
    t->mask = mask | block;
    if (t->altstack.flags & (int)SS_AUTODISARM_FLAG)
        t->altstack = (struct kstack){.flags = SS_DISABLE};
}

/* The signal's action; a one-shot handler is taken. False: the default action, or a fault that is blocked. */
static bool take_action(struct thread *t, int signo, struct ksigaction *a)
{
    rt_lock();
    *a = t->sighand->actions[signo];
    bool blocked = t->signal.sync && signals_mask_now(t) >> (signo - 1) & 1;
    bool handler = a->handler > 1 && !blocked;
    if (handler && a->flags & SA_RESETHAND) {
        t->sighand->actions[signo].handler = 0;
        set_action(signo, &t->sighand->actions[signo]);
    }
    rt_unlock();
    return handler;
}

static void delivered(struct thread *t)
{
    t->signal.has = t->signal.has_second;
    t->signal.sync = t->signal.once = false;
    if (t->signal.has_second)
        t->signal.info = t->signal.second;
    t->signal.has_second = false;
    t->sysno = ~0ul;
    signals_set_mask(t);
}

/* No room for the frame: SIGSEGV instead, on the alternate stack if there is one [as the kernel does]. */
static void no_frame(struct thread *t, int signo)
{
    if (signo == SIGSEGV || t->sighand->actions[SIGSEGV].handler <= 1) {
        t->signal.sync = false;
        die_of(t, SIGSEGV);
        return;
    }
    t->signal.info = (struct ksiginfo){.signo = SIGSEGV, .code = SI_KERNEL};
    t->signal.sync = t->signal.once = true; /* what is at pc does not raise it */
    t->fault.pc = t->pc;
}

/* A fault at t->pc that the kernel does not raise. */
void signals_raise(struct thread *t, const struct ksiginfo *info)
{
    signals_block_all();
    t->signal.has_second = __atomic_exchange_n(&t->signal.has, true, __ATOMIC_SEQ_CST);
    if (t->signal.has_second)
        t->signal.second = t->signal.info;
    t->signal.info = *info;
    t->signal.sync = t->signal.once = true;
    t->fault.pc = t->pc;
}

/* A signal has come that cannot be delivered yet: it is pending. */
void signals_put_back(struct thread *t, const struct ksiginfo *info)
{
    int signo = info->signo;
    if (!is_sync(signo)) {
        sys(SYS_rt_tgsigqueueinfo, (uint64_t)t->pid, (uint64_t)t->tid, (uint64_t)signo, (uint64_t)info, 0, 0);
    } else {
        held_put(t, info);
    }
}

/* Whether a held signal is to be delivered now. */
bool signals_release(struct thread *t)
{
    if (t->signal.has || !(held_set(t) & ~t->mask))
        return false;
    signals_block_all(); /* until it is delivered; those of faults come all the same */
    if (__atomic_exchange_n(&t->signal.has, true, __ATOMIC_SEQ_CST))
        return true;
    if (held_take(t, ~t->mask, &t->signal.info)) {
        t->signal.sync = false;
        return true;
    }
    t->signal.has = false; /* another thread has taken it */
    signals_set_mask(t);
    return false;
}

long do_sigpending(struct thread *t)
{
    uint64_t set;
    void *at = (void *)t->regs[RDI];
    if (rt_guest_syscall(t))
        return SYS_PENDING;
    if (t->regs[RAX] || !held_set(t) || rt_probe(&set, at, 8))
        return (long)t->regs[RAX];
    set |= held_set(t);
    return rt_probe(at, &set, 8) ? -14 : 0;
}

/* Whether the kernel would look for a signal of the set that sigtimedwait is given, and not refuse what
 * else it is given. */
static bool would_wait(const struct thread *t, uint64_t *set)
{
    struct timespec limit = {0, 0};
    bool readable = t->regs[R10] == 8 && !rt_probe(set, (void *)t->regs[RDI], 8) &&
                    (!t->regs[RDX] || !rt_probe(&limit, (void *)t->regs[RDX], sizeof limit));
    return readable && limit.tv_sec >= 0 && limit.tv_nsec >= 0 && limit.tv_nsec < 1000000000;
}

long do_sigtimedwait(struct thread *t)
{
    uint64_t set;
    struct ksiginfo info;
    int signo = held_set(t) && would_wait(t, &set) ? held_take(t, set, &info) : 0;
    if (signo)
        return t->regs[RSI] && rt_probe((void *)t->regs[RSI], &info, sizeof info) ? -14 : signo;
    if (rt_guest_syscall(t))
        return SYS_PENDING;
    signo = (int)t->regs[RAX];
    if (signo > 0 && is_sync(signo) && t->regs[RSI] && !rt_probe(&info, (void *)t->regs[RSI], sizeof info)) {
        held_as_sent(&info);
        rt_probe((void *)t->regs[RSI], &info, sizeof info);
    }
    return (long)t->regs[RAX];
}

/* Whether a frame at this place, which was to lie on the alternate stack, is below it. */
static bool leaves_altstack(const struct thread *t, const struct ksigaction *a, uint64_t frame)
{
    return (enters_altstack(t, a) || on_altstack(t, t->regs[RSP])) && !in_altstack(t, frame);
}

/* Deliver t->signal.info as of the guest's state in t. */
void signals_deliver(struct thread *t)
{
    int signo = t->signal.info.signo;
    struct ksigaction a;
    bool sync = t->signal.sync;
    if (!sync && t->mask >> (signo - 1) & 1 && signals_mask_now(t) >> (signo - 1) & 1) {
        signals_put_back(t, &t->signal.info); /* the guest blocks it */
        delivered(t);
        return;
    }
    bool handler = take_action(t, signo, &a);
    if (!handler && a.handler == 1 && !sync) {
        delivered(t);
        return;
    }
    trace_pause(t, COFI__FAST_EVENT, sync ? t->fault.pc : t->pc);
    if (!handler) {
        die_of(t, signo);
        delivered(t);
        return;
    }
    frame_know(t);
    uint64_t fpu = frame_place(t, &a);
    struct kframe *f = (struct kframe *)(((fpu - sizeof *f) & ~15ul) - 8);
    /* the kernel takes no handler that cannot return */
    bool room = a.flags & SA_RESTORER_FLAG && !leaves_altstack(t, &a, (uint64_t)f);
    if (!room || !writable((uint64_t)f, fpu + frame_xstate_bytes(t))) {
        no_frame(t, signo);
        return;
    }
    frame_build(t, &a, f, fpu);
    enter_handler(t, &a, f, signo);
    delivered(t);
    trace_resume(t);
}

/* The rights of a selector's segment, as LAR tells them; 0: there is none. */
static uint32_t segment_rights(uint16_t selector)
{
    uint32_t rights = 0;
    bool valid;
    __asm__("lar %2, %0" : "+r"(rights), "=@ccz"(valid) : "r"((uint32_t)selector));
    return valid ? rights : 0;
}

/* The selector in a frame that the kernel's IRET faults for; 0: none. The flag of the frame says that
 * the kernel is not to mend SS. */
static uint16_t spoiled_selector(const struct kucontext *uc)
{
    /* a segment that is executed; the user's, written */
    enum { IS_CODE = 0x1800, IS_STACK = 0xf200, STACK_RIGHTS = 0xfa00, STRICT_SS = 4 };
    uint16_t cs = uc->mc.cs | 3, ss = uc->mc.ss | 3;
    if ((segment_rights(cs) & IS_CODE) != IS_CODE)
        return cs;
    return uc->flags & STRICT_SS && (segment_rights(ss) & STACK_RIGHTS) != IS_STACK ? ss : 0;
}

/* rt_sigreturn of the guest: its frame lies at RSP. Comes back through rt_restart, or where there is no
 * frame or a signal comes first. */
void do_sigreturn(struct thread *t)
{
    struct kframe f;
    if (rt_probe(&f.uc, (void *)t->regs[RSP], sizeof f.uc)) {
        call_done(t, 0);
        signals_raise(t, &(struct ksiginfo){.signo = SIGSEGV, .code = SI_KERNEL});
        return;
    }
    signals_block_all();
    if (came_before(t, f.uc.mask & ~t->mask)) /* it is delivered before, as to where it came */
        return;
    uint64_t kept = t->flags & ~FLAGS_OF_FRAME;
    regs_from_context(t, &f.uc.mc);
    t->flags = kept | (t->flags & FLAGS_OF_FRAME);
    t->regs[R11] = f.uc.mc.r11;
    uint16_t spoiled = spoiled_selector(&f.uc);
    t->pc = f.uc.mc.rip;
    t->mask = blockable(f.uc.mask);
    set_altstack(t, &f.uc.stack);
    if (spoiled) {
        signals_raise(t, &(struct ksiginfo){.signo = SIGSEGV, .code = SI_KERNEL});
        t->fault.trapno = TRAP_PROTECTION;
        t->fault.err = spoiled & ~3u;
        return;
    }
    must_be_64_bit(f.uc.mc.cs | 3, t->pc);
    t->miss_id = 2;
    trace_resume(t);
    struct kucontext *uc = &f.uc;
    uc->mc.rip = (uint64_t)rt_restart;
    uc->mc.rdi = (uint64_t)t;
    uc->mc.rsp = t->stack_top;
    uc->mc.eflags = 0x202;
    uc->mc.cs = 0x33;
    uc->mc.ss = 0x2b;
    uc->mask = kernel_mask(t);
    uc->stack = (struct kstack){(uint64_t)t + COFI__FAST_SLOT_ALT, 0, 0, COFI__FAST_STACK_BYTES};
    rt_sigreturn(uc);
}

/* Before an exec that nothing else runs beside, and behind one that failed: what is executed ignores the
 * faults that the guest ignores, and finds pending what is. */
void signals_hand_over(struct thread *t, bool before)
{
    for (int i = 1; i < 32; i++) { /* first, for the kernel forgets what is pending when it is told to ignore it */
        const struct ksigaction *a = &t->sighand->actions[i];
        if (is_sync(i) && a->handler == 1 && before)
            sys(SYS_rt_sigaction, (uint64_t)i, (uint64_t)a, 0, 8, 0, 0);
        else if (is_sync(i) && a->handler == 1)
            set_action(i, a);
    }
    if (before)
        send_held(t, ~0ul);
}

/* CLONE_CLEAR_SIGHAND: the kernel has taken all handlers away, ours too, and all flags and masks. */
void signals_cleared(struct thread *t)
{
    for (int i = 1; i <= 64; i++) {
        struct ksigaction *a = &t->sighand->actions[i];
        *a = (struct ksigaction){.handler = a->handler == 1};
        if (i != SIGKILL && i != SIGSTOP && comes_anyway(i, a))
            set_action(i, a);
    }
}
