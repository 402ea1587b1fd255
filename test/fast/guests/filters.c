/* SPDX-License-Identifier: MIT
 * Guests that lock themselves in: seccomp filters that forbid what the runtime itself needs. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

#define NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define ELSE(what) BPF_STMT(BPF_RET | BPF_K, (what))

static int install(struct sock_filter *code, size_t n, int by_syscall)
{
    struct sock_fprog filter = {(unsigned short)n, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return by_syscall ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                      : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
#define INSTALL(code, by) install(code, sizeof code / sizeof code[0], by)

static __attribute__((noinline)) uint64_t much_code(uint64_t h)
{
    char text[200];
    for (int i = 0; i < 200; i++)
        h = h * 31 + (uint64_t)snprintf(text, sizeof text, "%llx %s %g", (unsigned long long)h, i & 1 ? "odd" : "even", (double)i);
    qsort(text, 100, 1, (int (*)(const void *, const void *))strcmp);
    return h;
}

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(9);
}

/* Only write and exit: then code that never ran before runs, signals come and are blocked. */
int guest_seccomp_strict_filter(void)
{
    struct sock_filter code[] = {NR, ALLOW(SYS_write), ALLOW(SYS_exit_group), ELSE(SECCOMP_RET_KILL_PROCESS)};
    if (INSTALL(code, 0))
        return 1;
    char text[64];
    int n = snprintf(text, sizeof text, "%llx\n", (unsigned long long)much_code(1));
    if (write(1, text, (size_t)n) != n)
        return 2;
    _exit(5);
}

/* … and what it forbids is still forbidden. */
int guest_seccomp_kills(void)
{
    struct sock_filter code[] = {NR, ALLOW(SYS_write), ALLOW(SYS_exit_group), ELSE(SECCOMP_RET_KILL_PROCESS)};
    if (INSTALL(code, 1))
        return 1;
    say("before\n");
    getppid();
    say("after\n");
    return 0;
}

/* The first mode of all: read, write, exit and sigreturn. */
int guest_seccomp_mode_1(void)
{
    for (int bad = 0; bad < 2; bad++) {
        pid_t p = fork();
        if (!p) {
            if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
                _exit(1);
            much_code(3);
            say("inside\n");
            if (bad)
                syscall(SYS_getppid);
            syscall(SYS_exit, 4);
        }
        int status = 0;
        waitpid(p, &status, 0);
        printf("%x\n", status);
        fflush(stdout);
    }
    return 0;
}

static void say_refused(const char *what, long r)
{
    printf("%s: %ld %d\n", what, r, r < 0 ? errno : 0);
}

/* What cannot be installed, and that there is no way from filters to the strict mode. */
int guest_seccomp_refused(void)
{
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog one = {.len = 1, .filter = allow}, none = {.len = 0, .filter = allow}, nowhere = {.len = 1, .filter = (struct sock_filter *)8};
    say_refused("no program", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    say_refused("no code", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &(struct sock_fprog){.len = 1, .filter = NULL}));
    say_refused("no such flag", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1u << 31, NULL));
    say_refused("no such flag", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1u << 31, &nowhere));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    say_refused("no program", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    say_refused("no instructions", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none));
    say_refused("no memory", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nowhere));
    say_refused("none", prctl(PR_GET_SECCOMP));
    say_refused("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &one));
    say_refused("strict", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
    say_refused("strict", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
    say_refused("mode", prctl(PR_GET_SECCOMP));
    return 0;
}

static void emulate(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    const uint8_t *at = info->si_call_addr;
    printf("signal %d code %d call %d arch %x behind a SYSCALL %d, there %d\n", signo, info->si_code, info->si_syscall,
           info->si_arch, at[-2] == 0x0f && at[-1] == 5, (uint64_t)at == (uint64_t)uc->uc_mcontext.gregs[REG_RIP]);
    uc->uc_mcontext.gregs[REG_RAX] = 4711;
}

/* SIGSYS: the handler makes the call's result. */
int guest_seccomp_trap(void)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1), ELSE(SECCOMP_RET_TRAP),
                                 ELSE(SECCOMP_RET_ALLOW)};
    struct sigaction a = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    if (INSTALL(code, 1))
        return 1;
    for (int i = 0; i < 3; i++)
        printf("%ld\n", syscall(SYS_getppid));
    return 0;
}

