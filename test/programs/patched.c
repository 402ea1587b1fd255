/* SPDX-License-Identifier: MIT
 * A function patched in place, as hooks are set: its page and the next one are made writable, it runs, its page is made what it was, it runs
 * again, and so does what never ran before. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

__asm__(".text\n.p2align 12\npatched: movl $1, %eax\nret\n.p2align 12\n.skip 4096");
extern unsigned char patched[];

static int run(void) { return ((int (*)(void))(uintptr_t)patched)(); }

static __attribute__((noinline)) int seven(int x) { return x * 7 + 1; }
static __attribute__((noinline)) int eleven(int x) { return x * 11 + 3; }
static __attribute__((noinline)) int thirteen(int x) { return x * 13 + 5; }

int main(void)
{
    int (*const new[])(int) = {seven, eleven, thirteen};
    int sum = run();
    for (int i = 0; i < 3; i++) {
        mprotect(patched, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(patched + 5, (unsigned char[]){0x83, 0xc0, (unsigned char)(i + 1), 0xc3}, 4); /* add eax, i + 1; ret */
        sum += run();
        mprotect(patched, PAGE, PROT_READ | PROT_EXEC);
        sum += run();
        sum = new[i](sum);
        sum += run();
        mprotect(patched + PAGE, PAGE, PROT_READ | PROT_EXEC);
        sum += run();
    }
    printf("%d\n", sum);
    return sum & 63;
}
