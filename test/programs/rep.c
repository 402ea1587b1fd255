/* SPDX-License-Identifier: MIT
 * String instructions with REP: long, short, overlapping, backwards, over the end of memory, over their own code. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { BYTES = 100000 };
static uint8_t a[BYTES], b[BYTES];
static sigjmp_buf back;
static uint64_t at_fault[3];

static void print(const char *what, const uint8_t *p)
{
    uint32_t sum = 1;
    for (int i = 0; i < 500; i++)
        sum = sum * 31 + p[i * (BYTES / 500)];
    printf("%s %08x\n", what, sum);
}

#define REP(instruction, to, from, count, value)                                                            \
    do {                                                                                                    \
        const void *s_ = (from);                                                                            \
        void *d_ = (to);                                                                                    \
        uint64_t n_ = (count);                                                                              \
        __asm__ volatile("rep " instruction "\n cld" : "+D"(d_), "+S"(s_), "+c"(n_) : "a"(value) : "memory", "cc"); \
        printf("%td %llu ", (uint8_t *)d_ - (uint8_t *)(to), (unsigned long long)n_);                       \
    } while (0)

static void on_fault(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    (void)signo, (void)info;
    at_fault[0] = (uint64_t)uc->uc_mcontext.gregs[REG_RCX];
    at_fault[1] = (uint64_t)uc->uc_mcontext.gregs[REG_RDI];
    at_fault[2] = (uint64_t)uc->uc_mcontext.gregs[REG_RSI];
    siglongjmp(back, 1);
}

/* Into a page that may not be written: everything before it is done, the registers say how far. */
static void beyond_the_end(void)
{
    uint8_t *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(p + 2 * 4096, 4096, PROT_READ);
    if (!sigsetjmp(back, 1))
        REP("stosq", p + 4, a, 3000, 0x1122334455667788);
    else
        printf("stopped with %llu to go at %lld\n", (unsigned long long)at_fault[0], (long long)(at_fault[1] - (uintptr_t)p));
    if (!sigsetjmp(back, 1))
        REP("movsb", p + 4096, a, 9000, 0);
    else
        printf("stopped with %llu to go at %lld\n", (unsigned long long)at_fault[0], (long long)(at_fault[2] - (uintptr_t)a));
}

/* rep stosb writes RETs over what follows it, which runs then; and over itself, which it does not notice. */
static void over_code(void)
{
    static const uint8_t code[] = {0xf3, 0xaa, 0xb8, 1, 0, 0, 0, 0xc3};
    uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*f)(void *, int, int, long);
    memcpy(p + 64, code, sizeof code);
    p += 64;
    memcpy(&f, &p, sizeof f);
    uint64_t r = 0xc3, n = 3000;
    void *d = p + 2;
    __asm__ volatile("call *%3" : "+a"(r), "+c"(n), "+D"(d) : "r"(f) : "memory");
    printf("returned %llu %llu\n", (unsigned long long)r, (unsigned long long)n);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    REP("stosb", a, a, BYTES, 0x41);
    print("bytes", a);
    REP("stosw", a, a, BYTES / 4, 0x1234);
    REP("stosl", b + 1, b, BYTES / 8, 0x89abcdef);
    print("double words", b);
    for (int i = 0; i < BYTES; i += 7)
        a[i] = (uint8_t)i;
    REP("movsb", b + 3, a + 1, BYTES - 4, 0);
    print("moved", b);
    REP("movsb", a + 100, a, BYTES - 100, 0);
    print("forward by 100", a);
    REP("movsb", b + 1, b, 3000, 0);
    print("forward by 1", b);
    REP("movsq", a, a + 20, 10000, 0);
    print("back by 20", a);
    REP("movsw", a + 5, a, 300, 0);
    print("forward by 5 in words", a);
    __asm__ volatile("std");
    REP("movsb", b + 2999, a + 2999, 3000, 0);
    print("downwards", b);
    REP("stosb", a, b, 0, 1);
    REP("stosb", a, b, 1, 1);
    printf("\n");
    beyond_the_end();
    over_code();
    return 0;
}
