/* SPDX-License-Identifier: MIT
 * Guests that write code and run it. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "code.h"
#include "guests.h"

/* Code over two pages, rewritten by a store over two pages. */
int guest_straddle(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC) + 4094;
    long sum = 0;
    put_return(p, 0);
    for (int i = 0; i < 100; i++) {
        uint32_t head = 0xb8 | (uint32_t)i << 8;
        memcpy(p, &head, sizeof head); /* one store, into both pages */
        sum += call(p);
    }
    printf("%ld\n", sum);
    return 0;
}

/* Rewritten in place again and again, with and without mprotect between. */
int guest_jit(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC), *q = pages(PROT_READ | PROT_WRITE);
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        put_return(p, i);
        sum += call(p);
        mprotect(q, 8192, PROT_READ | PROT_WRITE);
        put_return(q, 2 * i);
        mprotect(q, 8192, PROT_READ | PROT_EXEC);
        sum += call(q);
    }
    munmap(p, 8192);
    printf("%ld\n", sum);
    return 0;
}

/* Shared memory in the place of code, the first segment of all: its number, 0, is no address. */
int guest_jit_attached(void)
{
    int apart = unshare(CLONE_NEWUSER | CLONE_NEWIPC), segment = shmget(IPC_PRIVATE, 8192, 0700);
    uint8_t *from = shmat(segment, NULL, 0), *p = pages(PROT_READ | PROT_WRITE);
    for (int i = 0; i < 2; i++) {
        put_return(from + i * 4096, i + 10);
        put_return(p + i * 4096, i);
    }
    mprotect(p, 8192, PROT_READ | PROT_EXEC);
    long before = call(p) + call(p + 4096);
    if (shmat(segment, p, SHM_EXEC | SHM_REMAP) != p)
        return 1;
    printf("apart %d, %ld, then %d %d\n", apart, before, call(p), call(p + 4096));
    put_return(from + 4096, 20);
    printf("%d\n", call(p + 4096));
    shmdt(p);
    shmctl(segment, IPC_RMID, NULL);
    return 0;
}

static uint8_t *beside;

static int run_and_end(void *arg)
{
    call(beside);
    syscall(SYS_exit, 0, 0, 0, 0, 0, 0); /* no register has an address */
    return arg != NULL;
}

/* The kernel writes the numbers of threads into a page of code. */
int guest_jit_beside_tids(void)
{
    enum { FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };
    static char stack[1 << 16] __attribute__((aligned(16)));
    beside = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    volatile pid_t *tid = (pid_t *)(beside + 2048);
    put_return(beside, 1);
    call(beside);
    pid_t made = clone(run_and_end, stack + sizeof stack, FLAGS | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, NULL, NULL, NULL, tid);
    for (int i = 0; i < 1000 && made > 0 && syscall(SYS_tgkill, getpid(), made, 0) == 0; i++)
        usleep(2000);
    printf("ended: %d\n", *tid);
    call(beside);
    uint64_t args[8] = {CLONE_PARENT_SETTID, 0, 0, (uint64_t)(uintptr_t)tid, SIGCHLD};
    made = (pid_t)syscall(SYS_clone3, args, sizeof args);
    if (!made)
        _exit(0);
    printf("made: %d\n", *tid == made);
    return waitpid(made, NULL, 0) != made;
}

static void put_jump(uint8_t *p, const uint8_t *to)
{
    int32_t distance = (int32_t)(to - (p + 5));
    p[0] = 0xe9;
    memcpy(p + 1, &distance, 4);
}

/* A JIT's arena of a MiB: a function that jumps from its one end to the other and back, while what lies between is written. */
int guest_jit_strewn(void)
{
    enum { ARENA = 1 << 20, PAGE = 4096, PARTS = 8 };
    uint8_t *arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *part[PARTS];
    long sum = 0;
    for (int i = 0; i < PARTS; i++)
        part[i] = arena + (i % 2 ? ARENA - (i + 1) * PAGE : i * PAGE);
    for (int i = 0; i + 1 < PARTS; i++)
        put_jump(part[i], part[i + 1]);
    for (int i = 0; i < 300; i++) {
        put_return(part[PARTS - 1], i);
        arena[ARENA / 2 + i] = 0x90;
        sum += call(part[0]);
    }
    printf("%ld\n", sum);
    return 0;
}

