/* SPDX-License-Identifier: MIT
 * Guests about signals: what a handler sees and what goes on after it, printed. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

static sigjmp_buf back;
static volatile sig_atomic_t count;
static volatile int64_t seen[24];
static char alternate[1 << 16];

static void catch(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaction(signo, &a, NULL);
}

static void keep_registers(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    for (int i = 0; i < 17; i++)
        seen[i] = uc->uc_mcontext.gregs[i];
    printf("signal %d code %d addr %s\n", signo, info->si_code, info->si_addr == (void *)0x10 ? "16" : "other");
    siglongjmp(back, 1);
}

#define SET_ALL                                                                                                  \
    "mov $0x101, %%eax\n mov $0x102, %%ecx\n mov $0x103, %%edx\n mov $0x104, %%ebx\n mov $0x106, %%esi\n"        \
    "mov $0x107, %%edi\n mov $0x108, %%r8d\n mov $0x109, %%r9d\n mov $0x10a, %%r10d\n mov $0x10b, %%r11d\n"      \
    "mov $0x10c, %%r12d\n mov $0x10d, %%r13d\n mov $0x10e, %%r14d\n mov $0x10f, %%r15d\n"
#define ALL "rax", "rcx", "rdx", "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc"

static void print_registers(const char *what)
{
    printf("%s:", what);
    for (int i = 0; i < 16; i++)
        if (i != REG_RSP && i != REG_RBP)
            printf(" %llx", (unsigned long long)(seen[i] < 0x10000 ? seen[i] : -1));
    printf("\n");
}

#define FAULT(name, code)                                                                                        \
    if (!sigsetjmp(back, 1)) {                                                                                   \
        __asm__ volatile(SET_ALL code : : : ALL);                                                                \
        printf("%s: no fault\n", name);                                                                          \
    } else                                                                                                       \
        print_registers(name)

/* A fault in each kind of translated instruction. */
int guest_faults(void)
{
    static const int signals[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
    for (int i = 0; i < 5; i++)
        catch(signals[i], keep_registers, 0);
    FAULT("load", "mov $0x10, %%eax\n mov (%%rax), %%rdx");
    FAULT("store r11", "mov $0x10, %%eax\n mov %%r11, (%%rax)");
    FAULT("base r11", "mov $0x10, %%r11d\n mov (%%r11), %%r8");
    FAULT("index r11", "mov $0x10, %%r11d\n xor %%eax, %%eax\n add %%r9, (%%rax, %%r11)");
    FAULT("all stand-ins used", "mov $0x10, %%r11d\n vmovdqu %%ymm8, (%%r11)");
    FAULT("vvvv r11", "mov $0x10, %%eax\n andn (%%rax), %%r11, %%r9");
    FAULT("after branches", "test %%eax, %%eax\n jz 1f\n cmp $1, %%ecx\n je 1f\n mov $0x10, %%edx\n mov (%%rdx), %%edx\n 1:");
    FAULT("jump through memory", "mov $0x10, %%ecx\n jmp *(%%rcx)");
    FAULT("jump through r11", "mov $0x10, %%r11d\n jmp *(%%r11)");
    FAULT("call nowhere", "mov $0x10, %%ecx\n sub $128, %%rsp\n call *%%rcx\n");
    FAULT("jump to r11", "mov $0x10, %%r11d\n jmp *%%r11");
    FAULT("ud2", "ud2");
    FAULT("int3", "int3");
    FAULT("divide", "xor %%r11d, %%r11d\n div %%r11d");
    FAULT("hlt", "hlt");
    FAULT("rep movs", "mov $0x10, %%esi\n mov %%rsp, %%rdi\n sub $256, %%rdi\n mov $4, %%ecx\n rep movsb");
    return 0;
}

static void skip_ud2(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    ucontext_t *uc = context;
    uc->uc_mcontext.gregs[REG_RIP] += 2;
    uc->uc_mcontext.gregs[REG_R11] = 0x1111;
    uc->uc_mcontext.gregs[REG_RCX] = 0x2222;
    uc->uc_mcontext.fpregs->_xmm[3].element[0] = 0x3333;
}

/* A handler that edits the context goes on with what it wrote. */
int guest_edit(void)
{
    uint64_t r11, rcx, x;
    catch(SIGILL, skip_ud2, 0);
    __asm__ volatile("ud2\n mov %%r11, %0\n mov %%rcx, %1\n movq %%xmm3, %2"
                     : "=r"(r11), "=r"(rcx), "=r"(x) : : "r11", "rcx", "xmm3");
    printf("%llx %llx %llx\n", (unsigned long long)r11, (unsigned long long)rcx, (unsigned long long)x & 0xffffffff);
    return 0;
}

static void tick(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info, (void)context;
    volatile double x = 1.5;
    x = x * x;
    count++;
}

/* Asynchronous signals at any moment change nothing but the count. */
int guest_storm(void)
{
    struct itimerval every = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
    uint64_t h = 1;
    double x = 1;
    catch(SIGALRM, tick, SA_RESTART);
    setitimer(ITIMER_REAL, &every, NULL);
    for (long i = 0; i < 4000000 || count < 100; i++) {
        if (i >= 4000000)
            continue;
        h = h * 31 + (uint64_t)i;
        if (h & 64)
            h ^= h >> 7;
        x = x * 1.0000001 + 1e-9;
    }
    setitimer(ITIMER_REAL, &none, NULL);
    printf("%llx %.17g\n", (unsigned long long)h, x);
    return 0;
}

static void on_alternate(int signo, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    char here;
    stack_t now;
    sigaltstack(NULL, &now);
    printf("signal %d on the alternate stack: %d, flags %d\n", signo, &here >= alternate && &here < alternate + sizeof alternate,
           now.ss_flags);
    siglongjmp(back, 1);
}

static int deep(volatile char *p)
{
    volatile char frame[4096];
    frame[0] = *p;
    return deep(frame) + frame[0];
}

/* The stack runs over, and the handler runs on the alternate one. */
int guest_overflow(void)
{
    stack_t s = {.ss_sp = alternate, .ss_size = sizeof alternate};
    volatile char start = 0;
    sigaltstack(&s, NULL);
    catch(SIGSEGV, on_alternate, SA_ONSTACK);
    if (!sigsetjmp(back, 1))
        printf("%d\n", deep(&start));
    printf("back\n");
    return 0;
}

static void note_value(int signo, siginfo_t *info, void *context)
{
    (void)context;
    printf("%d:%d ", signo == SIGRTMIN ? 1 : 2, info->si_value.sival_int);
}

/* Masks, pending signals, the order of queued ones, waiting with another mask. */
int guest_masks(void)
{
    sigset_t all, old, now, none;
    sigfillset(&all);
    sigemptyset(&none);
    catch(SIGRTMIN, note_value, 0);
    catch(SIGRTMIN + 1, note_value, 0);
    sigprocmask(SIG_SETMASK, &all, &old);
    for (int i = 0; i < 4; i++) {
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i});
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    }
    sigpending(&now);
    printf("pending %d %d\n", sigismember(&now, SIGRTMIN), sigismember(&now, SIGUSR1));
    printf("suspend %d\n", sigsuspend(&none) == -1 && errno == EINTR);
    struct timespec soon = {0, 1000000};
    printf("ppoll %d\n", ppoll(NULL, 0, &soon, &none));
    sigprocmask(SIG_SETMASK, NULL, &now);
    printf("blocked %d\n", sigismember(&now, SIGUSR2));
    sigprocmask(SIG_SETMASK, &old, NULL);
    raise(SIGRTMIN);
    printf("\n");
    return 0;
}

