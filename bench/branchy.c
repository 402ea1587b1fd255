/* SPDX-License-Identifier: MIT
 * branchy ROUNDS [THREADS]: sorting, recursion, calls through pointers, unpredictable branches. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 100000 };

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static long fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int add(int x) { return x + 1; }
static int multiply(int x) { return x * 3; }
static int flip(int x) { return x ^ 5; }
static int (*const volatile operations[4])(int) = {add, multiply, flip, add};

static void *work(void *arg)
{
    uint64_t state = 88172645463325252u;
    long total = 0;
    int32_t *a = malloc(N * sizeof *a);
    for (long round = (long)(intptr_t)arg; a && round; round--) {
        for (int i = 0; i < N; i++)
            a[i] = (int32_t)next_random(&state);
        qsort(a, N, sizeof *a, compare);
        total += a[100] + fib(25);
        for (int i = 0; i < 1500000; i++)
            total += operations[(i * 7) & 3](i);
        for (int i = 0; i < 2500000; i++)
            total = (next_random(&state) & 7) < 3 ? total + i : total ^ i;
    }
    free(a);
    return (void *)total;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1, threads = argc > 2 ? atol(argv[2]) : 1, total = 0;
    pthread_t t[64];
    for (long i = 0; i < threads && i < 64; i++)
        pthread_create(&t[i], NULL, work, (void *)(intptr_t)rounds);
    for (long i = 0; i < threads && i < 64; i++) {
        void *r;
        pthread_join(t[i], &r);
        total += (long)(intptr_t)r;
    }
    printf("%ld\n", total);
    return 0;
}
