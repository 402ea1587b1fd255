/* SPDX-License-Identifier: MIT
 * Guests about code that changes, and about what the processor keeps. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

/* The kernel writes code. */
int guest_kernel_writes(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC), code[6];
    int fd[2];
    long sum = 0;
    if (pipe(fd))
        return 1;
    for (int i = 0; i < 50; i++) {
        put_return(code, i);
        if (write(fd[1], code, 6) != 6 || read(fd[0], p, 6) != 6)
            return 1;
        sum += call(p);
    }
    printf("%ld\n", sum);
    return 0;
}

/* Registers that are no arguments, and what leads a long way behind them, take no time where code is watched. */
int guest_far_arguments(void)
{
    enum { PAGE = 4096 };
    const size_t bytes = (size_t)1 << 46;
    uint8_t *low = mmap((void *)0x100000000, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    int fd[2];
    if (low == MAP_FAILED || pipe(fd) || write(fd[1], "abc", 3) != 3)
        return 1;
    put_return(p, 7);
    printf("%d\n", call(p));
    register long r8 __asm__("r8") = -5000;
    long parent = SYS_getppid;
    __asm__ volatile("syscall" : "+a"(parent) : "r"(r8) : "rcx", "r11", "memory");
    printf("%d\n", parent == getppid());
    printf("%ld %.3s\n", syscall(SYS_read, fd[0], low, bytes), low);
    put_return(p, 8);
    printf("%d\n", call(p));
    return 0;
}

/* … through /proc/self/mem, where the program itself may not write: at offsets, and behind a position. */
int guest_memory_file(void)
{
    int fd = open("/proc/self/mem", O_RDWR);
    for (int how = 0; how < 4; how++) {
        uint8_t *p = pages(how & 1 ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE | PROT_EXEC), code[6];
        long sum = 0;
        for (int i = 0; i < 50; i++) {
            put_return(code, i);
            bool written = how < 2 ? pwrite(fd, code, 6, (off_t)p) == 6 : lseek(fd, (off_t)p, SEEK_SET) == (off_t)p && write(fd, code, 6) == 6;
            if (!written)
                return 1;
            sum += call(p);
        }
        printf("%ld\n", sum);
    }
    uint8_t *p = (uint8_t *)(uintptr_t)strtof, old = *p, ret = 0xc3; /* a library's function that has not run */
    if (pwrite(fd, &ret, 1, (off_t)p) != 1)
        return 1;
    strtof("1", NULL);
    return pwrite(fd, &old, 1, (off_t)p) != 1 || strtof("1.5", NULL) != 1.5f;
}

/* What the kernel writes comes whole, though code has run in the middle of where it goes; nothing of it is lost. */
int guest_kernel_reads(void)
{
    enum { PAGE = 4096, BYTES = 3 * PAGE };
    static uint8_t from[BYTES];
    uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *code = p + PAGE;
    struct iovec v[2] = {{p, 100}, {p + 100, BYTES - 100}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    int fd[2], pair[2], status;
    if (pipe(fd) || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        return 1;
    for (int i = 0; i < 4; i++) {
        put_return(code, i);
        int value = call(code);
        put_return(from + PAGE, 100 + i);
        bool message = i > 1;
        long sent = write(message ? pair[1] : fd[1], from, BYTES);
        long got = i == 0 ? read(fd[0], p, BYTES) : i == 1 ? readv(fd[0], v, 2) : i == 2 ? recv(pair[0], p, BYTES, 0) : recvmsg(pair[0], &m, 0);
        printf("%d %ld %ld %d\n", value, sent, got, call(code));
    }
    pid_t child = fork();
    if (!child)
        _exit(7);
    call(code);
    long ended = waitpid(child, (int *)(code + 64), 0);
    memcpy(&status, code + 64, sizeof status);
    printf("%d %d\n", ended == child, WEXITSTATUS(status));
    return 0;
}

int guest_dlopen(void)
{
    double x = 0;
    for (int i = 0; i < 30; i++) {
        void *m = dlopen("libm.so.6", RTLD_NOW);
        double (*f)(double) = (double (*)(double))dlsym(m, i & 1 ? "cos" : "sin");
        x += f(i);
        dlclose(m);
    }
    printf("%.12f\n", x);
    return 0;
}

int guest_vdso(void)
{
    struct timespec a, b;
    int back = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 10000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &b);
        back += b.tv_sec < a.tv_sec || (b.tv_sec == a.tv_sec && b.tv_nsec < a.tv_nsec);
        a = b;
    }
    printf("%d %d\n", back, time(NULL) > 1000);
    return 0;
}

/* What the vDSO's getrandom takes, and tells: how its state is to be mapped [vgetrandom, Linux 6.11]. */
typedef ssize_t get_random(void *to, size_t bytes, unsigned flags, void *state, size_t state_bytes);
struct random_state {
    uint32_t bytes, prot, flags, reserved[13];
};

static get_random *vdso_random(void)
{
    void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD), *f = vdso ? dlsym(vdso, "__vdso_getrandom") : NULL;
    get_random *get = NULL;
    memcpy(&get, &f, sizeof get);
    return get;
}