static void *in_thread(void *arg)
{
    return (void *)(uintptr_t)much_code((uint64_t)(uintptr_t)arg);
}

/* No futex, no mmap, no open, no sigprocmask for the program while its threads translate new code. */
int guest_seccomp_threads(void)
{
    struct sock_filter code[] = {NR,
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 4, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 3, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 2, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
                                 ELSE(SECCOMP_RET_KILL_PROCESS), ELSE(SECCOMP_RET_ALLOW)};
    pthread_t t[4];
    uint64_t sum = 0;
    if (INSTALL(code, 1))
        return 1;
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, in_thread, (void *)i);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(t[i], &r);
        sum += (uintptr_t)r;
    }
    pid_t p = fork();
    if (!p)
        _exit((int)(much_code(9) & 63));
    int status = 0;
    waitpid(p, &status, 0);
    printf("%llx %x\n", (unsigned long long)sum, status);
    return 0;
}

/* A program started under a filter that its parent installed. */
int guest_seccomp_exec(void)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 1), ELSE(SECCOMP_RET_KILL_PROCESS),
                                 ELSE(SECCOMP_RET_ALLOW)};
    if (INSTALL(code, 1))
        return 1;
    execlp("echo", "echo", "under a filter", (char *)NULL);
    return 2;
}

/* Calls that the runtime answers itself are the filter's to refuse or to trap as well. */
int guest_seccomp_asks(void)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
                                 ELSE(SECCOMP_RET_ERRNO | 77),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 0, 1), ELSE(SECCOMP_RET_TRAP),
                                 ELSE(SECCOMP_RET_ALLOW)};
    struct sigaction a = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
    sigset_t set;
    stack_t stack;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (INSTALL(code, 1) || sigaction(SIGSYS, &a, NULL))
        return 1;
    errno = 0;
    long r = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    printf("%ld %d\n", r, errno);
    r = syscall(SYS_sigaltstack, NULL, &stack);
    printf("%ld\n", r);
    signal(SIGUSR1, SIG_IGN);
    printf("%d\n", raise(SIGUSR1));
    return 0;
}

/* Calls that the runtime answers itself, and that of another filter, with success or a trap in their place. */
int guest_seccomp_nothing_done(void)
{
    struct sock_filter success[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1), ELSE(SECCOMP_RET_ERRNO), ELSE(SECCOMP_RET_ALLOW)};
    struct sock_filter trap[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 0, 1), ELSE(SECCOMP_RET_TRAP), ELSE(SECCOMP_RET_ALLOW)};
    struct sigaction a = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
    sigset_t set;
    int status = 0;
    sigfillset(&set);
    if (sigaction(SIGSYS, &a, NULL) || INSTALL(trap, 0))
        return 1;
    printf("%d\n", INSTALL(success, 1));
    fflush(stdout);
    pid_t child = fork();
    if (!child) { /* a trap while SIGSYS is blocked ends it */
        sigprocmask(SIG_SETMASK, &set, NULL);
        sigaltstack(NULL, NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    printf("%x %d\n", status & 0xff7f, INSTALL(success, 0));
    printf("%d %d\n", sigprocmask(SIG_SETMASK, &set, NULL), sigaction(SIGUSR1, &a, NULL));
    fflush(stdout);
    raise(SIGUSR1);
    return 2;
}

static volatile int refused;

static void *exit_refused(void *status)
{
    long r = syscall(SYS_exit, status);
    printf("thread: %ld %s\n", r, strerror(errno));
    refused++;
    return NULL;
}

/* No thread ends, nor does the program, but by a signal. */
int guest_seccomp_no_end(void)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1), ELSE(SECCOMP_RET_ERRNO | EAGAIN),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1), ELSE(SECCOMP_RET_TRAP), ELSE(SECCOMP_RET_ALLOW)};
    struct sigaction a = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
    pthread_t t;
    volatile int more = 0;
    sigaction(SIGSYS, &a, NULL);
    if (INSTALL(code, 1))
        return 1;
    exit_refused(NULL);
    if (!pthread_create(&t, NULL, exit_refused, NULL))
        while (refused < 2)
            sched_yield();
    for (int i = 0; i < 3; i++)
        printf("%ld\n", syscall(SYS_exit_group, 4));
    for (int i = 0; i < 1000; i++)
        more += i;
    printf("%d\n", more);
    fflush(stdout);
    return raise(SIGKILL);
}