/* eax counts the instructions: ADD EAX, 1, and JS to the next one after each hundred. */
static void put_long_function(uint8_t *p, size_t bytes)
{
    static const uint8_t add[] = {0x05, 1, 0, 0, 0}, js[] = {0x78, 0}, clear[] = {0x31, 0xc0};
    uint8_t *end = p + bytes - 16;
    memcpy(p, clear, sizeof clear);
    p += sizeof clear;
    for (int i = 1; p < end; i++) {
        memcpy(p, add, sizeof add);
        p += sizeof add;
        if (i % 100)
            continue;
        memcpy(p, js, sizeof js);
        p += sizeof js;
    }
    *p = 0xc3;
}

/* 160 MiB of code that runs once, 4 MiB at a time: all that translated code has room for is filled to its end, twice. */
int guest_jit_vast(void)
{
    enum { BYTES = 4 << 20, ROUNDS = 40 };
    static uint8_t function[BYTES];
    long sum = 0;
    put_long_function(function, BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(p, function, BYTES);
        sum += call(p);
        munmap(p, BYTES);
    }
    printf("%ld\n", sum);
    return 0;
}

static sigjmp_buf refused;

static void on_refused(int signo)
{
    (void)signo;
    siglongjmp(refused, 1);
}

/* Functions in every second one of many pages, called and replaced in turn, while their neighbours are written. A page next to
 * them that may not be written is not. */
int guest_jit_pages(void)
{
    enum { FUNCTIONS = 3000, PAGE = 4096 };
    uint8_t *p = mmap(NULL, 2 * FUNCTIONS * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile long sum = 0, kept = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < FUNCTIONS; i++) {
            uint8_t *f = p + 2 * i * PAGE;
            put_return(f, i + round);
            f[PAGE] = 0x90;
            sum += call(f);
        }
    signal(SIGSEGV, on_refused);
    for (int i = 0; i < 10; i++) {
        uint8_t *f = p + (2 * i + 1) * PAGE;
        put_return(f, i);
        mprotect(f, PAGE, PROT_READ | PROT_EXEC);
        sum += call(f);
        if (sigsetjmp(refused, 1))
            kept++;
        else
            put_return(f, 100);
        sum += call(f);
    }
    printf("%ld %ld\n", sum, kept);
    return 0;
}

static long call_all(const uint8_t *p, int n)
{
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += call(p + i * 4096);
    return sum;
}

static const uint8_t one[] = {0x31, 0xc0, 0x74, 0x02, 0x0f, 0x0b, 0xb0, 1, 0xc3}; /* xor eax, eax; jz +2; ud2; mov al, 1; ret */
static const uint8_t other[] = {0xb8, 2, 0, 0, 0, 0x90, 0x90, 0x90, 0xc3};         /* mov eax, 2; nop; nop; nop; ret */

/* Two ways to a function that is one and another in turn, in shared memory: each way meets the one that the other way has not. */
int guest_jit_back(void)
{
    uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *function = p + 4096;
    long sum = 0;
    put_jump(p, function);
    for (int i = 0; i < 3000; i++) {
        memcpy(function, one, sizeof one);
        sum += call(function);
        memcpy(function, other, sizeof other);
        sum += 3 * call(p);
    }
    printf("%ld\n", sum);
    return 0;
}

