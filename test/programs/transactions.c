/* SPDX-License-Identifier: MIT
 * Transactions (RTM), each of which is aborted: with its fallback ahead, behind it, next to it, at what leads into it, and within 16 bits. */
#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ROUNDS = 5 };

static volatile uint64_t inside;

#define ABORTED(code) for (int i = 0; i < ROUNDS; i++) { \
        uint64_t status = UINT32_MAX; \
        __asm__ volatile(code : "+a"(status), "+m"(inside) : : "cc", "memory"); \
        sum = sum * 3 + (status == UINT32_MAX ? 1 : 2); \
    }

static uint64_t run(void)
{
    uint64_t sum = 0;
    ABORTED("xbegin 1f\n incq %1\n xend\n jmp 2f\n1: incq %1\n2:");
    ABORTED("jmp 2f\n1: incq %1\n jmp 3f\n2: xbegin 1b\n incq %1\n xend\n3:");
    ABORTED("xbegin 1f\n1: cmp $-1, %%eax\n jne 2f\n xend\n2:");
    ABORTED("xbegin 1f\n2: cmp $-1, %%eax\n jne 3f\n xend\n jmp 3f\n1: jmp 2b\n3:");
    ABORTED(".byte 0x66, 0xc7, 0xf8, 5, 0\n xend\n jmp 1f\n incq %1\n1:");
    ABORTED("xtest\n jz 1f\n incq %1\n1: xabort $7");
    return sum;
}

int main(void)
{
    unsigned a, b, c, d;
    bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1 << 11;
    if (has)
        printf("%d\n", (int)(run() + inside));
    else
        puts("none here");
    return 0;
}
