/* SPDX-License-Identifier: MIT
 * The runtime into a program that stands at its first instruction: by ptrace, once per exec. */
#include "host/fast/inject.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

extern const uint8_t cofi__fast_blob[], cofi__fast_blob_end[];

/* A stopped program and the instruction that was there. */
struct remote {
    pid_t pid;
    struct user_regs_struct regs;
    long saved;
    uint64_t syscall; /* address of a SYSCALL instruction */
    uint64_t mask;    /* the program's own: all signals are blocked meanwhile */
    bool stopped;     /* SIGSTOP, which cannot be blocked, has come */
};

int cofi__fast_wait_stop(pid_t pid)
{
    siginfo_t info;
    if (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL) ||
        (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED))
        return COFI_ERR_SYSTEM; /* its end is for others to see */
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | __WALL) ? COFI_ERR_SYSTEM : info.si_status;
}

/* To the program's next stop of its own. */
static int advance(struct remote *r, enum __ptrace_request how)
{
    int stop;
    do {
        if (ptrace(how, r->pid, 0, 0))
            return COFI_ERR_SYSTEM;
        stop = cofi__fast_wait_stop(r->pid);
        if (stop < 0)
            return stop;
        r->stopped |= stop == SIGSTOP;
    } while (stop != SIGTRAP);
    return 0;
}

/* No signal until release_signals: one that came to an instruction of ours would end or stop what is half done. */
static int hold_signals(struct remote *r)
{
    uint64_t all = ~0ull;
    if (ptrace(PTRACE_GETSIGMASK, r->pid, sizeof r->mask, &r->mask) || ptrace(PTRACE_SETSIGMASK, r->pid, sizeof all, &all))
        return COFI_ERR_SYSTEM;
    return 0;
}

/* Whether the process has a signal waiting. */
static bool has_pending(pid_t pid, int signo)
{
    struct __ptrace_peeksiginfo_args args = {.flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
    siginfo_t info;
    for (; ptrace(PTRACE_PEEKSIGINFO, pid, &args, &info) == 1; args.off++)
        if (info.si_signo == signo)
            return true;
    return false;
}

static void release_signals(const struct remote *r)
{
    if (r->stopped && !has_pending(r->pid, SIGCONT))
        kill(r->pid, SIGSTOP);
    ptrace(PTRACE_SETSIGMASK, r->pid, sizeof r->mask, &r->mask);
}

static int begin(struct remote *r)
{
    /* Out of the exec, so that registers written stay: its system call ends. */
    COFI_TRY(advance(r, PTRACE_SYSCALL));
    if (ptrace(PTRACE_GETREGS, r->pid, 0, &r->regs))
        return COFI_ERR_SYSTEM;
    r->syscall = r->regs.rip;
    r->saved = ptrace(PTRACE_PEEKTEXT, r->pid, (void *)r->regs.rip, 0);
    long code = (r->saved & ~0xffffl) | 0x050f; /* SYSCALL */
    return ptrace(PTRACE_POKETEXT, r->pid, (void *)r->regs.rip, (void *)code) ? COFI_ERR_SYSTEM : 0;
}

static int finish(struct remote *r)
{
    ptrace(PTRACE_POKETEXT, r->pid, (void *)r->regs.rip, (void *)r->saved);
    return ptrace(PTRACE_SETREGS, r->pid, 0, &r->regs) ? COFI_ERR_SYSTEM : 0;
}

/* One system call made by the program; *result as the kernel returns it. */
static int call(struct remote *r, long *result, long nr, const uint64_t args[6])
{
    struct user_regs_struct regs = r->regs;
    regs.orig_rax = (unsigned long long)-1;
    regs.rip = r->syscall;
    regs.rax = (unsigned long long)nr;
    regs.rdi = args[0], regs.rsi = args[1], regs.rdx = args[2];
    regs.r10 = args[3], regs.r8 = args[4], regs.r9 = args[5];
    if (ptrace(PTRACE_SETREGS, r->pid, 0, &regs))
        return COFI_ERR_SYSTEM;
    COFI_TRY(advance(r, PTRACE_SINGLESTEP));
    if (ptrace(PTRACE_GETREGS, r->pid, 0, &regs))
        return COFI_ERR_SYSTEM;
    *result = (long)regs.rax;
    return 0;
}

static int write_memory(pid_t pid, uint64_t to, const void *from, size_t n)
{
    struct iovec local = {(void *)(uintptr_t)from, n}, remote = {(void *)to, n};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : COFI_ERR_SYSTEM;
}

static int map_runtime(struct remote *r, int fd, size_t bytes)
{
    const uint64_t window = COFI__FAST_RUNTIME_BASE;
    long result;
    COFI_TRY(call(r, &result, SYS_mmap, (uint64_t[6]){window, COFI__FAST_RUNTIME_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0}));
    if (result != (long)window)
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(write_memory(r->pid, window, cofi__fast_blob, (size_t)(cofi__fast_blob_end - cofi__fast_blob)));
    /* Filters that the program came with know that address. */
    r->syscall = window + COFI__FAST_RUNTIME_SYSCALL;
    char path[64];
    uint64_t at = window + COFI__FAST_RUNTIME_BYTES - 4096;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    COFI_TRY(write_memory(r->pid, at, path, sizeof path));
    long their_fd;
    COFI_TRY(call(r, &their_fd, SYS_open, (uint64_t[6]){at, O_RDWR | O_CLOEXEC}));
    if (their_fd < 0)
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(call(r, &result, SYS_mmap, (uint64_t[6]){COFI__FAST_SHARED_BASE, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)their_fd, 0}));
    long ignored;
    COFI_TRY(call(r, &ignored, SYS_close, (uint64_t[6]){(uint64_t)their_fd}));
    return result == (long)COFI__FAST_SHARED_BASE ? 0 : COFI_ERR_UNSUPPORTED;
}

