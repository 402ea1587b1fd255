/* SPDX-License-Identifier: MIT
 * A 32-bit program: INTO that traps and that does not, also behind MOV SS. */
#include <signal.h>
#include <stdio.h>

static volatile int seen;
static void on_trap(int s) { seen += s; }

int main(void)
{
    signal(SIGSEGV, on_trap);
    int n = 1, most = 0x7fffffff;
    __asm__ volatile("add $1, %0\n into\n add $1, %1\n into\n nop" : "+r"(n), "+r"(most) : : "cc");
    n = 1, most = 0x7fffffff;
    __asm__ volatile("mov %%ss, %%eax\n add $1, %0\n mov %%eax, %%ss\n into\n add $1, %1\n mov %%eax, %%ss\n into\n nop"
                     : "+r"(n), "+r"(most) : : "eax", "cc");
    printf("%d\n", seen);
    return 0;
}
