/* SPDX-License-Identifier: MIT
 * What a thread of the program forbids itself, so that it gets a signal instead: reading the TSC, and
 * system calls from elsewhere than some range (syscall user dispatch). The runtime does both itself, so
 * the kernel must not hear of it, but of the TSC for an exec, over which that stays. */
#include <linux/audit.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"
#include "x86/fast.h"

enum { SI_KERNEL_CODE = 0x80 };
enum { DISPATCH_OFF, DISPATCH_OUTSIDE, DISPATCH_INSIDE, SELECT_ALLOW = 0, SELECT_BLOCK = 1, DISPATCH_CODE = 2 };

static void set_tsc(uint64_t mode)
{
    sys(SYS_prctl, PR_SET_TSC, mode, 0, 0, 0, 0);
}

/* Whether the thread came with the TSC forbidden, which it is not from here on: before anything reads it. */
bool forbid_came(void)
{
    uint32_t mode = PR_TSC_ENABLE;
    sys(SYS_prctl, PR_GET_TSC, (uint64_t)&mode, 0, 0, 0, 0);
    if (mode == PR_TSC_SIGSEGV)
        set_tsc(PR_TSC_ENABLE);
    return mode == PR_TSC_SIGSEGV;
}

/* From here on all that is translated leaves to the runtime for RDTSC; what was made before is not come to again. */
void forbid_tsc(struct thread *t)
{
    t->no_tsc = true;
    rt_lock();
    if (!rt.stops_tsc) {
        rt.stops_tsc = true;
        cache_flush();
    }
    rt_unlock();
}

/* The kernel is to know, or not any more. The runtime cannot read the TSC in between. */
void forbid_lend(const struct thread *t, bool lend)
{
    if (t->no_tsc)
        set_tsc(lend ? PR_TSC_SIGSEGV : PR_TSC_ENABLE);
}

/* prctl(PR_SET_TSC, …): the kernel is asked with what it has already, for its filters' sake. */
long do_set_tsc(struct thread *t)
{
    uint32_t mode = (uint32_t)t->regs[RSI];
    if (mode != PR_TSC_ENABLE && mode != PR_TSC_SIGSEGV)
        return SYS_PASS;
    long r = call_with(t, RSI, PR_TSC_ENABLE);
    if (!r && mode == PR_TSC_SIGSEGV)
        forbid_tsc(t);
    else if (!r)
        t->no_tsc = false;
    return r;
}

long do_get_tsc(struct thread *t)
{
    uint32_t mode = PR_TSC_SIGSEGV;
    if (!t->no_tsc)
        return SYS_PASS;
    if (rt_guest_syscall(t))
        return SYS_PENDING;
    long r = (long)t->regs[RAX];
    return r ? r : rt_probe((void *)t->regs[RSI], &mode, sizeof mode) ? -14 : 0;
}

/* RDTSC and RDTSCP. */
bool forbid_is_tsc(const struct cofi__fast *x)
{
    return x->space == COFI__FAST_LEGACY && x->map == 1 &&
           (x->opcode == 0x31 || (x->opcode == 0x01 && x->modrm == 0xf9));
}

/* Raise the fault that the instruction at t->pc has, where it reads the TSC; false: it does not. */
bool forbid_fault(struct thread *t)
{
    struct cofi__fast x;
    const struct ksiginfo info = {.signo = SIGSEGV, .code = SI_KERNEL_CODE};
    if (step_decode(t, &x) <= 0 || !forbid_is_tsc(&x))
        return false;
    t->fault.err = 0;
    t->fault.trapno = TRAP_PROTECTION;
    signals_raise(t, &info);
    return true;
}

/* prctl(PR_SET_SYSCALL_USER_DISPATCH, …): the kernel is asked, with a selector of ours that lets all
 * pass, whether it would do it. */
long do_dispatch_user(struct thread *t)
{
    const uint64_t *r = t->regs;
    const uint8_t allow = SELECT_ALLOW;
    uint64_t mode = r[RSI], start = r[RDX], bytes = r[R10], selector = r[R8];
    long result = mode == DISPATCH_OFF ? rt_guest_syscall(t) ? SYS_PENDING : (long)r[RAX]
                                       : call_with(t, R8, (uint64_t)&allow);
    if (result)
        return result;
    if (mode != DISPATCH_OFF)
        sys(SYS_prctl, PR_DISPATCH, DISPATCH_OFF, 0, 0, 0, 0);
    if (mode != DISPATCH_OFF && selector > USER_END)
        return -14;
    t->dispatch.on = mode != DISPATCH_OFF;
    t->dispatch.start = mode == DISPATCH_INSIDE ? start + bytes : start;
    t->dispatch.bytes = mode == DISPATCH_INSIDE ? -bytes : bytes;
    t->dispatch.selector = selector;
    return 0;
}

/* The selector's byte; or the end of the program, where there is none that has a meaning. */
static bool selects_block(struct thread *t)
{
    uint8_t state;
    if (!t->dispatch.selector)
        return true;
    if (rt_probe(&state, (const void *)t->dispatch.selector, 1))
        signals_end(t, SIGSEGV);
    else if (state > SELECT_BLOCK)
        signals_end(t, SIGSYS);
    else
        return state == SELECT_BLOCK;
    return true;
}

/* Calls are dispatched: whether the SYSCALL at t->pc raises SIGSYS instead; then it does, behind it. The
 * kernel compares where it returns to. */
bool forbid_call(struct thread *t)
{
    struct ksiginfo info = {.signo = SIGSYS, .code = DISPATCH_CODE, .addr = t->pc + 2};
    const uint32_t number_and_kind[2] = {(uint32_t)t->regs[RAX], AUDIT_ARCH_X86_64};
    if (info.addr - t->dispatch.start < t->dispatch.bytes || !selects_block(t))
        return false;
    memcpy(info.rest, number_and_kind, sizeof number_and_kind);
    t->pc += 2;
    t->regs[RCX] = t->pc;
    t->regs[R11] = t->flags;
    signals_raise(t, &info);
    return true;
}