static void unmap_runtime(struct remote *r)
{
    long ignored;
    call(r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES});
}

static void fill_context(struct thread *t, const struct user_regs_struct *g, uint64_t address)
{
    const uint64_t regs[16] = {g->rax, g->rcx, g->rdx, g->rbx, g->rsp, g->rbp, g->rsi, g->rdi,
                               g->r8, g->r9, g->r10, g->r11, g->r12, g->r13, g->r14, g->r15};
    memset((uint8_t *)t + sizeof t->head, 0, sizeof *t - sizeof t->head);
    memcpy(t->regs, regs, sizeof regs);
    t->flags = g->eflags & ~0x100ull;
    t->pc = g->rip;
    t->gs_base = g->gs_base;
    t->stack_top = address + COFI__FAST_SLOT_STACK + COFI__FAST_STACK_BYTES - 64;
}

/* The program's state, and the runtime's in its place; errors leave it as it was. */
static int put_runtime(struct remote *r, int fd, size_t bytes, struct thread *slot, uint64_t slot_address, struct cofi_error *error)
{
    if (begin(r) < 0)
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", r->pid);
    if (r->regs.cs != 0x33) {
        finish(r);
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "process %d runs a 32-bit program", r->pid);
    }
    int status = map_runtime(r, fd, bytes);
    if (status < 0) {
        unmap_runtime(r);
        finish(r);
        return cofi__fail(error, status, COFI_NOWHERE, "process %d has no room for the runtime", r->pid);
    }
    fill_context(slot, &r->regs, slot_address);
    struct user_regs_struct start = r->regs;
    COFI_TRY(finish(r));
    start.rip = COFI__FAST_RUNTIME_BASE;
    start.rdi = slot_address;
    start.orig_rax = (unsigned long long)-1;
    if (ptrace(PTRACE_SETREGS, r->pid, 0, &start))
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", r->pid);
    return 0;
}

int cofi__fast_inject(pid_t pid, int fd, size_t bytes, struct thread *slot, uint64_t slot_address,
                      struct cofi_error *error)
{
    struct remote r = {.pid = pid};
    if (hold_signals(&r) < 0)
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", pid);
    int status = put_runtime(&r, fd, bytes, slot, slot_address, error);
    release_signals(&r);
    return status;
}