/* As glibc has it from 2.41 on: numbers that do not come again, neither in a child, which does not inherit the state. */
int guest_random(void)
{
    struct random_state how = {0};
    get_random *get = vdso_random();
    uint64_t number[64], again = 0, *theirs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!get || get(NULL, 0, 0, &how, ~(size_t)0))
        return 1;
    void *state = mmap(NULL, 4096, (int)how.prot, (int)how.flags, -1, 0);
    for (int i = 0; i < 64; i++) {
        again += get(&number[i], 8, 0, state, how.bytes) != 8;
        for (int k = 0; k < i; k++)
            again += number[i] == number[k];
    }
    if (!fork())
        _exit(get(theirs, 8 * 64, 0, state, how.bytes) != 8 * 64);
    wait(NULL);
    again += get(number, sizeof number, 0, state, how.bytes) != sizeof number;
    printf("%d %d %d\n", (int)again, memcmp(number, theirs, sizeof number) != 0, theirs[63] != 0);
    return 0;
}

int guest_gs(void)
{
    static uint64_t area[4] = {11, 22, 33, 44};
    uint64_t v = 0, base = 0;
    syscall(SYS_arch_prctl, 0x1001, area);
    __asm__ volatile("mov %%gs:8, %0" : "=r"(v));
    __asm__ volatile("movq $55, %%gs:16" : : : "memory");
    syscall(SYS_arch_prctl, 0x1004, &base);
    printf("%llu %llu %d\n", (unsigned long long)v, (unsigned long long)area[2], base == (uint64_t)(uintptr_t)area);
    uint64_t selectors[4] = {0};
    for (uint64_t selector = 0; selector < 0x2c; selector += 0x2b) {
        __asm__ volatile("mov %k1, %%gs\n mov %%gs, %k0" : "=r"(selectors[0]) : "r"(selector));
        syscall(SYS_getppid);
        __asm__ volatile("push %%gs\n pop %0\n mov %%gs, %k1" : "=r"(selectors[1]), "=r"(selectors[2]));
        printf("%llx %llx %llx\n", (unsigned long long)selectors[0], (unsigned long long)selectors[1], (unsigned long long)selectors[2]);
    }
    syscall(SYS_arch_prctl, 0x1001, area);
    __asm__ volatile("mov %%gs:24, %0\n mov %%gs, %k1" : "=r"(v), "=r"(selectors[3]));
    printf("%llu %llx\n", (unsigned long long)v, (unsigned long long)selectors[3]);
    return 0;
}

static uint64_t gs_words[32];
static uint64_t gs_fault[3];

static void on_gs_fault(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    const greg_t *r = uc->uc_mcontext.gregs;
    gs_fault[0] = (uint64_t)r[REG_RSI], gs_fault[1] = (uint64_t)r[REG_RDI], gs_fault[2] = (uint64_t)(uintptr_t)info->si_addr + (uint64_t)signo;
    uc->uc_mcontext.gregs[REG_RIP] += 5; /* 65 48 8b 0c 37 */
}

