/* SPDX-License-Identifier: MIT
 * Guests about what a program sees when it looks at itself and at its processor. */
#include <cpuid.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "guests.h"

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static int add_code(struct dl_phdr_info *info, size_t size, void *opaque)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X && info->dlpi_addr + 1)
            *(uint64_t *)opaque = hash(*(uint64_t *)opaque, (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                                       info->dlpi_phdr[i].p_memsz);
    return info->dlpi_name[0] == 0; /* the program's own and the first library's */
}

/* Its own code reads as it stands in the file. */
int guest_own_code(void)
{
    uint64_t h = 0;
    dl_iterate_phdr(add_code, &h);
    printf("%llx\n", (unsigned long long)h);
    return 0;
}

/* POPF, then code that was never run before: by a jump, by a call through a register, by a system call. RCX and R11 are the
 * last one's. */
#define PASS(value, after)                                                                             \
    do {                                                                                               \
        uint64_t before = (value) | 0x202, seen, rax = SYS_getpid;                                                  \
        __asm__ volatile("push %2\n popfq\n jmp 1f\n ud2\n 1: lea 2f(%%rip), %%rdx\n jmp *%%rdx\n ud2\n 2: " after "\n 3: pushfq\n" \
                         "pop %0\n push $0x202\n popfq"                                                \
                         : "=r"(seen), "+a"(rax) : "r"(before) : "rcx", "rdx", "r11", "cc", "memory"); \
        wrong |= (seen ^ before) & 0x204cd5;                                                           \
    } while (0)
#define PASS_BOTH(value) PASS(value, "jmp 3f"); PASS(value, "syscall")

/* All flags survive what the runtime does, those that POPF alone can write, too: DF, NT and ID. (Not AC: docs/limits.md.) */
int guest_flags(void)
{
    uint64_t wrong = 0;
    PASS_BOTH(0);
    PASS_BOTH(0x8d5);
    PASS_BOTH(0x800);
    PASS_BOTH(0x0d5);
    PASS_BOTH(0x001);
    PASS_BOTH(0x400);
    PASS_BOTH(0xc81);
    PASS_BOTH(0x4000);
    PASS_BOTH(0x200000);
    PASS_BOTH(0x204cd5);
    PASS_BOTH(0x044);
    printf("%llx\n", (unsigned long long)wrong);
    return 0;
}

/* /proc/self: the program, its name, its arguments, its stack, its heap, its code and the kernel's. */
int guest_proc_self(void)
{
    char line[512], exe[256] = "", name[64] = "";
    void *heap = malloc(10);
    int local = 0, stack = 0, code = 0, vdso = 0, in_heap = 0, args = 0;
    uint64_t from, to, mine = (uint64_t)(uintptr_t)guest_proc_self;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        stack += strstr(line, "[stack]") && from <= (uintptr_t)&local && (uintptr_t)&local < to;
        in_heap += strstr(line, "[heap]") && from <= (uintptr_t)heap && (uintptr_t)heap < to;
        code += strstr(line, " r-xp ") && strstr(line, "/guests") && from <= mine && mine < to;
        vdso += strstr(line, "[vdso]") && from == getauxval(AT_SYSINFO_EHDR);
    }
    if (f)
        fclose(f);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    f = fopen("/proc/self/comm", "r");
    if (f && fgets(name, sizeof name, f))
        fclose(f);
    f = fopen("/proc/self/cmdline", "r");
    for (int c; f && (c = getc(f)) != EOF;)
        args += !c;
    printf("%d %d %d %d, %s, %s%d arguments, entry %d, phdr %d\n", stack, in_heap, code, vdso,
           n > 0 ? strrchr(exe, '/') : "no exe", name, args, getauxval(AT_ENTRY) != 0, getauxval(AT_PHDR) != 0);
    return 0;
}

/* What the processor says of itself, but for what differs from core to core and from moment to moment. */
int guest_cpuid(void)
{
    uint64_t h = 0;
    static const struct {
        uint32_t leaf, subleaves, mask[4];
    } leaves[] = {{0, 1, {~0u, ~0u, ~0u, ~0u}}, {1, 1, {~0u, 0x00ffff00, ~0u, ~0u}},
                  {7, 2, {~0u, ~0u, ~0u, ~0u}}, {0xd, 10, {~0u, ~0u, ~0u, ~0u}},
                  {0x14, 2, {~0u, ~0u, ~0u, ~0u}}, {0x19, 1, {~0u, ~0u, ~0u, ~0u}},
                  {0x80000001, 1, {~0u, ~0u, ~0u, ~0u}}};
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++)
        for (uint32_t s = 0; s < leaves[i].subleaves; s++) {
            uint32_t r[4];
            __cpuid_count(leaves[i].leaf, s, r[0], r[1], r[2], r[3]);
            for (int k = 0; k < 4; k++) {
                r[k] &= leaves[i].mask[k];
                h = hash(h, &r[k], 4);
            }
        }
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("%llx %x %x %lx %lx\n", (unsigned long long)h, low, high, getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
    return 0;
}