static int listener;

/* Code that never ran before, and then the call may pass. */
static void *answer(void *arg)
{
    struct seccomp_notif request = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
        return arg;
    much_code((uint64_t)request.data.nr);
    struct seccomp_notif_resp response = {.id = request.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
    return NULL;
}

/* A thread waits to install a filter until another one has let it pass. */
int guest_seccomp_answered(void)
{
    struct sock_filter asks[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1), ELSE(SECCOMP_RET_USER_NOTIF), ELSE(SECCOMP_RET_ALLOW)};
    struct sock_filter allow[] = {ELSE(SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof asks / sizeof asks[0], asks};
    pthread_t t;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (listener < 0 || pthread_create(&t, NULL, answer, NULL))
        return 1;
    printf("%d\n", INSTALL(allow, 1));
    pthread_join(t, NULL);
    return 0;
}

static void *fork_and_die(void *arg)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fork, 0, 1), ELSE(SECCOMP_RET_KILL_THREAD), ELSE(SECCOMP_RET_ALLOW)};
    if (!INSTALL(code, 1))
        syscall(SYS_fork);
    return arg;
}

/* A filter kills one thread, for a fork; the others go on, with code that never ran before. */
int guest_seccomp_kills_thread(void)
{
    pthread_t t;
    int status = 0;
    if (pthread_create(&t, NULL, fork_and_die, NULL) || pthread_join(t, NULL))
        return 1;
    pid_t child = fork();
    if (!child)
        _exit((int)(much_code(9) & 63));
    waitpid(child, &status, 0);
    printf("%x\n", status);
    printf("%llx\n", (unsigned long long)much_code(3));
    return 0;
}

static struct { int signo, code, calls, vector; void *addr; } tsc_fault;

/* Skip the instruction, which is RDTSC or RDTSCP. */
static void skip_tsc(int signo, siginfo_t *info, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    tsc_fault.signo = signo;
    tsc_fault.code = info->si_code;
    tsc_fault.addr = info->si_addr;
    tsc_fault.vector = (int)g[REG_TRAPNO];
    tsc_fault.calls++;
    g[REG_RIP] += ((const uint8_t *)g[REG_RIP])[1] == 0x31 ? 2 : 3;
}

static void print_tsc(const char *who)
{
    int mode = 0, r = prctl(PR_GET_TSC, &mode);
    tsc_fault.calls = 0;
    for (volatile int i = 0; i < 200; i++)
        __asm__ volatile("rdtsc\n rdtscp\n add %%eax, %%edx" : : : "rax", "rcx", "rdx", "cc", "memory");
    printf("%s: %d %d, %d faults\n", who, r, mode, tsc_fault.calls);
    fflush(stdout);
}

static void *read_tsc(void *who)
{
    print_tsc(who);
    return NULL;
}

static void in_child(void (*run)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        run();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("status %x\n", status & 0xff7f);
}

static void tsc_in_fork(void) { print_tsc("fork"); }

static void tsc_dies(void)
{
    signal(SIGSEGV, SIG_DFL);
    __asm__ volatile("rdtsc" : : : "rax", "rdx", "memory");
}

