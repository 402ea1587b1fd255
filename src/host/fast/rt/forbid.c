/* SPDX-License-Identifier: MIT
 * What a thread of the program forbids itself, so that it gets a signal instead: reading the TSC. The runtime does that itself, so the
 * kernel must not hear of it but for an exec, over which it stays. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host/fast/rt/rt.h"
#include "x86/fast.h"

enum { SI_KERNEL_CODE = 0x80, TRAP_PROTECTION = 13 };

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
    return x->space == COFI__FAST_LEGACY && x->map == 1 && (x->opcode == 0x31 || (x->opcode == 0x01 && x->modrm == 0xf9));
}

/* Raise the fault that the instruction at t->pc has, where it reads the TSC; false: it does not. */
bool forbid_fault(struct thread *t)
{
    struct cofi__fast x;
    const struct ksiginfo info = {.signo = SIGSEGV, .code = SI_KERNEL_CODE};
    if (cofi__fast_decode(&x, (const uint8_t *)t->pc, maps_readable(t->pc)) <= 0 || !forbid_is_tsc(&x))
        return false;
    t->err = 0;
    t->trapno = TRAP_PROTECTION;
    signals_raise(t, &info);
    return true;
}
