/* SPDX-License-Identifier: MIT
 * Guests about signals that no instruction raises, though they look like it, and about frames that are not as the kernel made them. */
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

enum { NR_URETPROBE = 335, KERNEL = 0x80 };

static sigjmp_buf back;
static char alternate[1 << 16];
static volatile int spoil; /* what the handler does to the frame that it returns by */

static void spoil_frame(ucontext_t *uc)
{
    greg_t *r = uc->uc_mcontext.gregs;
    char *fpu = (char *)uc->uc_mcontext.fpregs;
    switch (spoil) {
    case 1: uc->uc_mcontext.fpregs = (void *)8; break;
    case 2: uc->uc_mcontext.fpregs = (void *)(fpu + 4); break;
    case 3: memset(fpu + 24, 0xff, 4); break; /* MXCSR */
    case 4: memset(fpu + 512, 0xff, 64); break; /* XSAVE's header */
    case 5: r[REG_RIP] = 0x1234567812345678; break;
    case 6: r[REG_RSP] = 0x1234567812345678; break;
    case 7: r[REG_CSGSFS] &= ~0xffffll; break;
    case 8: r[REG_CSGSFS] |= 0xffff; break;
    case 9: r[REG_CSGSFS] = (r[REG_CSGSFS] & ~0xffffll) | 0x2b; break; /* of data */
    case 10: r[REG_CSGSFS] = (r[REG_CSGSFS] & ~(0xffffll << 48)) | 0x33ll << 48; break; /* SS, of code */
    case 11: r[REG_CSGSFS] = (r[REG_CSGSFS] & ~(0xffffll << 48)) | 0x13ll << 48; break; /* … of the kernel */
    }
    if (spoil)
        r[REG_RAX] = 77;
}

static void tell(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    printf("signal %d code %d addr %s rax %lld\n", signo, info->si_code, info->si_addr == (void *)0x1234 ? "0x1234" : "other",
           signo == SIGUSR1 ? 0 : (long long)uc->uc_mcontext.gregs[REG_RAX]);
    if (spoil >= 7 && signo == SIGSEGV)
        printf("error %llx\n", (unsigned long long)uc->uc_mcontext.gregs[REG_ERR]);
    if (spoil && signo != SIGUSR1)
        siglongjmp(back, 1);
    spoil_frame(uc);
}

static void tell_of_all(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGUSR1};
    struct sigaction a = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL);
    for (unsigned i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &a, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

static long queue(int signo, int code)
{
    siginfo_t info = {.si_signo = signo, .si_code = code};
    info.si_addr = (void *)0x1234;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signo, &info);
}

static void act_and_block(int signo, void (*handler)(int), int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    signal(signo, handler);
    sigprocmask(how, &set, NULL);
}

static void queue_blocked(int code)
{
    sigset_t set;
    act_and_block(SIGSEGV, SIG_DFL, SIG_BLOCK);
    long r = queue(SIGSEGV, code);
    sigpending(&set);
    printf("%ld, pending %d\n", r, sigismember(&set, SIGSEGV));
    act_and_block(SIGSEGV, SIG_DFL, SIG_UNBLOCK);
}

static void queued_blocked(void)
{
    queue_blocked(1);
}

static void queued_blocked_as_forced(void)
{
    queue_blocked(KERNEL);
}

static void queued_ignored(void)
{
    act_and_block(SIGSEGV, SIG_IGN, SIG_UNBLOCK);
    printf("%ld\n", queue(SIGSEGV, 1));
}

static void queued(void)
{
    act_and_block(SIGSEGV, SIG_DFL, SIG_UNBLOCK);
    queue(SIGSEGV, 1);
}

static void forced_ignored(void)
{
    act_and_block(SIGILL, SIG_IGN, SIG_UNBLOCK);
    syscall(NR_URETPROBE);
}

static void forced_blocked(void)
{
    act_and_block(SIGILL, SIG_DFL, SIG_BLOCK);
    syscall(NR_URETPROBE);
}

static void no_frame(void)
{
    __asm__ volatile("mov $8, %%esp\n mov $15, %%eax\n syscall" : : : "memory");
}