static void execute(void)
{
    execl("/proc/self/exe", "guests", "waited", (char *)0);
}

/* The program forbids itself to read the TSC, which the runtime does all the time. */
int guest_tsc(void)
{
    struct sigaction a = {.sa_sigaction = skip_tsc, .sa_flags = SA_SIGINFO};
    pthread_t thread;
    sigaction(SIGSEGV, &a, NULL);
    print_tsc("before");
    printf("%d\n", prctl(PR_SET_TSC, 3));
    printf("%d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
    print_tsc("forbidden");
    printf("signal %d code %d addr %p vector %d\n", tsc_fault.signo, tsc_fault.code, tsc_fault.addr, tsc_fault.vector);
    printf("%d\n", prctl(PR_GET_TSC, 8));
    if (!pthread_create(&thread, NULL, read_tsc, "thread"))
        pthread_join(thread, NULL);
    in_child(tsc_in_fork);
    in_child(tsc_dies);
    in_child(execute);
    printf("%d\n", execl("/dev/null", "null", (char *)0));
    print_tsc("after an exec that failed");
    printf("%d\n", prctl(PR_SET_TSC, PR_TSC_ENABLE));
    print_tsc("after");
    return 0;
}

static volatile uint8_t selector;
static struct { int calls, code, number, arch; int64_t after, rax, rcx, r11; bool has_state; } dispatched;
static volatile char *unreadable;

/* Whether a frame has the extended state, and says so at both of its ends. */
static bool has_extended_state(const ucontext_t *uc)
{
    struct { uint32_t magic, extended; uint64_t features; uint32_t size; } sw;
    uint32_t end = 0;
    const char *state = (const char *)uc->uc_mcontext.fpregs;
    memcpy(&sw, state + 464, sizeof sw); /* struct _fpx_sw_bytes [asm/sigcontext.h] */
    if (sw.magic == 0x46505853 && sw.size >= 576 && sw.extended >= sw.size + 4 && (sw.features & 3) == 3)
        memcpy(&end, state + sw.size, sizeof end);
    return end == 0x46505845;
}

static void on_dispatch(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    dispatched.has_state = has_extended_state(context);
    selector = 0;
    dispatched.calls++;
    dispatched.code = info->si_code;
    dispatched.number = info->si_syscall;
    dispatched.arch = (int)info->si_arch;
    dispatched.after = (char *)info->si_call_addr - (char *)(uintptr_t)g[REG_RIP];
    dispatched.rax = g[REG_RAX];
    dispatched.rcx = g[REG_RCX] - g[REG_RIP];
    dispatched.r11 = (g[REG_R11] ^ g[REG_EFL]) & 0xcd5;
}

/* A SYSCALL in one place. */
__asm__(".globl place_of_call\nplace_of_call: mov %rdi, %rax\n syscall\n after_call: ret\n");
long place_of_call(long number);
extern char after_call[];

static int dispatch(long mode, uintptr_t start, uintptr_t bytes, const volatile void *at)
{
    errno = 0;
    long r = prctl(59, mode, start, bytes, at);
    int e = errno;
    selector = 0;
    return r ? -e : 0;
}

/* One call from the place, its selector's byte as asked. */
static void call_selected(const char *what, uint8_t byte)
{
    memset(&dispatched, 0, sizeof dispatched);
    selector = byte;
    long r = place_of_call(0xe000);
    selector = 0;
    printf("%s: %lx, %d: code %d number %x arch %x after %d rax %x rcx %d r11 %x state %d\n", what, r, dispatched.calls, dispatched.code,
           (unsigned)dispatched.number, (unsigned)dispatched.arch, (int)dispatched.after, (unsigned)dispatched.rax, (int)dispatched.rcx,
           (unsigned)dispatched.r11, dispatched.has_state);
    fflush(stdout);
}

static void dispatch_errors(void)
{
    const uintptr_t a = 0x1000;
    printf("%d %d %d %d", dispatch(0, 1, 0, NULL), dispatch(9, 0, 0, NULL), dispatch(1, 1, 0, &selector), dispatch(1, a, -a, &selector));
    printf(" %d %d %d\n", dispatch(1, 0, 0, (void *)-1), dispatch(1, a, a, &selector), dispatch(0, 0, 0, NULL));
    printf("%d %d", dispatch(2, 0, 0, &selector), dispatch(2, a, -a, &selector));
    printf(" %d %d\n", dispatch(2, a, a, &selector), dispatch(0, 0, 0, NULL));
}

static void bad_selector(void)
{
    dispatch(1, 0, 0, &selector);
    call_selected("another byte", 2);
}

static void no_selector(void) { dispatch(1, 0, 0, unreadable); }
static void all_calls(void) { dispatch(1, 0, 0, NULL); }
static void in_fork(void) { call_selected("fork", 1); }

static void dispatch_over_exec(void)
{
    dispatch(1, 0, 0, &selector);
    execute();
}

static void blocked_dispatch(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigprocmask(SIG_BLOCK, &set, NULL);
    dispatch(1, 0, 0, &selector);
    call_selected("blocked", 1);
}

static atomic_int maker_is_free;

static void *call_in_thread(void *opaque)
{
    while (!maker_is_free)
        sched_yield();
    call_selected("thread", 1);
    return opaque;
}

/* A thread begins without what its maker dispatches. The byte is one of both: the maker's waiting must not meet it. */
static void dispatch_in_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_in_thread, NULL))
        return;
    dispatch(0, 0, 0, NULL);
    maker_is_free = 1;
    pthread_join(thread, NULL);
    dispatch(1, 0, 0, &selector);
}

