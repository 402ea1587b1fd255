/* SPDX-License-Identifier: MIT
 * Recursion deeper than any return stack. */
#include <stdio.h>

static int __attribute__((noinline)) down(int n) { return n ? down(n - 1) * 3 % 1009 + n : 1; }
static int __attribute__((noinline)) fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(void)
{
    printf("%d %d\n", down(1500), fib(9));
    return 0;
}