/* Ways to name an operand in GS, and registers that are named beside it or hidden. */
static void gs_operands(void)
{
    uint64_t a = 0, b = 0, c = 0, d = 0, at = 3, shifted = UINT64_C(0x700000000) + 8;
#define OP(text, ...) __asm__ volatile(text __VA_ARGS__)
    OP("mov %%gs:16(,%4,8), %0\n mov %%gs:(%5), %1\n mov %%gs:8(%5,%4,8), %2\n movzwl %%gs:80, %k3",
       : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d) : "r"(at), "r"(at * 8));
    printf("%llx %llx %llx %llx\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d);
    OP("mov %1, %%r11\n mov %%gs:(%%r11), %0\n mov %%gs:8(%%r11,%%r11), %%r11\n add %%r11, %0\n mov %0, %%r11\n mov %%r11, %%gs:8", : "=&r"(a) : "r"(at * 8) : "r11", "memory");
    OP("mov %1, %%rsi\n mov %1, %%rdi\n mov %%gs:(%%rsi,%%rdi), %0\n add %%gs:(%%rsi), %%rdi\n add %%rdi, %0", : "=&r"(b) : "r"(at * 8) : "rsi", "rdi");
    OP("mov %1, %%rdi\n mov $0x1234, %%esi\n mov $0x5600, %%ebx\n mov %%esi, %%gs:(%%rdi)\n mov %%bh, %%gs:4(%%rdi)\n mov %1, %%rsi\n mov %%bh, %%gs:5(%%rsi)\n mov %%gs:(%%rdi), %0\n add %%rbx, %0", : "=&r"(c) : "r"(at * 8) : "rsi", "rdi", "rbx", "memory");
    OP("mov %%rbp, %%rsi\n mov %1, %%rbp\n mov %%gs:8(%%rbp), %0\n add %%gs:(%%rbp), %0\n mov %%rsi, %%rbp", : "=&a"(d) : "d"(at * 8) : "rsi");
    printf("%llx %llx %llx %llx\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d);
    OP("mov %%gs:8(%k2), %0\n mov %%gs:(%k2,%k3), %1", : "=&r"(a), "=&r"(b) : "r"(shifted), "r"(shifted)); /* cut off at 32 bits */
    OP("mov %2, %%r11\n add %%gs:8(%%r11d), %0\n mov %2, %%rdi\n mov $7, %%esi\n mov %%esi, %%gs:16(%%edi)\n mov %%gs:16(%%edi), %1\n .byte 0x65\n lea 8(%%rdi), %2", : "+r"(a), "+r"(b), "+r"(shifted) : : "r11", "rsi", "rdi", "memory");
    printf("%llx %llx %llx\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)shifted);
    OP("pushq %%gs:(%2)\n pop %0\n push $5\n popq %%gs:(%2)\n addb $3, %%gs:(%2)\n lock xadd %0, %%gs:(%2)\n mov %%gs:0x18, %%eax\n mov %%rax, %1", : "=&r"(a), "=&r"(b) : "r"(at * 8) : "rax", "memory");
    OP("mov $24, %%esi\n lea gs_words+64(%%rip), %%rdi\n lodsq %%gs:(%%rsi)\n mov %%rax, %0\n movabs %%gs:0x20, %%rax\n xor %%rax, %0\n mov $40, %%ebx\n mov $3, %%eax\n xlat %%gs:(%%rbx)\n add %%rax, %0",
       : "=&r"(c) : : "rax", "rbx", "rsi", "rdi", "memory");
    OP("vmovdqu %%gs:(%1), %%ymm0\n vpaddq %%gs:32(%1,%1), %%ymm0, %%ymm1\n vmovdqu %%ymm1, %%gs:128(%1)\n vmovq %%xmm1, %0\n andn %%gs:8(%1), %0, %0\n vzeroupper", : "=&r"(d) : "r"(at * 8) : "xmm0", "xmm1", "memory");
    printf("%llx %llx %llx %llx\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d);
    OP("mov $48, %%esi\n mov $56, %%edi\n mov $1, %%eax\n mov $2, %%ecx\n mov $3, %%edx\n mov $4, %%ebx\n lock cmpxchg16b %%gs:-8(%%rsi)\n mov %%rbx, %0\n add %%rdi, %0", : "=&r"(a) : : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "memory");
    uint64_t sum = 0;
    for (int i = 0; i < 32; i++)
        sum = sum * 31 + gs_words[i];
    printf("%llx %llx\n", (unsigned long long)a, (unsigned long long)sum);
    OP("mov $0x123000, %%esi\n mov $0x456000, %%edi\n neg %%rsi\n sub %0, %%rsi\n .byte 0x65, 0x48, 0x8b, 0x0c, 0x37", : : "r"(gs_words) : "rcx", "rsi", "rdi");
#undef OP
}

int guest_gs_operands(void)
{
    struct sigaction action = {.sa_sigaction = on_gs_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    syscall(SYS_arch_prctl, 0x1001, gs_words);
    for (uint64_t i = 0; i < 32; i++)
        gs_words[i] = i * UINT64_C(0x101010101010101);
    for (int i = 0; i < 3; i++)
        gs_operands();
    printf("%d %llx %llx\n", gs_fault[0] == -UINT64_C(0x123000) - (uint64_t)(uintptr_t)gs_words, (unsigned long long)gs_fault[1], (unsigned long long)gs_fault[2]);
    return 0;
}

static bool ask_shadow_stack(int option, unsigned long argument)
{
    errno = 0;
    long r = syscall(SYS_arch_prctl, option, argument);
    printf("%x %ld %d\n", (unsigned)option, r, errno);
    return !r;
}

/* What the kernel says where it gives no shadow stack. Where it would give one, nothing could return from there on: it is not asked for. */
int guest_shadow_stack(void)
{
    enum { ENABLE = 0x5001, DISABLE = 0x5002, LOCK = 0x5003, STATUS = 0x5005, SHSTK = 1, WRSS = 2 };
    unsigned long features = 7;
    bool given = ask_shadow_stack(DISABLE, SHSTK);
    for (unsigned long f = 0; f < 8; f++)
        if (f != SHSTK || !given)
            ask_shadow_stack(ENABLE, f);
    ask_shadow_stack(DISABLE, WRSS);
    ask_shadow_stack(STATUS, (unsigned long)&features);
    printf("%lu\n", features);
    if (ask_shadow_stack(LOCK, SHSTK | WRSS) || !given)
        ask_shadow_stack(ENABLE, SHSTK);
    return 0;
}

int guest_int80(void)
{
    int r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11"); /* getpid */
    printf("%d\n", r == getpid());
    return 0;
}

static volatile int traps;

static void on_trap(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    ucontext_t *uc = context;
    traps += info->si_code == TRAP_TRACE;
    uc->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

/* The program sets the trap flag itself. */
int guest_trap_flag(void)
{
    struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &a, NULL);
    __asm__ volatile("pushfq\n orl $0x100, (%%rsp)\n popfq\n nop\n nop" : : : "memory", "cc");
    printf("%d\n", traps);
    return 0;
}

/* What a program steps through: calls to the kernel, INT, branches, PUSHF, each way to set and to clear the flag. */
#define TF_ON "pushfq\n orl $0x100, (%rsp)\n popfq\n"
#define TF_OFF "pushfq\n andl $~0x100, (%rsp)\n popfq\n"
#define IRET_WITH(change) "mov %rsp, %rdx\n mov %ss, %ecx\n push %rcx\n push %rdx\n pushfq\n " change "\n mov %cs, %ecx\n push %rcx\n" \
                          "lea 9f(%rip), %rcx\n push %rcx\n iretq\n 9:"
__asm__("step_popf: " TF_ON "mov $39, %eax\n syscall\n nop\n mov $39, %eax\n syscall\n syscall\n pushfq\n pop %rax\n int3\n nop\n"
        "call 2f\n jmp 3f\n ud2\n 2: ret\n 3: mov $20, %eax\n dec %eax\n jne 3b+5\n " TF_OFF "nop\n ret\n"
        "step_iret: " IRET_WITH("orl $0x100, (%rsp)") "nop\n nop\n " IRET_WITH("andl $~0x100, (%rsp)") "nop\n ret\n"
        "step_frame: ud2\n nop\n mov $3, %ecx\n rep stosb\n" TF_OFF "ret\n"
        "step_fork: " TF_ON "mov $57, %eax\n syscall\n nop\n" TF_OFF "ret\n"
        "step_dies: " TF_ON "nop\n mov $60, %eax\n xor %edi, %edi\n syscall\n");
void step_popf(void);
void step_iret(void);
void step_frame(char *to);
int step_fork(void);
void step_dies(void);

static struct trap { int64_t at; int code, same, vector; unsigned flags, pushed; } trap_log[200];
static char *trap_base;

static void log_trap(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (traps < 200)
        trap_log[traps] = (struct trap){(char *)g[REG_RIP] - trap_base, info->si_code, (char *)info->si_addr == (char *)g[REG_RIP],
                                        (int)g[REG_TRAPNO], (unsigned)g[REG_EFL] & 0x100, (unsigned)g[REG_R11] & 0x100};
    traps++;
}

static void set_in_frame(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    g[REG_EFL] |= 0x100;
    g[REG_RIP] += 2;
}

static void print_traps(const char *what)
{
    printf("%s: %d\n", what, traps);
    for (int i = 0; i < traps && i < 200; i++)
        printf(" %d: code %d, %d, vector %d, flag %x, R11's %x\n", (int)trap_log[i].at, trap_log[i].code, trap_log[i].same,
               trap_log[i].vector, trap_log[i].flags, trap_log[i].pushed);
    fflush(stdout);
    traps = 0;
}

/* A trap that is blocked or ignored ends the program. */
static void die_by_trap(void (*handler)(int), int how)
{
    int status = 0;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    pid_t child = fork();
    if (!child) {
        signal(SIGTRAP, handler);
        sigprocmask(how, &set, NULL);
        step_dies();
    }
    waitpid(child, &status, 0);
    printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
}

/* The program steps itself: a trap behind each instruction while the flag is set. */
int guest_single_steps(void)
{
    struct sigaction a = {.sa_sigaction = log_trap, .sa_flags = SA_SIGINFO};
    char bytes[4];
    sigaction(SIGTRAP, &a, NULL);
    a.sa_sigaction = set_in_frame;
    sigaction(SIGILL, &a, NULL);
    trap_base = (char *)(uintptr_t)step_popf;
    step_popf();
    print_traps("POPF");
    step_iret();
    print_traps("IRETQ");
    step_frame(bytes);
    print_traps("a signal's frame");
    int child = step_fork();
    if (child)
        waitpid(child, NULL, 0);
    print_traps(child ? "parent" : "child");
    if (!child)
        _exit(0);
    die_by_trap(SIG_DFL, SIG_UNBLOCK);
    die_by_trap(SIG_IGN, SIG_UNBLOCK);
    die_by_trap(SIG_DFL, SIG_BLOCK);
    return 0;
}

static struct { int signo, code; unsigned long flags; } seen;
static sigjmp_buf back;

static void on_flags(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    seen.signo = signo;
    seen.code = info->si_code;
    seen.flags = (unsigned long)uc->uc_mcontext.gregs[REG_EFL] & 0x44100;
    __asm__ volatile("pushfq\n andl $~0x44100, (%%rsp)\n popfq" : : : "memory", "cc");
    siglongjmp(back, 1);
}

static unsigned long flags_now(void)
{
    unsigned long flags;
    __asm__ volatile("pushfq\n pop %0" : "=r"(flags));
    return flags & 0x44100;
}

static void set_flags(unsigned long flags)
{
    __asm__ volatile("pushfq\n or %0, (%%rsp)\n popfq" : : "r"(flags) : "memory", "cc");
}

/* IRETQ to the next instruction, with those flags more. */
static void iret(unsigned long flags)
{
    __asm__ volatile("mov %%rsp, %%rax\n mov %%ss, %%ecx\n push %%rcx\n push %%rax\n pushfq\n or %0, (%%rsp)\n mov %%cs, %%ecx\n push %%rcx\n"
                     "lea 1f(%%rip), %%rcx\n push %%rcx\n iretq\n 1:" : : "r"(flags) : "rax", "rcx", "memory", "cc");
}

/* AC: accesses must be aligned. NT: IRETQ faults. Both through branches, calls to the kernel, IRETQ, and into a handler. */
int guest_alignment(void)
{
    enum { AC = 0x40000, NT = 0x4000 };
    const int signals[] = {SIGBUS, SIGSEGV};
    static uint64_t places[2];
    struct sigaction a = {.sa_sigaction = on_flags, .sa_flags = SA_SIGINFO | SA_NODEFER};
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &a, NULL);
    for (volatile int way = 0; way < 6; way++) {
        seen.signo = 0;
        volatile unsigned long after = 0;
        if (!sigsetjmp(back, 1)) {
            if (way == 0 || way == 3)
                set_flags(way ? NT : AC);
            else if (way == 1)
                iret(AC);
            if (way == 0) /* the kernel keeps it, and so do branches */
                __asm__ volatile("mov $3, %%ebx\n 1: mov %0, %%eax\n syscall\n dec %%ebx\n jnz 1b" : : "i"(SYS_getppid) : "rax", "rbx", "rcx", "r11", "memory");
            if (way < 3) { /* way 2: without AC */
                after = flags_now();
                __asm__ volatile("movq $1, 1(%0)" : : "r"(places) : "memory");
            } else if (way == 3) {
                iret(0);
            } else if (way == 4) {
                iret(0);
                after = flags_now() | 1;
            } else { /* to no code */
                __asm__ volatile("pushq $0x2b\n push %%rsp\n pushfq\n pushq $0x33\n mov $0x800000000000, %%rax\n push %%rax\n iretq" : : : "rax", "memory");
            }
        }
        printf("%d: %lx, then %d %d %lx\n", way, after, seen.signo, seen.code, seen.flags);
    }
    return 0;
}

/* PUSHF to a page from which code has run: the write is noticed, and not how. */
int guest_pushed(void)
{
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t all = 0, word = 0;
    page[0] = 0xc3; /* ret */
    for (int i = 0; i < 3; i++) {
        ((void (*)(void))(uintptr_t)page)();
        __asm__ volatile("mov %%rsp, %%rbx\n mov %2, %%rsp\n pushfq\n pop %0\n mov %%rbx, %%rsp" : "=&r"(all) : "0"(0), "r"(page + 2048) : "rbx", "memory");
        ((void (*)(void))(uintptr_t)page)();
        __asm__ volatile("mov %%rsp, %%rbx\n mov %2, %%rsp\n pushfw\n popw %w0\n mov %%rbx, %%rsp" : "=&r"(word) : "0"(0), "r"(page + 2048) : "rbx", "memory");
        printf("%llx %llx\n", (unsigned long long)all & 0x700, (unsigned long long)word & 0x700);
    }
    return 0;
}

/* Vector, x87 and flag state through branches, calls, system calls and signals. */
int guest_registers(void)
{
    uint64_t in[8], out[8];
    uint16_t cw = 0x27f, cw2;
    uint32_t mxcsr = 0x1fc0, mxcsr2;
    uint64_t flags;
    for (int i = 0; i < 8; i++)
        in[i] = (uint64_t)i * 0x0123456789abcdefu;
    __asm__ volatile("fldcw %0\n ldmxcsr %1" : : "m"(cw), "m"(mxcsr));
    __asm__ volatile("vmovdqu %0, %%ymm5" : : "m"(*(const char(*)[32])in) : "xmm5");
    for (volatile int i = 0; i < 1000; i++)
        if (i % 3 == 0)
            __asm__ volatile("syscall" : : "a"(SYS_getppid) : "rcx", "r11", "memory");
    __asm__ volatile("vmovdqu %%ymm5, %0" : "=m"(*(char(*)[32])out));
    __asm__ volatile("fnstcw %0\n stmxcsr %1" : "=m"(cw2), "=m"(mxcsr2));
    __asm__ volatile("stc\n std\n jmp 1f\n 1: pushfq\n pop %0\n cld" : "=r"(flags) : : "cc");
    printf("%d %x %x %llx\n", memcmp(in, out, 32), cw2, mxcsr2 & 0xffc0, (unsigned long long)flags & 0x401);
    uint64_t rcx, r11;
    __asm__ volatile("stc\n syscall\n mov %%rcx, %0\n mov %%r11, %1\n lea (%%rip), %%rax\n sub %%rax, %0"
                     : "=r"(rcx), "=r"(r11) : "a"(SYS_getppid) : "rcx", "r11", "memory", "cc");
    printf("%lld %llx\n", (long long)rcx, (unsigned long long)r11 & 1);
    return 0;
}

/* A filter that allows what this program does and kills for the rest. */
int guest_seccomp(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    printf("%d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
    long r = syscall(SYS_getppid);
    printf("%ld %d\n", r, errno);
    return 0;
}

int guest_close_all(void)
{
    fflush(stdout);
    int keep = dup(1);
    dup2(keep, 3);
    syscall(436, 4, ~0u, 0); /* close_range */
    pid_t p = fork();
    if (!p)
        _exit(dprintf(3, "child\n") != 6);
    waitpid(p, NULL, 0);
    dprintf(3, "done %d\n", open("/dev/null", 0));
    return 0;
}

/* The 128 bytes below the stack pointer are a leaf's own. */
int guest_redzone(void)
{
    uint64_t r = 0;
    for (int i = 0; i < 1000; i++)
        __asm__ volatile("movq $7, -8(%%rsp)\n movq $9, -120(%%rsp)\n mov %1, %%rcx\n 1: dec %%rcx\n jnz 1b\n"
                         "mov -8(%%rsp), %%rax\n add -120(%%rsp), %%rax\n add %%rax, %0"
                         : "+r"(r) : "r"(100L) : "rax", "rcx", "memory", "cc");
    printf("%llu\n", (unsigned long long)r);
    return 0;
}

static int recurse(int n)
{
    volatile char pad[64] = {0};
    return n ? recurse(n - 1) + 1 + pad[0] : 0;
}

int guest_deep(void)
{
    printf("%d\n", recurse(50000));
    return 0;
}

static jmp_buf env;

static void thrower(int n)
{
    if (n == 0)
        longjmp(env, 5);
    thrower(n - 1);
}

int guest_jumps(void)
{
    volatile int n = 0;
    for (volatile int i = 0; i < 1000; i++)
        if (setjmp(env) == 5)
            n++;
        else
            thrower(i % 100);
    printf("%d\n", n);
    uint64_t c = 0;
    __asm__ volatile("mov $10, %%rcx\n 1: inc %0\n loop 1b\n jrcxz 2f\n ud2\n 2: mov $5, %%ecx\n"
                     "3: inc %0\n cmp $2, %%ecx\n loopne 3b" : "+r"(c) : : "rcx", "cc");
    printf("%llu\n", (unsigned long long)c);
    return 0;
}

static sigjmp_buf undone;

static void undo(int signo)
{
    siglongjmp(undone, signo);
}

/* A branch, a jump or a call leads straight to what is no instruction. */
int guest_undecodable(void)
{
    static const uint8_t codes[][8] = {
        {0x31, 0xc0, 0x75, 0x02, 0x06, 0xc3, 0x06}, /* JNZ, not taken */
        {0x31, 0xc0, 0x74, 0x01, 0xc3, 0x06},       /* JZ, taken */
        {0xeb, 0x01, 0xc3, 0x06},                   /* JMP */
        {0x06},                                     /* reached by the call itself */
        {0xf0, 0xc7, 0xf8, 0, 0, 0, 0, 0xc3},       /* LOCK XBEGIN */
    };
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    signal(SIGILL, undo);
    for (volatile size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        memcpy(p + 64 * i, codes[i], sizeof codes[i]);
        int signo = sigsetjmp(undone, 1);
        if (!signo)
            call(p + 64 * i);
        printf("%zu: signal %d\n", i, signo);
    }
    return 0;
}
