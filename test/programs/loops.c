/* SPDX-License-Identifier: MIT
 * Short loops, which a superblock may hold several rounds of: left after every number of rounds, by either end and in the middle, with
 * all registers in use, and with a fault in each round. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

enum { ROUNDS = 9 };
#define EACH(code, ...) for (uint64_t n = 1; n <= ROUNDS; n++) __asm__ volatile(code : __VA_ARGS__)
#define USED "cc", "memory", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r14", "r15"

static uint64_t sum;

/* The branch back is the only one; or one of two, of which the other is or is not usually taken. */
static void backward(void)
{
    EACH("mov %1, %%rcx\n1: add %%rcx, %0\n dec %%rcx\n jnz 1b", "+m"(sum) : "r"(n) : USED);
    EACH("mov %1, %%rcx\n1: add %%rcx, %0\n loop 1b", "+m"(sum) : "r"(n) : USED);
    EACH("xor %%ecx, %%ecx\n1: inc %%rcx\n test $1, %%cl\n jz 2f\n addq $3, %0\n2: cmp %1, %%rcx\n jb 1b", "+m"(sum) : "r"(n) : USED);
    EACH("xor %%ecx, %%ecx\n1: inc %%rcx\n cmp $7, %%rcx\n je 2f\n cmp %1, %%rcx\n jb 1b\n2: add %%rcx, %0", "+m"(sum) : "r"(n) : USED);
}

/* The way out is ahead, and a jump leads back. */
static void forward(void)
{
    EACH("mov %1, %%rcx\n1: test %%rcx, %%rcx\n jz 2f\n add %%rcx, %0\n dec %%rcx\n jmp 1b\n2:", "+m"(sum) : "r"(n) : USED);
    EACH("mov %1, %%rcx\n1: jrcxz 2f\n add %%rcx, %0\n dec %%rcx\n jmp 1b\n2:", "+m"(sum) : "r"(n) : USED);
    EACH("mov %1, %%rcx\n1: sub $1, %%rcx\n jb 2f\n cmp $3, %%rcx\n je 3f\n3: cmp $5, %%rcx\n je 4f\n incq %0\n4: jmp 1b\n2:",
         "+m"(sum) : "r"(n) : USED);
}

/* As many branches as a record holds, and more. */
static void branches(void)
{
#define SKIP(k) "test $" #k ", %%cl\n jz " #k "f\n addq $" #k ", %0\n" #k ": "
    EACH("mov %1, %%rcx\n0: " SKIP(1) SKIP(2) "dec %%rcx\n jnz 0b", "+m"(sum) : "r"(n) : USED);
    EACH("mov %1, %%rcx\n0: " SKIP(1) SKIP(2) SKIP(4) SKIP(8) SKIP(16) "dec %%rcx\n jnz 0b", "+m"(sum) : "r"(n) : USED);
    EACH("mov %1, %%rcx\n0: " SKIP(1) SKIP(2) SKIP(4) SKIP(8) SKIP(16) SKIP(32) "dec %%rcx\n jnz 0b", "+m"(sum) : "r"(n) : USED);
#undef SKIP
}

/* R11 and what may stand in for it live from round to round, and across the loop. */
static void registers(void)
{
    EACH("mov %1, %%rcx\n mov $5, %%r11d\n mov $6, %%r15d\n mov $7, %%r8d\n mov $8, %%r14d\n"
         "1: add %%r11, %%r8\n lea (%%r8,%%r14), %%r9\n mov %%r9, %%r10\n xor %%r11, %%r10\n test $1, %%r10b\n jz 2f\n inc %%r11\n"
         "2: dec %%rcx\n jnz 1b\n add %%r11, %0\n add %%r15, %0\n add %%r10, %0\n add %%r14, %0", "+m"(sum) : "r"(n) : USED);
}

/* Go on behind the access, which takes 3 bytes. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    (void)sig;
    (void)info;
    sum = sum * 31 + (uint64_t)u->uc_mcontext.gregs[REG_RCX] * 7 + (uint64_t)u->uc_mcontext.gregs[REG_R11];
    u->uc_mcontext.gregs[REG_RIP] += 3;
}

/* In each round, and in one of them. */
static void faults(void)
{
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &act, NULL);
    EACH("mov %1, %%rcx\n xor %%r11d, %%r11d\n1: test $1, %%cl\n jz 2f\n inc %%r11\n2: mov (%%r11), %%r8b\n dec %%rcx\n jnz 1b", "+m"(sum)
         : "r"(n) : USED);
    EACH("mov %1, %%rcx\n xor %%r11d, %%r11d\n1: inc %%r11\n cmp $3, %%rcx\n jne 2f\n mov (%%r11), %%r8b\n2: dec %%rcx\n jnz 1b", "+m"(sum)
         : "r"(n) : USED);
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        backward();
        forward();
        branches();
        registers();
    }
    faults();
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