static void no_frame_blocked(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    no_frame();
}

static void no_frame_caught(void)
{
    spoil = -1;
    if (!sigsetjmp(back, 1))
        no_frame();
    printf("behind\n");
}

#define IN_CHILD(f) in_child(#f, f)
static void in_child(const char *name, void (*f)(void))
{
    int status;
    if (!fork()) {
        f();
        _exit(0);
    }
    wait(&status);
    printf("%s: %s %d\n", name, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Signals of faults, with the codes of faults, that a program sends to itself, as handlers do that pass on what they got; and one that
 * a call of the kernel's forces on it. */
int guest_queued(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGUSR1}, codes[] = {1, 2, 5, KERNEL};
    tell_of_all();
    for (int i = 0; i < 28; i++)
        printf("%ld\n", queue(signals[i / 4], codes[i % 4]));
    syscall(NR_URETPROBE);
    IN_CHILD(queued);
    IN_CHILD(queued_blocked);
    IN_CHILD(queued_blocked_as_forced);
    IN_CHILD(queued_ignored);
    IN_CHILD(forced_ignored);
    IN_CHILD(forced_blocked);
    return 0;
}

/* Frames that cannot be gone back by are the program's SIGSEGV. */
int guest_frames(void)
{
    tell_of_all();
    for (int i = 1; i <= 11; i++) {
        if (!sigsetjmp(back, 1)) {
            spoil = i;
            raise(SIGUSR1);
        }
        spoil = 0;
    }
    IN_CHILD(no_frame_caught);
    IN_CHILD(no_frame_blocked);
    return 0;
}

#define NOWHERE(code)                                                                                            \
    if (!sigsetjmp(back, 1))                                                                                     \
        __asm__ volatile("mov $0x1234567812345678, %%rax\n" code : : : "rax", "memory")

static void call_nowhere(void)
{
    act_and_block(SIGSEGV, SIG_DFL, SIG_UNBLOCK);
    NOWHERE("call *%%rax");
}

/* Branches to addresses that are not canonical. */
int guest_nowhere(void)
{
    tell_of_all();
    spoil = -1;
    NOWHERE("jmp *%%rax");
    NOWHERE("call *%%rax");
    NOWHERE("push %%rax\n ret");
    NOWHERE("mov $0x800000000000, %%rax\n jmp *%%rax");
    IN_CHILD(call_nowhere);
    return 0;
}

static void leave_wait(int signo, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    printf("signal %d\n", signo);
    siglongjmp(back, 1);
}

/* A signal comes to who waits for a page, and ends that. */
int guest_missed_page(void)
{
    struct sigaction a = {.sa_sigaction = leave_wait, .sa_flags = SA_SIGINFO};
    struct uffdio_api api = {.api = UFFD_API};
    volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {.range = {(uintptr_t)p, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, 1); /* UFFD_USER_MODE_ONLY */
    sigaction(SIGALRM, &a, NULL);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all))
        return 0; /* not on this kernel */
    if (!sigsetjmp(back, 1)) {
        ualarm(300000, 0);
        __asm__ volatile("nop\n movb $1, (%0)" : : "a"(p) : "memory");
    }
    printf("on\n");
    return 0;
}

static stack_t disarmed(void)
{
    return (stack_t){.ss_sp = alternate, .ss_size = sizeof alternate, .ss_flags = (int)(1u << 31)};
}

static void on_it(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info, (void)context;
    char *here = __builtin_frame_address(0);
    printf("%s\n", here > alternate && here < alternate + sizeof alternate ? "on it" : "elsewhere");
    for (int i = 0; i < 2; i++) {
        stack_t now, next = disarmed();
        int r = sigaltstack(&next, &now);
        printf("%d, flags %x\n", r, (unsigned)now.ss_flags);
    }
}