static volatile int frames;

static void count_frames(int signo)
{
    void *at[100];
    (void)signo;
    int n = backtrace(at, 100), inside = 0;
    for (int i = 0; i < n; i++)
        inside += (uint8_t *)at[i] - (uint8_t *)guest_proc_self < 1 << 16 && (uint8_t *)guest_proc_self - (uint8_t *)at[i] < 1 << 16;
    frames = n * 100 + inside;
}

static __attribute__((noinline)) int down(int n, int trap)
{
    if (n)
        return down(n - 1, trap) + 1;
    if (trap)
        __asm__ volatile("ud2; ud2" : : : "memory");
    else
        count_frames(0);
    return 0;
}

static void frames_then_on(int signo, siginfo_t *info, void *context)
{
    (void)info;
    count_frames(signo);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

/* Unwinding, from a call and out of a handler through its frame. */
int guest_unwind(void)
{
    struct sigaction a = {.sa_sigaction = frames_then_on, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &a, NULL);
    for (int trap = 0; trap < 2; trap++) {
        int depth = down(20, trap);
        printf("%d: %d\n", depth, frames);
    }
    return 0;
}

static uint8_t *heap;
static volatile int barriers;

static void unprotect(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & ~4095ul);
    barriers++;
    mprotect(page, 4096, PROT_READ | PROT_WRITE | ((page - heap) / 4096 % 2 ? PROT_EXEC : 0));
}

/* A garbage collector's write barrier: pages made readable, each written once, again and again. Every other page
 * holds code as well, which runs between. */
int guest_barrier(void)
{
    struct sigaction a = {.sa_sigaction = unprotect, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    heap = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 16; i++) {
            uint8_t *p = heap + i * 4096;
            const uint8_t code[] = {0xb8, (uint8_t)round, 0, 0, 0, 0xc3};
            memcpy(p + 64, code, sizeof code);
            p[1024 + 8 * round] = (uint8_t)i;
            if (i % 2) {
                int (*f)(void);
                uint8_t *q = p + 64;
                memcpy(&f, &q, sizeof f);
                sum += f();
            }
        }
        mprotect(heap, 16 * 4096, PROT_READ | PROT_EXEC);
    }
    printf("%ld, %d barriers\n", sum, barriers);
    return 0;
}

/* The three entries of the vsyscall page, where the kernel has them. */
int guest_vsyscall(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int there = 0;
    while (f && fgets(line, sizeof line, f))
        there |= strstr(line, "[vsyscall]") != NULL;
    if (!there) {
        printf("no vsyscall page\n");
        return 0;
    }
    int (*get)(struct timeval *, void *) = (int (*)(struct timeval *, void *))(uintptr_t)0xffffffffff600000;
    long (*now)(long *) = (long (*)(long *))(uintptr_t)0xffffffffff600400;
    long (*where)(unsigned *, unsigned *, void *) = (long (*)(unsigned *, unsigned *, void *))(uintptr_t)0xffffffffff600800;
    struct timeval tv = {0, 0};
    int good = 0;
    for (int i = 0; i < 100; i++) {
        long t = 0, a = time(NULL), b = now(&t);
        unsigned cpu = ~0u, node = ~0u;
        good += b == t && b >= a && b - a < 60;
        good += get(&tv, NULL) == 0 && tv.tv_sec >= b && tv.tv_sec - b < 60;
        good += where(&cpu, &node, NULL) == 0 && cpu < 100000 && node < 100000;
    }
    printf("%d\n", good);
    return 0;
}

static volatile int disturbed;

static void disturb(int signo)
{
    (void)signo;
    disturbed++;
    __asm__ volatile("vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n vmovdqa %%ymm1, %%ymm9\n fninit\n fldz\n" : : : "xmm1", "xmm9");
    uint32_t csr = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(csr));
}