/* System calls that the program dispatches to itself, which the kernel would do with the runtime's, too. */
int guest_dispatch(void)
{
    struct sigaction a = {.sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    dispatch_errors();
    printf("%d\n", dispatch(1, 0, 0, &selector));
    call_selected("lets pass", 0);
    call_selected("blocks", 1);
    for (int i = 0; i < 300; i++)
        call_selected("again", i % 3 == 0);
    in_child(in_fork);
    dispatch_in_thread();
    printf("%d\n", dispatch(1, (uintptr_t)place_of_call, (uintptr_t)after_call - (uintptr_t)place_of_call, &selector));
    call_selected("up to the call", 1);
    printf("%d\n", dispatch(1, (uintptr_t)place_of_call, (uintptr_t)after_call - (uintptr_t)place_of_call + 1, &selector));
    call_selected("with the address behind", 1);
    printf("%d\n", dispatch(0, 0, 0, NULL));
    call_selected("off", 1);
    unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    in_child(bad_selector);
    in_child(no_selector);
    in_child(all_calls);
    in_child(blocked_dispatch);
    in_child(dispatch_over_exec);
    return 0;
}

/* What filters say to arch_prctl holds where the runtime keeps the base of GS itself, too. */
int guest_seccomp_bases(void)
{
    struct sock_filter code[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1001, 0, 1), ELSE(SECCOMP_RET_ERRNO | EPERM), ELSE(SECCOMP_RET_ALLOW)};
    struct sock_filter none[] = {NR, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1), ELSE(SECCOMP_RET_ERRNO | ENOSYS), ELSE(SECCOMP_RET_ALLOW)};
    uint64_t base = 0;
    say_refused("set", syscall(SYS_arch_prctl, 0x1001, 0x12345000));
    for (int i = 0; i < 2; i++) {
        say_refused("install", i ? INSTALL(none, 1) : INSTALL(code, 1));
        say_refused("set", syscall(SYS_arch_prctl, 0x1001, 0x54321000));
        say_refused("get", syscall(SYS_arch_prctl, 0x1004, &base));
        say_refused("get nowhere", syscall(SYS_arch_prctl, 0x1004, 8));
        printf("%llx\n", (unsigned long long)base);
    }
    return 0;
}
