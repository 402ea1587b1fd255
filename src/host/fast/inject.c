/* SPDX-License-Identifier: MIT
 * The runtime into a program by ptrace: once per exec, where it stands at its first instruction, or while it runs. */
#include "host/fast/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
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
#include "host/fast/hold.h"
#include "host/fast/lend.h"
#include "host/fast/limits.h"
#include "host/fast/own_calls.h"
#include "host/proc.h"

extern const uint8_t cofi__fast_stub[], cofi__fast_stub_end[];

/* A page of the window that the runtime has no use for yet. */
#define SCRATCH (COFI__FAST_RUNTIME_BASE + COFI__FAST_FIRST_BYTES - 4096)

/* A stopped program and the instruction that was there. */
struct remote {
    pid_t pid;
    struct user_regs_struct regs;
    long saved;
    uint64_t syscall; /* address of a SYSCALL instruction */
    uint64_t mask;    /* the program's own: all signals are blocked meanwhile */
    bool mapped;      /* the runtime's window is ours */
    bool locks;       /* what is mapped is locked in memory */
    bool out;         /* of the exec: its system call has ended */
    uint64_t ignored; /* signals */
    bool knows_ignored;
    uint64_t came;    /* signals that we let stop the program, and which came: SIGSTOP, which cannot be
                       * blocked, and SIGTRAP */
};

int cofi__fast_wait_stop(pid_t pid)
{
    siginfo_t info;
    int result;
    do /* the user's signals come here, too, and half of an injection would be the program's end */
        result = waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL);
    while (result && errno == EINTR);
    if (result || (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED))
        return COFI_ERR_SYSTEM; /* its end is for others to see */
    return waitid(P_PID, (id_t)pid, &info, WSTOPPED | __WALL) ? COFI_ERR_SYSTEM : info.si_status;
}

/* Whether the signal is an instruction's fault: all others are blocked. */
static bool is_fault(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS;
}

/* To the program's next stop of its own. COFI_ERR_UNSUPPORTED: there is no code that can run where it stands. */
static int advance(struct remote *r, enum __ptrace_request how)
{
    int stop;
    do {
        if (ptrace(how, r->pid, 0, 0))
            return COFI_ERR_SYSTEM;
        stop = cofi__fast_wait_stop(r->pid);
        if (stop < 0 || is_fault(stop))
            return stop < 0 ? stop : COFI_ERR_UNSUPPORTED;
        r->came |= stop == SIGSTOP ? cofi__fast_signal_bit(SIGSTOP) : 0;
    } while (stop != SIGTRAP);
    return 0;
}

static int block(struct remote *r, uint64_t signals)
{
    return ptrace(PTRACE_SETSIGMASK, r->pid, sizeof signals, &signals) ? COFI_ERR_SYSTEM : 0;
}

/* No signal until release_signals: one that came to an instruction of ours would end or stop what is half done. */
static int hold_signals(struct remote *r)
{
    return ptrace(PTRACE_GETSIGMASK, r->pid, sizeof r->mask, &r->mask) ? COFI_ERR_SYSTEM : block(r, ~UINT64_C(0));
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
    if (r->came & cofi__fast_signal_bit(SIGSTOP) && !has_pending(r->pid, SIGCONT))
        kill(r->pid, SIGSTOP);
    if (r->came & cofi__fast_signal_bit(SIGTRAP))
        kill(r->pid, SIGTRAP);
    ptrace(PTRACE_SETSIGMASK, r->pid, sizeof r->mask, &r->mask);
}

static int begin(struct remote *r)
{
    if (ptrace(PTRACE_GETREGS, r->pid, 0, &r->regs))
        return COFI_ERR_SYSTEM;
    r->syscall = r->regs.rip;
    r->saved = ptrace(PTRACE_PEEKTEXT, r->pid, (void *)r->regs.rip, 0);
    long code = (r->saved & ~0xffffl) | 0x050f; /* SYSCALL */
    if (!ptrace(PTRACE_POKETEXT, r->pid, (void *)r->regs.rip, (void *)code))
        return 0;
    return errno == EIO ? COFI_ERR_UNSUPPORTED : COFI_ERR_SYSTEM; /* nothing is there */
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
    COFI_TRY(advance(r, PTRACE_SYSCALL)); /* not by steps: their SIGTRAP, which is blocked, would cost
                                           * the program its action for it */
    COFI_TRY(advance(r, PTRACE_SYSCALL));
    if (ptrace(PTRACE_GETREGS, r->pid, 0, &regs))
        return COFI_ERR_SYSTEM;
    *result = (long)regs.rax;
    return 0;
}