/* A sum that lives in the x87 stack, in vector and in mask registers, while signals come and handlers overwrite them. */
int guest_vectors(void)
{
    struct sigaction a = {.sa_handler = disturb, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    uint64_t out[64];
    long double x;
    uint32_t csr = 0x7f80, csr2;
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    sigaction(SIGALRM, &a, NULL);
    __asm__ volatile("ldmxcsr %0\n fninit\n fld1\n fldpi\n fldl2e" : : "m"(csr));
    __asm__ volatile("mov $3, %%eax\n vmovd %%eax, %%xmm9\n vpbroadcastd %%xmm9, %%ymm9\n vpxor %%ymm1, %%ymm1, %%ymm1" : : : "rax", "xmm1", "xmm9");
    if (avx512)
        __asm__ volatile(".byte 0x62,0xa1,0x45,0x40,0xef,0xff\n" /* vpxord zmm23, zmm23, zmm23 */
                         ".byte 0x62,0xc2,0x7d,0x48,0x58,0xf9\n" /* vpbroadcastd zmm23, xmm9 */
                         "mov $0x5a5a, %%eax\n .byte 0xc5,0xf8,0x92,0xe8" /* kmovw k5, eax */ : : : "rax");
    setitimer(ITIMER_REAL, &often, NULL);
    for (volatile long i = 0; i < 3000000 || disturbed < 20; i++) {
        if (i >= 3000000)
            continue;
        __asm__ volatile("vpaddd %%ymm9, %%ymm1, %%ymm1\n fxch %%st(1)\n fxch %%st(2)" : : : "xmm1");
        if (avx512)
            __asm__ volatile(".byte 0x62,0xa1,0x45,0x40,0xfe,0xff" : :); /* vpaddd zmm23, zmm23, zmm23 */
    }
    setitimer(ITIMER_REAL, &never, NULL);
    memset(out, 0, sizeof out);
    __asm__ volatile("vmovdqu %%ymm1, %0" : "=m"(*(char(*)[32])out));
    if (avx512) {
        __asm__ volatile(".byte 0x62,0xe1,0xfe,0x48,0x7f,0x78,0x01" : : "a"(out) : "memory"); /* vmovdqu64 [rax+64], zmm23 */
        __asm__ volatile(".byte 0xc5,0xfb,0x93,0xc5\n mov %%rax, %0" : "=m"(out[20]) : : "rax"); /* kmovd eax, k5 */
    }
    __asm__ volatile("fstpt %0\n fstp %%st(0)\n fstp %%st(0)\n stmxcsr %1" : "=m"(x), "=m"(csr2));
    printf("%llx %.18Lg %x\n", (unsigned long long)hash(0, out, sizeof out), x, csr2 & 0xffc0);
    return 0;
}

/* The base registers, by their instructions where the kernel lets programs use them. */
int guest_fsgsbase(void)
{
    static uint64_t area[4] = {1, 2, 3, 4};
    if (!(getauxval(AT_HWCAP2) & 2)) {
        printf("no FSGSBASE\n");
        return 0;
    }
    uint64_t fs, fs2, gs, v;
    __asm__ volatile("rdfsbase %0\n wrfsbase %2\n mov %%fs:8, %1\n wrfsbase %0" : "=&r"(fs), "=&r"(v) : "r"(area));
    __asm__ volatile("rdfsbase %0" : "=r"(fs2));
    printf("%llu %d\n", (unsigned long long)v, fs == fs2 && pthread_self() == fs);
    __asm__ volatile("wrgsbase %2\n mov %%gs:24, %0\n rdgsbase %1" : "=&r"(v), "=&r"(gs) : "r"(area));
    printf("%llu %d\n", (unsigned long long)v, gs == (uintptr_t)area);
    for (uint64_t selector = 0; selector < 0x2c; selector += 0x2b) /* a base beside a selector, or where only this instruction puts it */
        for (int high = 0; high < 2; high++) {
            uint64_t base = high ? -UINT64_C(16) : UINT64_C(0x200000000), selected, before;
            __asm__ volatile("mov %k4, %%gs\n wrgsbase %3\n mov %%gs, %k0\n rdgsbase %1\n rdgsbase %2"
                             : "=&r"(selected), "=&r"(before), "=&r"(gs) : "r"(base), "r"(selector));
            syscall(SYS_getppid);
            __asm__ volatile("rdgsbase %0" : "=r"(gs));
            __asm__ volatile("mov %%gs:(%1), %0" : "=r"(v) : "r"((uintptr_t)&area[3] - base));
            printf("%llx %d %d %llu\n", (unsigned long long)selected, before == base, gs == base, (unsigned long long)v);
        }
    return 0;
}

static ucontext_t outside, inside;
static uint64_t turns;

static void coroutine(void)
{
    for (;;) {
        turns++;
        swapcontext(&inside, &outside);
    }
}

/* Coroutines on stacks so small that nothing may be put on them unasked. */
int guest_small_stacks(void)
{
    uint8_t *p = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE);
    getcontext(&inside);
    inside.uc_stack.ss_sp = p + 4096;
    inside.uc_stack.ss_size = 4096;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 1000; i++)
        swapcontext(&outside, &inside);
    uint64_t sp = (uint64_t)(uintptr_t)p + 4096 + 256, r = 0;
    /* The last bytes of a stack, used to the last by calls. */
    __asm__ volatile("mov %%rsp, %%rbx\n mov %1, %%rsp\n mov $31, %%ecx\n call 1f\n jmp 2f\n 1: inc %0\n dec %%ecx\n jz 3f\n call 1b\n"
                     "3: ret\n 2: mov %%rbx, %%rsp" : "+r"(r) : "r"(sp) : "rbx", "rcx", "memory", "cc");
    printf("%llu %llu\n", (unsigned long long)turns, (unsigned long long)r);
    return 0;
}