/* A JIT that makes one page writable, and all of its code executable again (YJIT). Code that may not be run any more is not. */
int guest_jit_rights(void)
{
    enum { FUNCTIONS = 64, PAGE = 4096, BYTES = FUNCTIONS * PAGE };
    uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile long sum = 0, kept = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        put_return(p + i * PAGE, i);
    sum += call_all(p, FUNCTIONS);
    for (int i = 0; i < 3000; i++) {
        uint8_t *f = p + i * 7 % FUNCTIONS * PAGE;
        mprotect(f, PAGE, PROT_READ | PROT_WRITE | (i % 3 ? 0 : PROT_EXEC));
        put_return(f, i);
        mprotect(p, BYTES, PROT_READ | PROT_EXEC);
        sum += call_all(p, FUNCTIONS);
    }
    signal(SIGSEGV, on_refused);
    mprotect(p, PAGE, PROT_READ);
    if (sigsetjmp(refused, 1))
        kept++;
    else
        sum += call(p);
    mprotect(p, PAGE, PROT_READ | PROT_EXEC);
    if (sigsetjmp(refused, 1))
        kept++;
    else
        put_return(p, 1);
    printf("%ld %ld %ld\n", sum, kept, call_all(p, FUNCTIONS));
    return 0;
}

/* All of 64 functions of a page, from one on. */
static unsigned long call_row(const uint8_t *p, unsigned from)
{
    unsigned long sum = 0;
    for (unsigned i = from; i < 64; i++)
        sum = 3 * sum + (unsigned)call(p + 32 * i);
    return sum;
}

/* Functions beside each other, one of them another one in each round, or again what it was. */
static unsigned long replace_in_turn(uint8_t *p, bool rights)
{
    unsigned long sum = 0;
    for (unsigned i = 0; i < 64; i++)
        memcpy(p + 32 * i, one, sizeof one);
    for (unsigned i = 0; i < 1000; i++) {
        uint8_t *f = p + 32 * (i / 2 * 7 % 64);
        if (rights)
            mprotect(p, 4096, PROT_READ | PROT_WRITE);
        if (i % 5)
            memcpy(f, i % 2 ? one : other, sizeof one);
        if (rights)
            mprotect(p, 4096, PROT_READ | PROT_EXEC);
        sum = 5 * sum + call_row(p, i % 3);
    }
    return sum;
}

/* A function over the end of a page, which changes behind it, and whose end may not be run for a while. */
static unsigned long cross_pages(uint8_t *p)
{
    volatile unsigned long sum = 0, kept = 0;
    uint8_t *f = p + 4096 - 3;
    for (volatile int i = 0; i < 50; i++) {
        put_return(f, 0x01010101 * (i % 2));
        sum += (unsigned)call(f);
        mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE);
        if (sigsetjmp(refused, 1))
            kept++;
        else
            sum += (unsigned)call(f);
        f[3] ^= i % 3 ? 4 : 0;
        mprotect(p + 4096, 4096, PROT_READ | PROT_EXEC | (i % 4 < 2 ? PROT_WRITE : 0));
        sum = 3 * sum + (unsigned)call(f);
        mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    return sum + kept;
}

/* Rights that the kernel refuses, all of them or behind the fourth page: that one may be written as before. */
static int refuse_rights(void)
{
    uint8_t *p = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *f = p + 3 * 4096;
    int kept = 0;
    munmap(p + 4 * 4096, 4096);
    for (int i = 0; i < 20; i++) {
        put_return(f, i);
        kept += call(f) == i;
        kept += mprotect(p + i % 2, 5 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == -1;
    }
    return kept;
}

/* Code that is written, or may not be run for a while, and then is what it was: of a page most is. */
int guest_jit_as_it_was(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC), *q = pages(PROT_READ | PROT_WRITE), *x = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    signal(SIGSEGV, on_refused);
    printf("%lu\n", replace_in_turn(p, false));
    printf("%lu\n", replace_in_turn(q, true));
    printf("%lu\n", cross_pages(x));
    printf("%d\n", refuse_rights());
    return 0;
}