/* An alternate stack that handlers take away (SS_AUTODISARM) may be set anew by one that runs on it, and is nobody's then. */
int guest_disarmed(void)
{
    struct sigaction a = {.sa_sigaction = on_it, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t now = disarmed();
    sigaction(SIGUSR1, &a, NULL);
    if (sigaltstack(&now, NULL))
        return 1;
    raise(SIGUSR1);
    sigaltstack(NULL, &now);
    printf("flags %x\n", (unsigned)now.ss_flags);
    return 0;
}

static volatile int state_shown;

/* What a handler begins with, what its frame holds, and another state than it came with. */
static void show_state(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    struct _libc_fpstate *fpu = uc->uc_mcontext.fpregs;
    const uint32_t *mark = (const uint32_t *)((const char *)fpu + 464);
    uint16_t control;
    uint32_t mxcsr, features = 0;
    (void)info;
    __asm__ volatile("fnstcw %0\n stmxcsr %1" : "=m"(control), "=m"(mxcsr));
    int extended = uc->uc_flags & 1;
    if (extended)
        memcpy(&features, (const char *)fpu + mark[1] - 4, 4);
    printf("signal %d: %x %x, frame %x %x %x %x %x, extended %d %x, aligned %d\n", signo, control, mxcsr, fpu->cwd, fpu->ftw,
           fpu->mxcsr, fpu->_xmm[8].element[0], fpu->_xmm[15].element[3], extended, features, !((uintptr_t)fpu & 63));
    fpu->_xmm[9].element[1] = 0x9999;
    __asm__ volatile("fninit\n fldz\n pcmpeqd %%xmm8, %%xmm8\n pcmpeqd %%xmm15, %%xmm15" : : : "xmm8", "xmm15");
    if (signo == SIGILL)
        uc->uc_mcontext.gregs[REG_RIP] += 2;
    state_shown = 1;
}

static void with_state(int trigger, const uint32_t in[32], uint32_t out[32])
{
    uint16_t control[2] = {0x27f, 0};
    uint32_t mxcsr[2] = {0x5f80, 0};
    long double pi = 0;
    state_shown = 0;
    __asm__ volatile("fninit\n fldcw %[control]\n ldmxcsr %[mxcsr]\n fldpi\n"
                     "movdqu (%[in]), %%xmm8\n movdqu 16(%[in]), %%xmm9\n movdqu 32(%[in]), %%xmm15\n"
                     "cmp $1, %[trigger]\n ja 2f\n je 1f\n ud2\n jmp 3f\n"
                     "1: mov $39, %%eax\n syscall\n mov %%eax, %%edi\n mov $62, %%eax\n mov $10, %%esi\n syscall\n jmp 3f\n" /* getpid, kill */
                     "2: cmpl $0, %[shown]\n je 2b\n"
                     "3: movdqu %%xmm8, (%[out])\n movdqu %%xmm9, 16(%[out])\n movdqu %%xmm15, 32(%[out])\n"
                     "fstpt %[pi]\n fnstcw 2+%[control]\n stmxcsr 4+%[mxcsr]"
                     : [control] "+m"(control), [mxcsr] "+m"(mxcsr), [pi] "=m"(pi)
                     : [in] "r"(in), [out] "r"(out), [trigger] "r"(trigger), [shown] "m"(state_shown)
                     : "rax", "rcx", "rsi", "rdi", "r11", "xmm8", "xmm9", "xmm15", "memory", "cc");
    printf("%x %x %.18Lg\n", control[1], mxcsr[1], pi);
    for (int i = 0; i < 12; i++)
        if (in[i] != out[i])
            printf("%d: %x\n", i, out[i]);
}

/* What every x86-64 processor has of vector and x87 state, where a handler begins, in its frame, and when it has returned: of signals
 * that an instruction raises, that a system call sends, and that come between. */
int guest_state_in_frames(void)
{
    struct sigaction a = {.sa_sigaction = show_state, .sa_flags = SA_SIGINFO};
    uint32_t in[32], out[32];
    for (unsigned i = 0; i < 32; i++)
        in[i] = 0x01010101u * i;
    sigaction(SIGILL, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGALRM, &a, NULL);
    for (int round = 0; round < 2; round++)
        for (int trigger = 0; trigger < 3; trigger++) {
            if (trigger == 2)
                setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 5000}}, NULL);
            with_state(trigger, in, out);
        }
    return 0;
}
