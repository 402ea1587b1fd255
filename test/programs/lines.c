/* SPDX-License-Identifier: MIT
 * Lines that run a known number of times, and lines that do not: what gcov and cofi coverage count alike. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf back;

static int collatz(unsigned n) {
    int steps = 0;
    while (n != 1) {
        if (n & 1)
            n = 3 * n + 1;
        else
            n /= 2;
        steps++;
    }
    return steps;
}

static int fib(int n) {
    if (n < 2)
        return n;
    return fib(n - 1) +
           fib(n - 2);
}

static const char *name_of(int kind) {
    switch (kind) {
    case 0:
        return "zero";
    case 1:
    case 2:
        return "few";
    case 7:
        return "never asked";
    default:
        break;
    }
    return "many";
}

static int by_number(const void *a, const void *b) {
    const int *x = a, *y = b;
    if (*x < *y)
        return -1;
    if (*x > *y)
        return 1;
    return 0;
}

int unused(int n) {
    do {
        n--;
    } while (n > 0);
    return n;
}

static void leave(int n) {
    if (n == 0)
        longjmp(back, 1);
    leave(n - 1);
}

static int sort_some(int n) {
    int list[64];
    int i = 0;
again:
    list[i] = (i * 37) % 61;
    i++;
    if (i < n)
        goto again;
    qsort(list, (size_t)n, sizeof list[0], by_number);
    return list[n / 2];
}

int main(int argc, char **argv) {
    int sum = argc;
    for (int i = 1; i < 30; i++)
        sum += collatz((unsigned)i);
    sum += fib(11);
    for (int i = 0; i < 9; i++) {
        const char *name = name_of(i % 7);
        sum += (int)strlen(name);
    }
    if (argc > 1 && !strcmp(argv[1], "more")) {
        for (int i = 0; i < 5; i++)
            sum += fib(i);
    }
    sum += sort_some(50);
    if (!setjmp(back))
        leave(6);
    else
        sum++;
    int n = 40;
    do {
        n -= 3;
        if (n % 5 == 0)
            continue;
        sum ^= n;
    } while (n > 0);
    if (argc > 9)
        sum = unused(sum);
    printf("%d\n", sum);
    return sum == 12345;
}