/* An instruction that changes the next one. */
int guest_jit_same_block(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    /* movb $n, 1(%rip) -> the immediate of: mov $0, %eax; ret */
    const uint8_t code[] = {0x40, 0x88, 0x3d, 0x01, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(p, code, sizeof code);
    int (*f)(int);
    memcpy(&f, &p, sizeof f);
    long sum = 0;
    for (int i = 0; i < 200; i++)
        sum += f(i & 127);
    printf("%ld\n", sum);
    return 0;
}

/* Pairs of pages of this program's own code: a jump at one's end to the other, whose first bytes are to be replaced. */
__asm__(".text; .balign 4096\n"
        "patched_pairs: .rept 32\n"
        "1: .skip 4096 - 16, 0xcc; jmp 2f; .balign 4096, 0xcc\n"
        "2: mov $1, %eax; ret; nop; nop; nop; nop\n"
        "   .skip 1b + 8192 - ., 0xcc\n"
        ".endr; .previous");
extern uint8_t patched_pairs[];

enum { PAIRS = 32, PAIR = 8192, HALF = 4096, ENTRY = HALF - 16, RUNS = 240 };

static long run_pair(const uint8_t *pair, int times)
{
    const uint8_t *entry = pair + ENTRY;
    int (*f)(int);
    long sum = 0;
    memcpy(&f, &entry, sizeof f);
    for (int i = 0; i < times; i++)
        sum += f(i & 3) & 0xff;
    return sum;
}

static void patch_pair(uint8_t *pair)
{
    /* test %edi, %edi; je over; mov $2, %al; ret; over: mov $3, %al; ret */
    const uint8_t code[] = {0x85, 0xff, 0x74, 0x03, 0xb0, 0x02, 0xc3, 0xb0, 0x03, 0xc3};
    mprotect(pair + HALF, HALF, PROT_READ | PROT_WRITE);
    memcpy(pair + HALF, code, sizeof code);
    mprotect(pair + HALF, HALF, PROT_READ | PROT_EXEC);
}

/* The pairs as this program's file has them, once more; without a reserve, so that the kernel makes one mapping again of pages
 * that were written and pages that were not. */
static uint8_t *map_pairs(void)
{
    unsigned long start, end, offset;
    uint8_t *p = MAP_FAILED;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    int fd = open("/proc/self/exe", O_RDONLY);
    while (p == MAP_FAILED && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && (uintptr_t)patched_pairs - start < end - start)
            p = mmap(NULL, PAIRS * PAIR, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_NORESERVE, fd,
                     (off_t)(offset + ((uintptr_t)patched_pairs - start)));
    fclose(maps);
    close(fd);
    return p;
}

/* Code of a file is rewritten while it is about to be found to run often: what it leads to from then on is the new code. */
int guest_patched(void)
{
    uint8_t *both[2] = {patched_pairs, map_pairs()};
    for (int n = 0; n < 2; n++) {
        long sum = 0;
        for (int k = 0; k < PAIRS; k++)
            sum += run_pair(both[n] + k * PAIR, RUNS + k);
        for (int k = 0; k < PAIRS; k++)
            patch_pair(both[n] + k * PAIR);
        for (int k = 0; k < PAIRS; k++)
            sum += run_pair(both[n] + k * PAIR, 100);
        printf("%ld\n", sum);
    }
    return 0;
}

static volatile int go, stop;
static uint8_t *shared_code;

static void *writer(void *arg)
{
    (void)arg;
    while (!go)
        ;
    put_return(shared_code, 2);
    stop = 1;
    return NULL;
}

/* Another thread rewrites. */
int guest_jit_thread(void)
{
    pthread_t t;
    shared_code = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    put_return(shared_code, 1);
    printf("%d\n", call(shared_code));
    pthread_create(&t, NULL, writer, NULL);
    go = 1;
    while (!stop)
        call(shared_code);
    pthread_join(t, NULL);
    printf("%d\n", call(shared_code));
    return 0;
}

/* n instructions of 2 to 3 bytes each and a loop around them, each changed in turn while the others are as they were. */
static long patch_each_byte(uint8_t *w, uint8_t *x, unsigned n)
{
    static const uint8_t begin[] = {0xb9, 9, 0, 0, 0, 0x31, 0xc0}, end[] = {0xff, 0xc9}; /* mov ecx, 9; xor eax, eax; … dec ecx */
    uint8_t *p = w, *immediate[24];
    long sum = 0;
    p = mempcpy(p, begin, sizeof begin);
    for (unsigned i = 0; i < n; i++) { /* add eax, imm8, or add al, imm8 */
        p = mempcpy(p, i & 1 ? "\x83\xc0" : "\x04", i & 1 ? 2 : 1);
        *p = 1;
        immediate[i] = p++;
    }
    p = mempcpy(p, end, sizeof end);
    *p++ = 0x75; /* jnz */
    *p = (uint8_t)(w + sizeof begin - (p + 1));
    p[1] = 0xc3;
    for (unsigned i = 0; i < 4 * n; i++) {
        sum = sum * 3 + call(x);
        *immediate[i % n] = (uint8_t)(i + 2);
    }
    return sum;
}

/* Written through one mapping, run through another. */
int guest_jit_dual(void)
{
    int fd = (int)syscall(SYS_memfd_create, "code", 0);
    if (ftruncate(fd, 4096))
        return 1;
    uint8_t *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        put_return(w, i);
        sum += call(x);
    }
    printf("%ld\n", sum);
    for (unsigned n = 1; n < 24; n++)
        printf("%ld\n", patch_each_byte(w, x, n));
    for (int i = 0; i < 6; i++) { /* a block's last byte: mov eax, 1; jmp …; add eax, 5; ret */
        memcpy(w, "\xb8\x01\x00\x00\x00\xeb\x00\x83\xc0\x05\xc3", 11);
        w[6] = i & 1 ? 3 : 0;
        printf("%d\n", call(x));
    }
    x = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0); /* beyond the end of what is there */
    for (int i = 0; i < 6; i++) {
        put_return(w + 4090, i);
        printf("%d\n", call(x + 4090));
    }
    return 0;
}