static int read_memory(pid_t pid, void *to, uint64_t from, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)from, n};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : COFI_ERR_SYSTEM;
}

static int write_memory(pid_t pid, uint64_t to, const void *from, size_t n)
{
    struct iovec local = {(void *)(uintptr_t)from, n}, remote = {(void *)to, n};
    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : COFI_ERR_SYSTEM;
}

static int close_theirs(struct remote *r, long fd)
{
    long ignored;
    return call(r, &ignored, SYS_close, (uint64_t[6]){(uint64_t)fd});
}

/* The shared memory's descriptor by its name, which is ours and that of our user: in another namespace
 * it is somebody else's, perhaps. */
static int open_shared(struct remote *r, int fd, long *their_fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    COFI_TRY(write_memory(r->pid, SCRATCH, path, sizeof path));
    COFI_TRY(call(r, their_fd, SYS_openat, (uint64_t[6]){(uint32_t)AT_FDCWD, SCRATCH, O_RDWR | O_CLOEXEC}));
    if (*their_fd < 0 || cofi__fast_is_same_file(r->pid, *their_fd, fd))
        return 0;
    COFI_TRY(close_theirs(r, *their_fd));
    *their_fd = -1;
    return 0;
}

/* The letter that was sent. Negative *their_fd: none was. */
static int receive(struct remote *r, struct cofi__fast_letter *letter, long *their_fd)
{
    long result;
    cofi__fast_letter(letter, SCRATCH);
    COFI_TRY(write_memory(r->pid, SCRATCH, letter, sizeof *letter));
    COFI_TRY(call(r, &result, SYS_recvmsg,
                  (uint64_t[6]){(uint64_t)letter->sockets[0], SCRATCH + offsetof(struct cofi__fast_letter, message),
                                MSG_CMSG_CLOEXEC | MSG_DONTWAIT}));
    COFI_TRY(read_memory(r->pid, letter, SCRATCH, sizeof *letter));
    if (result == 1 && letter->message.msg_controllen >= sizeof letter->control.head)
        *their_fd = *(const int *)CMSG_DATA(&letter->control.head);
    return 0;
}

/* … or by a socket pair of theirs, one end of which we hold for a moment. Negative *their_fd: neither. */
static int receive_shared(struct remote *r, int fd, long *their_fd)
{
    struct cofi__fast_letter letter = {0};
    long result;
    if (cofi__fast_filters_let(r->pid, OWN_LENT, NULL) == COFI_ERR_UNSUPPORTED)
        return 0;
    COFI_TRY(call(r, &result, SYS_socketpair, (uint64_t[6]){AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, SCRATCH}));
    if (result < 0)
        return 0;
    COFI_TRY(read_memory(r->pid, letter.sockets, SCRATCH, sizeof letter.sockets));
    if (cofi__fast_lend(r->pid, letter.sockets[1], fd) >= 0)
        COFI_TRY(receive(r, &letter, their_fd));
    COFI_TRY(close_theirs(r, letter.sockets[0]));
    return close_theirs(r, letter.sockets[1]);
}

/* Whether a mapping is locked in memory, as all new ones are of a program that has asked for that (MCL_FUTURE). */
static bool is_locked(pid_t pid, uint64_t start)
{
    char path[64], line[4400];
    unsigned long at = 0, s, e;
    bool locked = false;
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    FILE *f = fopen(path, "re");
    while (f && at <= start && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &s, &e) == 2)
            at = s;
        else if (at == start && !strncmp(line, "VmFlags:", 8))
            locked = strstr(line, " lo");
    }
    if (f)
        fclose(f);
    return locked;
}

/* The runtime's memory is large and hardly used: it is not to be in memory as a whole. */
static int unlock_window(struct remote *r)
{
    long ignored;
    r->locks = is_locked(r->pid, COFI__FAST_RUNTIME_BASE);
    if (!r->locks)
        return 0;
    if (cofi__fast_seccomp_mode(r->pid)) /* what its filters have not been asked for */
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(call(r, &ignored, SYS_munlock, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES}));
    return call(r, &ignored, SYS_madvise,
                (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES, MADV_DONTNEED});
}