static void do_nothing(int signo)
{
    (void)signo;
}

/* The kernel forgets flags that it does not know, of handlers and of what else is done. */
int guest_action_flags(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } set = {0}, is = {0};
    void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, do_nothing};
    for (int signo = SIGUSR1; signo <= SIGSEGV; signo++)
        for (int i = 0; i < 3 * 64; i++) {
            set.handler = handlers[i % 3];
            set.flags = 1ul << i / 3;
            syscall(SYS_rt_sigaction, signo, &set, NULL, 8);
            syscall(SYS_rt_sigaction, signo, NULL, &is, 8);
            printf("%d %d %lx: %lx\n", signo, i % 3, set.flags, is.flags);
        }
    return 0;
}

static int told[2];

static void tell(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info, (void)context;
    count += write(told[1], "", 1) == 1;
}

/* A read that signals interrupt: restarted or not, as the action says. What is read for comes from a child that
 * waits: for five signals, or until the read has failed. */
int guest_restart(void)
{
    for (int restart = 0; restart < 2; restart++) {
        int fd[2];
        char c = '?';
        if (pipe(fd) || pipe(told))
            return 1;
        count = 0;
        pid_t child = fork();
        if (!child) {
            char byte;
            for (int i = 0; i < (restart ? 5 : 1000000) && read(told[0], &byte, 1) == 1 && !byte;)
                i++;
            _exit(write(fd[1], "x", 1) != 1);
        }
        catch(SIGALRM, tell, restart ? SA_RESTART : 0);
        struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &often, NULL);
        long n = read(fd[0], &c, 1);
        const char *why = n < 0 ? strerror(errno) : "";
        setitimer(ITIMER_REAL, &never, NULL);
        printf("%d: %ld %s %c %s\n", restart, n, why, c, count >= (restart ? 5 : 1) ? "signals" : "too few");
        if (write(told[1], "!", 1) != 1)
            return 1;
        waitpid(child, NULL, 0);
        for (int i = 0; i < 2; i++) {
            close(fd[i]);
            close(told[i]);
        }
    }
    return 0;
}