/* Whatever number a system call returns is its result. */
int guest_results(void)
{
    int fd = memfd_create("results", 0), wrong = 0;
    enum { MOST = 3 << 20 };
    char *bytes = malloc(MOST);
    memset(bytes, 7, MOST);
    for (int shift = 0; shift < 63; shift++)
        for (long k = -3; k <= 3; k++) {
            long at = (1l << shift) + k;
            wrong += at >= 0 && lseek(fd, at, SEEK_SET) != at;
        }
    for (long n = (1 << 20) - 3; n < (1 << 20) + 3; n++)
        wrong += pwrite(fd, bytes, (size_t)n, 0) != n || pread(fd, bytes, (size_t)n, 0) != n;
    printf("wrong: %d\n", wrong);
    free(bytes);
    return close(fd);
}

/* What TSan allows: a program under it ends where anything lies elsewhere. MSan, whose shadows lie elsewhere, neither. */
static bool is_allowed(unsigned long start)
{
    return start < 0x8000000000 || (start >= 0x550000000000 && start < 0x568000000000) || start >= 0x7e8000000000;
}

int guest_layout(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int rights = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        char *flags = strchr(line, ' ');
        unsigned long start = strtoul(line, NULL, 16);
        if (!flags || !strncmp(flags, " ---", 4))
            continue;
        rights++;
        if (!is_allowed(start))
            fputs(line, stdout);
    }
    printf("%d\n", rights > 0);
    return 0;
}

/* What a tracer finds in the registers of a thread that waits in a system call, as LeakSanitizer looks for pointers and for the stack there: how
 * many of those differ that the call leaves alone. The bell wakes the thread. */
static int differing(pid_t pid, const uint64_t *stack, int bell)
{
    struct user_regs_struct r = {0};
    while (!__atomic_load_n(stack, __ATOMIC_ACQUIRE))
        ;
    usleep(100000);
    bool failed = ptrace(PTRACE_ATTACH, pid, NULL, NULL) || waitpid(pid, NULL, __WALL) != pid || ptrace(PTRACE_GETREGS, pid, NULL, &r);
    int n = (r.rsp != *stack) + (r.rbx != 1) + (r.rbp != 2) + (r.r8 != 3) + (r.r9 != 4) + (r.r10 != 5) + (r.r12 != 6) + (r.r13 != 7) +
            (r.r14 != 8) + (r.r15 != 9);
    failed |= ptrace(PTRACE_DETACH, pid, NULL, NULL) || write(bell, "", 1) != 1;
    return failed ? 100 : n;
}

int guest_looked_at(void)
{
    int pipe_fds[2], status;
    uint64_t *stack = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pipe(pipe_fds))
        return 1;
    pid_t pid = getpid(), child = fork();
    if (!child)
        _exit(differing(pid, stack, pipe_fds[1]));
    uint64_t got = SYS_read;
    __asm__ volatile("push %%rbx\n push %%rbp\n mov $1, %%ebx\n mov $2, %%ebp\n mov $3, %%r8d\n mov $4, %%r9d\n mov $5, %%r10d\n"
                     "mov $6, %%r12d\n mov $7, %%r13d\n mov $8, %%r14d\n mov $9, %%r15d\n mov %%rsp, -8(%%rsi)\n syscall\n"
                     "pop %%rbp\n pop %%rbx"
                     : "+a"(got)
                     : "D"((uint64_t)pipe_fds[0]), "S"(stack + 1), "d"(1ul)
                     : "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    waitpid(child, &status, 0);
    printf("%d: %d differ\n", (int)got, WEXITSTATUS(status));
    return 0;
}