/* What is not to be accessed is not brought into memory, though it is locked. */
static int map_shared(struct remote *r, long *result, size_t bytes, long their_fd)
{
    const uint64_t rights = PROT_READ | PROT_WRITE;
    COFI_TRY(call(r, result, SYS_mmap, (uint64_t[6]){COFI__FAST_SHARED_BASE, bytes, r->locks ? PROT_NONE : rights,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)their_fd, 0}));
    if (!r->locks || *result != (long)COFI__FAST_SHARED_BASE)
        return 0;
    long ignored;
    COFI_TRY(call(r, &ignored, SYS_munlock, (uint64_t[6]){COFI__FAST_SHARED_BASE, bytes}));
    return call(r, &ignored, SYS_mprotect, (uint64_t[6]){COFI__FAST_SHARED_BASE, bytes, rights});
}

/* Filters have been asked for memory that is written to from the first. */
static uint64_t window_rights(const struct remote *r, const struct cofi__fast_memory *m)
{
    bool claims = m->claims && !cofi__fast_seccomp_mode(r->pid);
    return PROT_READ | PROT_EXEC | (claims ? 0 : PROT_WRITE);
}

/* What the kernel is to write there, before the runtime claims more. */
static int claim_first(struct remote *r)
{
    long result;
    COFI_TRY(call(r, &result, SYS_mprotect, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_FIRST_BYTES,
                                                          PROT_READ | PROT_WRITE | PROT_EXEC}));
    return result ? COFI_ERR_UNSUPPORTED : 0;
}

/* *their_fd is left open where the memory is mapped. */
static int map_runtime(struct remote *r, const struct cofi__fast_memory *m, long *their_fd)
{
    const uint64_t window = COFI__FAST_RUNTIME_BASE;
    const uint64_t rights = window_rights(r, m);
    long result;
    COFI_TRY(call(r, &result, SYS_mmap,
                  (uint64_t[6]){window, COFI__FAST_RUNTIME_BYTES, rights,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0}));
    if (result != (long)window)
        return COFI_ERR_UNSUPPORTED;
    r->mapped = true;
    if (!(rights & PROT_WRITE))
        COFI_TRY(claim_first(r));
    COFI_TRY(unlock_window(r));
    COFI_TRY(write_memory(r->pid, window, cofi__fast_blob, (size_t)(cofi__fast_blob_end - cofi__fast_blob)));
    /* Filters that the program came with know that address. */
    r->syscall = window + COFI__FAST_RUNTIME_SYSCALL;
    COFI_TRY(open_shared(r, m->fd, their_fd));
    if (*their_fd < 0)
        COFI_TRY(receive_shared(r, m->fd, their_fd));
    if (*their_fd < 0)
        return COFI_ERR_UNSUPPORTED;
    COFI_TRY(map_shared(r, &result, m->bytes, *their_fd));
    if (result == (long)COFI__FAST_SHARED_BASE)
        return 0;
    COFI_TRY(close_theirs(r, *their_fd));
    return COFI_ERR_UNSUPPORTED;
}

static void unmap_runtime(struct remote *r)
{
    long ignored;
    if (r->mapped)
        call(r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES});
}

static void fill_context(struct thread *t, const struct user_regs_struct *g, uint64_t address)
{
    const uint64_t regs[16] = {g->rax, g->rcx, g->rdx, g->rbx, g->rsp, g->rbp, g->rsi, g->rdi,
                               g->r8, g->r9, g->r10, g->r11, g->r12, g->r13, g->r14, g->r15};
    memset((uint8_t *)t + sizeof t->head, 0, sizeof *t - sizeof t->head);
    memcpy(t->regs, regs, sizeof regs);
    t->flags = g->eflags;
    t->pc = g->rip;
    t->stack_top = address + COFI__FAST_SLOT_STACK + COFI__FAST_STACK_BYTES - 64;
}

void cofi__fast_enter(struct user_regs_struct *g, uint64_t slot_address)
{
    g->rip = COFI__FAST_RUNTIME_BASE;
    g->rdi = slot_address;
    g->orig_rax = (unsigned long long)-1;
    g->eflags = 0x202; /* C code wants DF clear */
}