/* A fault's signal that is sent, while it is ignored or blocked, does not end a read. */
int guest_unheard(void)
{
    static const int signals[] = {SIGSEGV, SIGTRAP, SIGUSR1};
    for (int i = 0; i < 6; i++) {
        int fd[2], signo = signals[i % 3];
        struct sigaction a = {.sa_handler = i < 3 ? SIG_IGN : SIG_DFL};
        sigset_t set;
        char c = '?';
        sigemptyset(&set);
        sigaddset(&set, signo);
        if (pipe(fd))
            return 1;
        sigaction(signo, &a, NULL);
        sigprocmask(i < 3 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
        pid_t child = fork();
        if (!child) {
            usleep(100000);
            kill(getppid(), signo);
            usleep(100000);
            _exit(write(fd[1], "x", 1) != 1);
        }
        long n = read(fd[0], &c, 1);
        printf("%d %s: %ld %c\n", signo, i < 3 ? "ignored" : "blocked", n, c);
        waitpid(child, NULL, 0);
    }
    return 0;
}

/* A handler of SIGTERM that is not there: the default ends the program. */
int guest_terminated(void)
{
    printf("before\n");
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}

int guest_crash(void)
{
    printf("before\n");
    fflush(stdout);
    *(volatile int *)8 = 1;
    return 0;
}

int guest_trapped(void)
{
    printf("before\n");
    fflush(stdout);
    __asm__ volatile("int3");
    return 0;
}

static volatile int depth;

static void raise_again(int signo, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    if (++depth < 200)
        raise(signo);
}

/* A frame that does not fit on the alternate stack is none: the process dies. */
int guest_alternate_overflow(void)
{
    int status;
    if (!fork()) {
        static char stack[1 << 20];
        sigaltstack(&(stack_t){.ss_sp = stack + sizeof stack - 16384, .ss_size = 16384}, NULL);
        catch(SIGUSR1, raise_again, SA_ONSTACK | SA_NODEFER);
        raise(SIGUSR1);
        _exit(depth);
    }
    wait(&status);
    printf("%s %d\n", WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
}

static void count_one(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info, (void)context;
    count++;
}

/* A pending signal that the mask of the call lets through. */
int guest_io_waits(void)
{
    struct io_event_bytes { uint64_t word[4]; } event;
    struct { const sigset_t *mask; size_t size; } with = {.size = 8};
    sigset_t blocked, none;
    uint64_t aio = 0;
    struct timespec second = {1, 0};
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    with.mask = &none;
    catch(SIGUSR1, count_one, 0);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    raise(SIGUSR1);
    if (syscall(SYS_io_setup, 1, &aio))
        return 1;
    long r = syscall(SYS_io_pgetevents, aio, 1L, 1L, &event, &second, &with);
    printf("%ld %s, %d signals\n", r, r < 0 ? strerror(errno) : "", (int)count);
    return 0;
}

/* ---- watchpoints ---- */

static volatile uint64_t watched;
static volatile uint64_t trapped_at;

static void note_trap(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    count++;
    trapped_at = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* A data watchpoint on the first 8 bytes, for reads and writes, set by a child as a debugger does. */
static void watch(volatile uint64_t *what)
{
    pid_t parent = getpid(), child = fork();
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    long failed = ptrace(PTRACE_ATTACH, parent, NULL, NULL);
    waitpid(parent, NULL, 0);
    failed |= ptrace(PTRACE_POKEUSER, parent, offsetof(struct user, u_debugreg[0]), what);
    failed |= ptrace(PTRACE_POKEUSER, parent, offsetof(struct user, u_debugreg[7]), 2 | 3 << 16 | 2 << 18);
    ptrace(PTRACE_DETACH, parent, NULL, NULL);
    _exit(failed != 0);
}

#define TRAPS(name, code)                                                                                        \
    count = 0;                                                                                                   \
    __asm__ volatile("lea 1f(%%rip), %%rcx\n" code "\n1: nop" : "=&c"(behind), "+m"(watched) : : "rax", "r11", "memory", "cc"); \
    getppid();                                                                                                   \
    printf("%s: %d traps, %s\n", name, (int)count, trapped_at == behind ? "behind it" : "elsewhere")

/* Each access traps once, however it is translated, and has been done once. */
int guest_watchpoints(void)
{
    uint64_t behind;
    catch(SIGTRAP, note_trap, 0);
    watch(&watched);
    TRAPS("store", "mov $5, %%eax\n mov %%rax, %1");
    TRAPS("read and write", "addq $5, %1");
    TRAPS("a MOV SS, which waits for one instruction more", "mov %%ss, %%eax\n mov %%rax, %1\n lea 1f(%%rip), %%rcx\n mov %1, %%ss\n int3");
    watched = 0;
    count = 0;
    for (int i = 0; i < 1000; i++)
        __asm__ volatile("mov $3, %%r11d\n add %%r11, %0" : "+m"(watched) : : "r11", "cc");
    getppid();
    int traps = count;
    printf("1000 times 3, by R11: %d traps, %d\n", traps, (int)watched);
    count = 0;
    __asm__ volatile("lea 1f(%%rip), %%rax\n mov %%rax, %0\n jmp *%0\n1: nop" : "+m"(watched) : : "rax");
    getppid();
    printf("a jump by it: %d traps\n", (int)count);
    return 0;
}