/* Written all the time: beside data, across the end of a page, by a function whose own code is elsewhere. */
int guest_jit_busy(void)
{
    enum { PAGE = 4096 };
    uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const unsigned places[] = {0, 64, PAGE - 9, PAGE - 40, 2 * PAGE - 1};
    for (unsigned i = 0; i < 5; i++) {
        long sum = 0;
        for (int k = 0; k < 2000; k++) { /* as a trampoline on the stack is */
            put_return(p + places[i], k);
            sum += call(p + places[i]);
        }
        printf("%ld\n", sum);
        for (unsigned n = 1; n < 24; n += 3)
            printf("%ld\n", patch_each_byte(p + places[i], p + places[i], n));
    }
    return 0;
}

/* A jitdump [linux: jitdump-specification]. That it is mapped tells where it is. */
static FILE *begin_jitdump(void)
{
    char name[32];
    snprintf(name, sizeof name, "jit-%d.dump", (int)getpid());
    FILE *dump = fopen(name, "w+");
    const uint32_t head[10] = {0x4a695444, 1, sizeof head, 62 /* x86-64 */, 0, (uint32_t)getpid()};
    fwrite(head, sizeof head, 1, dump);
    fflush(dump);
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
    return dump;
}

static void dump_function(FILE *dump, const char *name, const uint8_t *code, uint64_t bytes)
{
    static uint64_t index;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct {
        uint32_t kind, size;
        uint64_t time;
        uint32_t pid, tid;
        uint64_t vma, addr, bytes, index;
    } load = {.time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, .pid = (uint32_t)getpid(), .tid = (uint32_t)getpid(),
              .vma = (uint64_t)(uintptr_t)code, .addr = (uint64_t)(uintptr_t)code, .bytes = bytes, .index = index++};
    load.size = (uint32_t)(sizeof load + strlen(name) + 1 + bytes);
    fwrite(&load, sizeof load, 1, dump);
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(code, bytes, 1, dump);
    fflush(dump);
}