/* ---- at its first instruction ---- */

/* Whether it can be mapped to be executed [memfd_create(2), vm.memfd_noexec]. */
static bool is_executable(int fd)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    return page != MAP_FAILED && !munmap(page, 4096);
}

int cofi__fast_code_file(void)
{
    enum { EXEC = 0x10, SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    const size_t bytes = (size_t)(cofi__fast_blob_end - cofi__fast_blob);
    int fd = memfd_create("cofi-runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING | EXEC);
    if (fd < 0) /* before Linux 6.3 */
        fd = memfd_create("cofi-runtime", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && write(fd, cofi__fast_blob, bytes) == (ssize_t)bytes && !fcntl(fd, F_ADD_SEALS, SEALS) &&
        is_executable(fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

_Static_assert(COFI__FAST_RUNTIME_BASE == 0x6e000000, "stub.S");

/* The stub and the paths it opens, in place of a program's code. */
struct stub {
    uint8_t code[192];
    char runtime[32], shared[32];
};

/* Whether the program can run the stub: no filter is to see its calls, and the kernel would forget that
 * SIGTRAP is ignored [signal(7)]. */
static bool can_run_stub(struct remote *r)
{
    struct cofi__proc_field fields[] = {{"SigIgn:", 16, 0}, {"Seccomp:", 10, 0}};
    r->knows_ignored = cofi__proc_fields(r->pid, fields, 2) == 2;
    r->ignored = fields[0].value;
    return r->regs.cs == 0x33 && r->knows_ignored && !(r->ignored & cofi__fast_signal_bit(SIGTRAP)) && !fields[1].value;
}

static struct user_regs_struct stub_regs(const struct remote *r, const struct cofi__fast_memory *m, uint64_t at)
{
    struct user_regs_struct g = r->regs;
    g.orig_rax = (unsigned long long)-1;
    g.rip = at;
    g.rdi = COFI__FAST_RUNTIME_BASE, g.rsi = COFI__FAST_RUNTIME_BYTES, g.rdx = window_rights(r, m);
    g.r10 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, g.r8 = (unsigned long long)-1, g.r9 = 0;
    g.rbx = at + offsetof(struct stub, runtime), g.rbp = (uint64_t)(cofi__fast_blob_end - cofi__fast_blob);
    g.r12 = at + offsetof(struct stub, shared), g.r13 = COFI__FAST_SHARED_BASE, g.r14 = m->bytes;
    g.r15 = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    return g;
}

/* To the stub's end; *g as it is there. */
static int run_stub(struct remote *r, struct user_regs_struct *g)
{
    uint64_t end = g->rip + (uint64_t)(cofi__fast_stub_end - cofi__fast_stub);
    if (block(r, ~cofi__fast_signal_bit(SIGTRAP)) < 0 || ptrace(PTRACE_SETREGS, r->pid, 0, g))
        return COFI_ERR_SYSTEM;
    r->out = true;
    for (;;) {
        COFI_TRY(advance(r, PTRACE_CONT));
        if (ptrace(PTRACE_GETREGS, r->pid, 0, g))
            return COFI_ERR_SYSTEM;
        if (g->rip == end)
            return block(r, ~UINT64_C(0));
        r->came |= cofi__fast_signal_bit(SIGTRAP);
    }
}

/* Its code in place of the page's first bytes, and these back again. */
static int run_stub_at(struct remote *r, const struct cofi__fast_memory *m, int mem, uint64_t at,
                       struct user_regs_struct *g)
{
    struct stub stub = {0}, saved;
    memcpy(stub.code, cofi__fast_stub, (size_t)(cofi__fast_stub_end - cofi__fast_stub));
    snprintf(stub.runtime, sizeof stub.runtime, "/proc/%d/fd/%d", getpid(), m->code);
    snprintf(stub.shared, sizeof stub.shared, "/proc/%d/fd/%d", getpid(), m->fd);
    if (pread(mem, &saved, sizeof saved, (off_t)at) != sizeof saved)
        return COFI_ERR_UNSUPPORTED;
    if (pwrite(mem, &stub, sizeof stub, (off_t)at) != sizeof stub)
        return COFI_ERR_UNSUPPORTED;
    *g = stub_regs(r, m, at);
    int status = run_stub(r, g);
    return pwrite(mem, &saved, sizeof saved, (off_t)at) == sizeof saved ? status : COFI_ERR_SYSTEM;
}

/* What the stub did, away again: the program stands as if it had not run. */
static int undo_stub(struct remote *r, const struct user_regs_struct *g)
{
    long ignored;
    COFI_TRY(begin(r));
    if (g->r9 == 2)
        COFI_TRY(call(r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_SHARED_BASE, g->r14}));
    if (g->r9 >= 1)
        COFI_TRY(call(r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES}));
    if ((int)g->r8 >= 0)
        COFI_TRY(close_theirs(r, (int)g->r8));
    return finish(r);
}

/* In two stops, where no filter is in the way. COFI_ERR_UNSUPPORTED: it is to be done call by call. */
static int map_at_once(struct remote *r, const struct cofi__fast_memory *m, long *their_fd)
{
    char path[64];
    struct user_regs_struct g;
    if (m->code < 0 || ptrace(PTRACE_GETREGS, r->pid, 0, &r->regs) || !can_run_stub(r))
        return COFI_ERR_UNSUPPORTED;
    r->regs.rax = 0; /* execve's result, which the kernel has not put there yet */
    snprintf(path, sizeof path, "/proc/%d/mem", r->pid);
    int mem = open(path, O_RDWR | O_CLOEXEC);
    if (mem < 0)
        return COFI_ERR_UNSUPPORTED;
    int status = run_stub_at(r, m, mem, r->regs.rip & ~UINT64_C(4095), &g);
    close(mem);
    if (status == COFI_ERR_UNSUPPORTED && r->out && ptrace(PTRACE_SETREGS, r->pid, 0, &r->regs))
        return COFI_ERR_SYSTEM;
    COFI_TRY(status);
    *their_fd = (int)g.r8;
    if (g.r9 == 2 && cofi__fast_is_same_file(r->pid, *their_fd, m->fd))
        return 0;
    if (ptrace(PTRACE_SETREGS, r->pid, 0, &r->regs) || undo_stub(r, &g) < 0)
        return COFI_ERR_SYSTEM;
    return COFI_ERR_UNSUPPORTED;
}

/* One system call after the other, as filters let them pass. */
static int map_by_calls(struct remote *r, const struct cofi__fast_memory *m, long *their_fd, struct cofi_error *error)
{
    /* Out of the exec, so that registers written stay: its system call ends. */
    int status = r->out ? 0 : advance(r, PTRACE_SYSCALL);
    if (status >= 0)
        status = begin(r);
    if (status < 0)
        return cofi__fail(error, status, COFI_NOWHERE,
                          status == COFI_ERR_UNSUPPORTED ? "process %d begins where there is no code"
                                                         : "ptrace of process %d failed",
                          r->pid);
    if (r->regs.cs != 0x33) {
        finish(r);
        return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE, "process %d runs a 32-bit program", r->pid);
    }
    status = cofi__fast_filters_let(r->pid, OWN_PROGRAM, NULL); /* where they cannot be read, it is tried */
    if (status != COFI_ERR_UNSUPPORTED)
        status = map_runtime(r, m, their_fd);
    if (status < 0)
        unmap_runtime(r);
    if (finish(r) < 0 || status < 0)
        return cofi__fail(error, status < 0 ? status : COFI_ERR_SYSTEM, COFI_NOWHERE,
                          "process %d has no room for the runtime, a seccomp filter, or no code where it begins",
                          r->pid);
    return 0;
}

/* The program's state, and the runtime's in its place; errors leave it as it was. */
static int put_runtime(struct remote *r, const struct cofi__fast_memory *m, struct thread *slot, uint64_t slot_address,
                       struct cofi_error *error)
{
    long their_fd;
    int status = map_at_once(r, m, &their_fd);
    if (status == COFI_ERR_UNSUPPORTED)
        COFI_TRY(map_by_calls(r, m, &their_fd, error));
    else if (status < 0)
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", r->pid);
    fill_context(slot, &r->regs, slot_address);
    slot->program.limited = cofi__fast_is_limited(r->pid);
    slot->program.knows_ignored = r->knows_ignored;
    slot->program.ignored = r->ignored;
    slot->shared_fd = (int32_t)their_fd + 1; /* the runtime closes it: a call from here takes two stops */
    struct user_regs_struct start = r->regs;
    cofi__fast_enter(&start, slot_address);
    if (ptrace(PTRACE_SETREGS, r->pid, 0, &start))
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", r->pid);
    return 0;
}

int cofi__fast_inject(pid_t pid, const struct cofi__fast_memory *memory, struct thread *slot, uint64_t slot_address,
                      struct cofi_error *error)
{
    struct remote r = {.pid = pid};
    if (hold_signals(&r) < 0)
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", pid);
    int status = put_runtime(&r, memory, slot, slot_address, error);
    release_signals(&r);
    return status;
}

/* ---- a program that runs ---- */

int cofi__fast_inject_running(pid_t tid, const struct cofi__fast_memory *memory, uint32_t *locks,
                              struct cofi_error *error)
{
    struct remote r = {.pid = tid};
    if (hold_signals(&r) < 0 || begin(&r) < 0)
        return cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", tid);
    long their_fd;
    int status = map_runtime(&r, memory, &their_fd);
    *locks = r.locks;
    if (status >= 0)
        status = close_theirs(&r, their_fd);
    if (status < 0) {
        unmap_runtime(&r);
        cofi__fail(error, status, COFI_NOWHERE,
                   "the runtime cannot be put into process %d: no room where it goes (is it recorded "
                   "already? may it lock no more memory?), or no file descriptor left",
                   tid);
    }
    if ((finish(&r) < 0 || cofi__fast_stop_again(tid) >= STOP_GONE) && status >= 0)
        status = cofi__fail(error, COFI_ERR_SYSTEM, COFI_NOWHERE, "ptrace of process %d failed", tid);
    release_signals(&r);
    return status;
}

/* From the runtime's place, which filters know, to the last: the thread does not come back there. */
int cofi__fast_unmap(pid_t tid, size_t bytes)
{
    struct remote r = {.pid = tid, .syscall = COFI__FAST_RUNTIME_BASE + COFI__FAST_RUNTIME_SYSCALL};
    long ignored;
    if (hold_signals(&r) < 0 || ptrace(PTRACE_GETREGS, tid, 0, &r.regs))
        return COFI_ERR_SYSTEM;
    int status = call(&r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_SHARED_BASE, bytes});
    if (status >= 0)
        status = call(&r, &ignored, SYS_munmap, (uint64_t[6]){COFI__FAST_RUNTIME_BASE, COFI__FAST_RUNTIME_BYTES});
    if (ptrace(PTRACE_SETREGS, tid, 0, &r.regs) || cofi__fast_stop_again(tid) >= STOP_GONE)
        status = COFI_ERR_SYSTEM;
    release_signals(&r);
    return status;
}

/* Calls that fail with EINTR when they were stopped, where nothing came but our stop [signal(7)]: those
 * of sockets that have a time-out (SO_RCVTIMEO, SO_SNDTIMEO), and of some devices, too. */
static bool is_interrupted_by_stop(uint64_t nr)
{
    static const uint16_t calls[] = {SYS_epoll_wait,
                                     SYS_epoll_pwait,
                                     SYS_semop,
                                     SYS_semtimedop,
                                     SYS_io_getevents,
                                     SYS_rt_sigtimedwait,
                                     SYS_read,
                                     SYS_readv,
                                     SYS_recvfrom,
                                     SYS_recvmsg,
                                     SYS_recvmmsg,
                                     SYS_accept,
                                     SYS_accept4,
                                     SYS_connect,
                                     SYS_write,
                                     SYS_writev,
                                     SYS_sendto,
                                     SYS_sendmsg,
                                     SYS_sendmmsg,
                                     SYS_sendfile,
                                     SYS_splice,
                                     SYS_ioctl,
                                     333 /* io_pgetevents */,
                                     426 /* io_uring_enter */,
                                     441 /* epoll_pwait2 */};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i] == nr)
            return true;
    return false;
}

