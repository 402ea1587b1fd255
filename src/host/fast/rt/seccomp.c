/* SPDX-License-Identifier: MIT
 * Seccomp: the guest's filters hold for the guest's calls, not for the runtime's own. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host/fast/prefix.h"
#include "host/fast/rt/rt.h"

_Static_assert(COFI__FAST_RUNTIME_SYSCALL == 16 && COFI__FAST_RUNTIME_OWN_END == 0x50, "entry.S");

enum { FILTER_MAX = BPF_MAXINSNS };

/* Like the guest's struct sock_fprog. */
struct program {
    uint16_t n;
    uint64_t code;
};

static size_t put_prefix(struct sock_filter *out)
{
    const struct sock_filter prefix[] = COFI__FAST_PREFIX;
    memcpy(out, prefix, sizeof prefix);
    return ARRAY_LEN(prefix);
}

/* All signals but those of faults, and SIGSYS, which a filter raises in a call of the guest's: blocked,
 * it would end the program, as it does where the guest blocks it. */
uint64_t seccomp_block(const struct thread *t)
{
    uint64_t sigsys = 1ul << (SIGSYS - 1), mask = ~(SYNC_SIGNALS | (sigsys & ~t->mask)), old = 0;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&mask, (uint64_t)&old, 8, 0, 0);
    return old;
}

/* The guest's registers again as it left them. */
static void settle(struct thread *t)
{
    if (t->loan.reg)
        t->regs[t->loan.reg] = t->loan.value;
    t->loan.reg = 0;
}

/* The guest's call with another value in a register. No signal may come between, or the call would be done with that
 * value as far as the guest can see, but SIGSYS, which a filter raises: its handler puts the register right. */
long call_with(struct thread *t, unsigned reg, uint64_t value)
{
    uint64_t old = seccomp_block(t);
    t->loan.value = t->regs[reg];
    t->loan.reg = (uint8_t)reg;
    t->regs[reg] = value;
    long r = rt_guest_syscall(t) ? SYS_PENDING : (long)t->regs[RAX];
    settle(t);
    t->regs[RAX] = t->sysno;
    sys(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&old, 0, 8, 0, 0);
    return r;
}

/* A guest's filter, its program at RDX, with the prefix. What cannot be read the kernel is shown as
 * nothing, for what it looks at first, and refuses it for, is its business. No lock is held: another
 * thread may be asked, by a filter, whether the call passes. */
static long install(struct thread *t)
{
    struct sock_filter code[FILTER_MAX]; /* a quarter of the stack */
    struct program program;
    if (rt_probe(&program, (const void *)t->regs[RDX], sizeof program))
        return call_with(t, RDX, 0);
    size_t n = put_prefix(code);
    if (!program.n || program.n > FILTER_MAX - n)
        return -22;
    if (rt_probe(code + n, (const void *)program.code, program.n * sizeof code[0])) {
        program.code = program.code ? 1 : 0; /* nothing lies there; 0 is another error */
    } else {
        program.n = (uint16_t)(program.n + n);
        program.code = (uint64_t)code;
    }
    long r = call_with(t, RDX, (uint64_t)&program);
    rt.filtered |= r >= 0;
    return r;
}

/* prctl(PR_SET_SECCOMP, …) and seccomp(…); SYS_PASS: another of their uses. */
long do_seccomp(struct thread *t)
{
    bool old = t->sysno == SYS_prctl;
    if (old && (int)t->regs[RDI] != PR_SET_SECCOMP)
        return SYS_PASS;
    uint64_t mode = old ? t->regs[RSI] : (uint32_t)t->regs[RDI];
    if (mode == (old ? SECCOMP_MODE_STRICT : SECCOMP_SET_MODE_STRICT)) {
        if (rt.filtered && sys(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) > 0)
            return SYS_PASS; /* to be refused: there is no way from filters to this mode */
        if (!old && ((uint32_t)t->regs[RSI] || t->regs[RDX]))
            return -22;
        t->strict = true;
        return 0;
    }
    if (mode != (old ? SECCOMP_MODE_FILTER : SECCOMP_SET_MODE_FILTER))
        return SYS_PASS;
    return install(t);
}

/* The thread ends by SIGKILL, and no other thread: the kernel does that where it has the strict mode
 * itself, if there are no filters. */
static void end_alone(struct thread *t)
{
    uint64_t pid = (uint64_t)t->pid, tid = (uint64_t)t->tid;
    signals_block_all();
    targets_release_ending(t);
    thread_over(t);
    for (;;) {
        uint64_t nr = SYS_prctl;
        __asm__ volatile("syscall" : "+a"(nr) : "D"(PR_SET_SECCOMP), "S"(SECCOMP_MODE_STRICT) : "rcx", "r11", "memory");
        nr = SYS_tgkill;
        __asm__ volatile("syscall" : "+a"(nr) : "D"(pid), "S"(tid), "d"(SIGKILL) : "rcx", "r11", "memory");
    }
}

/* In the strict mode a thread reads, writes, ends and returns from handlers; all else ends it. By INT
 * 80h calls have other numbers. */
void seccomp_strict(struct thread *t, bool interrupt)
{
    static const uint8_t numbers[2][4] = {{SYS_read, SYS_write, SYS_exit, SYS_rt_sigreturn}, {3, 4, 1, 119}};
    for (unsigned i = 0; i < ARRAY_LEN(numbers[0]); i++)
        if ((uint32_t)t->regs[RAX] == numbers[interrupt][i])
            return;
    end_alone(t);
}

/* What the guest's filters say to a call that the runtime does itself: the kernel is asked with one argument that
 * makes it refuse. SYS_PASS: they let it pass. */
long seccomp_ask(struct thread *t)
{
    bool stack = t->sysno == SYS_sigaltstack;
    if (!rt.filtered)
        return SYS_PASS;
    /* No such address; no flags; no such size of a set. */
    long r = stack ? call_with(t, RDI, 1) : t->sysno == SYS_mlockall ? call_with(t, RDI, 0) : call_with(t, R10, 0);
    return r == (stack ? -EFAULT : -EINVAL) ? SYS_PASS : r;
}

/* Whether filters came with the thread: its program began with them, or it was attached to. */
bool seccomp_came(void)
{
    bool came = sys(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) > 0;
    rt.filtered |= came;
    return came;
}