/* Two functions one after the other at the same place, whose names only the jitdump has; a child calls the second one, too. */
int guest_jit_named(void)
{
    uint8_t *p = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    FILE *dump = begin_jitdump();
    long sum = 0;
    for (int i = 0; i < 30; i++) {
        if (i % 20 == 0) {
            put_return(p, i);
            dump_function(dump, i ? "named_later" : "named_first", p, RETURN_BYTES);
        }
        sum += call(p);
    }
    printf("%ld\n", sum);
    fflush(stdout);
    if (!fork()) {
        for (int i = 0; i < 5; i++)
            call(p);
        _exit(0);
    }
    wait(NULL);
    return fclose(dump);
}

static double processor_us(void)
{
    struct timespec took;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &took);
    return (double)took.tv_sec * 1e6 + (double)took.tv_nsec / 1e3;
}

/* Functions on many pages, each called once and replaced. What a write to their pages costs is less than to run an instruction under the trap
 * flag, which takes 20 to 40 µs more where a hypervisor looks at each trap: 9 to 17 in the best round, whatever else the machine does in the others. */
int guest_jit_once(void)
{
    enum { PAGES = 100, PAGE = 4096, ROUNDS = 300 };
    uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double best = 1e9;
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = processor_us();
        for (int i = 0; i < PAGES; i++) {
            uint8_t *f = p + i * PAGE + round % 8 * 64;
            put_return(f, round * PAGES + i);
            sum += call(f);
        }
        double each = (processor_us() - begin) / PAGES;
        best = each < best ? each : best;
    }
    printf("%ld\n", sum);
    if (best > 28)
        printf("%.0f us each\n", best);
    return 0;
}

/* Functions that are rewritten by one thread while others come to them through pointers, all of them at addresses that have the same low bits. */
enum { ROW = 64, ROW_STEP = 0x10000, REWRITES = 10000 };
static uint8_t *row;
static int written[ROW], called[ROW];
static atomic_int written_all, stale;

static uint8_t *in_row(int k)
{
    return row + k * ROW_STEP + 3; /* so that what it returns is written at once */
}

static void *rewriter(void *arg)
{
    for (int i = 1; i <= REWRITES; i++) {
        while (__atomic_load_n(&called[i % ROW], __ATOMIC_ACQUIRE) < written[i % ROW])
            sched_yield();
        __atomic_store_n((int *)(void *)(in_row(i % ROW) + 1), i, __ATOMIC_RELEASE);
        __atomic_store_n(&written[i % ROW], i, __ATOMIC_RELEASE);
    }
    written_all = 1;
    return arg;
}

static void *caller(void *arg)
{
    while (!written_all)
        for (int k = 0; k < ROW; k++) {
            int least = __atomic_load_n(&written[k], __ATOMIC_ACQUIRE);
            stale += call(in_row(k)) < least && call(in_row(k)) < least; /* the first one may have begun before */
            __atomic_store_n(&called[k], least, __ATOMIC_RELEASE);
        }
    return arg;
}

int guest_jit_threads(void)
{
    pthread_t t[3];
    row = mmap(NULL, ROW * ROW_STEP, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int k = 0; k < ROW; k++)
        put_return(in_row(k), 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, i ? caller : rewriter, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    printf("%d %d\n", stale, call(in_row(0)) == written[0]);
    return 0;
}

/* Code that sets AC and goes on at odd addresses, in memory that is shared: whoever reads it to compare it must not be caught by AC. */
int guest_jit_aligned(void)
{
    static const uint8_t code[] = {
        0x9c, 0x81, 0x0c, 0x24, 0, 0, 4, 0, 0x9d,       /* pushfq; or dword [rsp], AC; popfq */
        0xeb, 0, 0xb8, 0, 0, 0, 0, 0xeb, 0, 0x87, 0xc0, /* jmp; mov eax, imm32; jmp; xchg eax, eax */
        0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d, 0xc3};
    int file = memfd_create("code", 0);
    ftruncate(file, 4096);
    uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
    int right = 0;
    for (int i = 0; i < 200; i++) {
        uint8_t *at = p + 64 * (i % 3) + i % 7;
        memcpy(at, code, sizeof code);
        memcpy(at + 12, &i, 4);
        right += call(at) == i;
    }
    printf("%d\n", right);
    return 0;
}