enum cofi__fast_call cofi__fast_call_of(const struct user_regs_struct *g)
{
    long error = -(long)g->rax;
    if ((long)g->orig_rax < 0)
        return CALL_NONE;
    if (error == EINTR && is_interrupted_by_stop(g->orig_rax))
        return CALL_ENDED;
    return (error >= RESTARTSYS && error <= RESTARTNOHAND) || error == RESTART_BLOCK ? CALL_RESTARTS : CALL_NONE;
}

/* Whether filters would end a thread that the kernel makes go on in its wait of some time by restart_syscall. */
static bool may_not_restart(pid_t tid, const struct user_regs_struct *g)
{
    return (long)g->rax == -RESTART_BLOCK && cofi__fast_filters_let(tid, OWN_RESTART, NULL) < 0;
}

bool cofi__fast_is_to_call_anew(pid_t tid, const struct user_regs_struct *g)
{
    enum cofi__fast_call call = cofi__fast_call_of(g);
    return call == CALL_ENDED || (call == CALL_RESTARTS && may_not_restart(tid, g));
}

/* The thread was stopped in a system call: it stands before it again, as the kernel would restart it. */
static void restart_call(pid_t tid, struct user_regs_struct *g, struct thread *t)
{
    if (cofi__fast_call_of(g) == CALL_NONE)
        return;
    t->attach.restart = cofi__fast_is_to_call_anew(tid, g) ? RESTARTNOHAND : (uint32_t)-g->rax;
    g->rax = t->attach.restart == RESTART_BLOCK ? SYS_restart_syscall : g->orig_rax;
    g->rip -= 2;
}

void cofi__fast_call_anew(struct user_regs_struct *g)
{
    g->rax = g->orig_rax;
    g->orig_rax = (unsigned long long)-1;
    g->rip -= 2;
}

void cofi__fast_leave_thread(pid_t tid)
{
    struct user_regs_struct regs;
    if (!ptrace(PTRACE_GETREGS, tid, 0, &regs) && cofi__fast_is_to_call_anew(tid, &regs)) {
        cofi__fast_call_anew(&regs);
        ptrace(PTRACE_SETREGS, tid, 0, &regs);
    }
    cofi__fast_go_on(tid);
}

/* The struct rseq of the thread. Inside of a critical section, the stop is what aborts it. */
static void take_rseq(pid_t tid, struct thread *t)
{
    enum { RSEQ_CS = 8 };
    struct __ptrace_rseq_configuration rseq = {0};
    uint64_t at = 0, cs[4] = {0}; /* struct rseq_cs: version and flags, start, length, abort */
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof rseq, &rseq) <= 0 || !rseq.rseq_abi_pointer)
        return;
    t->rseq.at = rseq.rseq_abi_pointer;
    t->rseq.signature = rseq.signature;
    struct iovec mine = {&at, sizeof at}, theirs = {(void *)(t->rseq.at + RSEQ_CS), sizeof at};
    if (process_vm_readv(tid, &mine, 1, &theirs, 1, 0) != sizeof at || !at)
        return;
    mine = (struct iovec){cs, sizeof cs};
    theirs = (struct iovec){(void *)at, sizeof cs};
    if (process_vm_readv(tid, &mine, 1, &theirs, 1, 0) != sizeof cs || t->pc - cs[1] >= cs[2])
        return;
    t->pc = cs[3];
    write_memory(tid, t->rseq.at + RSEQ_CS, &(uint64_t){0}, 8);
}

bool cofi__fast_is_64bit(pid_t tid)
{
    struct user_regs_struct regs;
    return !ptrace(PTRACE_GETREGS, tid, 0, &regs) && regs.cs == 0x33;
}

int cofi__fast_inject_thread(pid_t tid, enum attached as, struct thread *slot, uint64_t slot_address)
{
    struct remote r = {.pid = tid};
    if (hold_signals(&r) < 0 || ptrace(PTRACE_GETREGS, tid, 0, &r.regs))
        return COFI_ERR_SYSTEM;
    struct user_regs_struct guest = r.regs, start = r.regs;
    fill_context(slot, &guest, slot_address);
    restart_call(tid, &guest, slot);
    slot->regs[RAX] = guest.rax;
    slot->pc = guest.rip;
    slot->mask = r.mask;
    slot->attach.how = (uint8_t)as;
    take_rseq(tid, slot);
    cofi__fast_enter(&start, slot_address);
    return ptrace(PTRACE_SETREGS, tid, 0, &start) ? COFI_ERR_SYSTEM : 0;
}
