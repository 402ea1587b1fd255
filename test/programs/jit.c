/* SPDX-License-Identifier: MIT
 * Code written at run time in every way: in place, by mprotect, through a second mapping, by the
 * kernel, by another thread, by the instruction before. */
#define _GNU_SOURCE /* memfd_create */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*function)(void);

static const uint8_t answer[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov $imm32, %eax; ret */

static void put(uint8_t *at, int value)
{
    memcpy(at, answer, sizeof answer);
    memcpy(at + 1, &value, 4);
}

static int call(const void *code) { return ((function)(uintptr_t)code)(); }

static uint8_t *shared;

static void *rewrite(void *arg)
{
    put(shared, (int)(long)arg);
    return NULL;
}

int main(void)
{
    int rwx = PROT_READ | PROT_WRITE | PROT_EXEC, sum = 0;
    uint8_t *page = mmap(NULL, 8192, rwx, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) { /* write, run, rewrite, run */
        put(page + 64 * (i & 1), i);
        sum += call(page + 64 * (i & 1));
    }
    put(page + 4094, 1000); /* across two pages */
    sum += call(page + 4094);
    put(page + 4094, 2000);
    sum += call(page + 4094);
    printf("%d\n", sum);

    /* The instruction before changes the one behind it, on the same page:
     * movb $5, 1(%rip) [the immediate of what follows]; mov $0, %eax; inc of the stored byte; ret
     */
    static const uint8_t self[] = {0xc6, 0x05, 0x01, 0, 0, 0, 5, 0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(page + 256, self, sizeof self);
    sum = call(page + 256);
    page[256 + 6] = 9;
    sum = sum * 100 + call(page + 256);
    printf("%d\n", sum);

    /* W^X: writable, then executable, twice at one place. */
    uint8_t *wx = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = sum = 0; i < 3; i++) {
        mprotect(wx, 4096, PROT_READ | PROT_WRITE);
        put(wx, 10 + i);
        mprotect(wx, 4096, PROT_READ | PROT_EXEC);
        sum = sum * 100 + call(wx);
    }
    printf("%d\n", sum);

    /* A second mapping writes. */
    int fd = memfd_create("jit", 0);
    if (ftruncate(fd, 4096))
        return 1;
    uint8_t *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    for (int i = sum = 0; i < 3; i++) {
        put(w, 20 + i);
        sum = sum * 100 + call(x);
    }
    printf("%d\n", sum);

    /* The kernel writes. */
    int p[2];
    uint8_t code[6];
    if (pipe(p))
        return 1;
    for (int i = sum = 0; i < 3; i++) {
        put(code, 30 + i);
        if (write(p[1], code, 6) != 6 || read(p[0], page + 512, 6) != 6)
            return 1;
        sum = sum * 100 + call(page + 512);
    }
    printf("%d\n", sum);

    /* Another thread writes. */
    shared = page + 1024;
    for (long i = sum = 0; i < 3; i++) {
        pthread_t t;
        pthread_create(&t, NULL, rewrite, (void *)(40 + i));
        pthread_join(t, NULL);
        sum = sum * 100 + call(shared);
    }
    printf("%d\n", sum);

    /* Unmapped, and something else mapped there. */
    for (int i = sum = 0; i < 3; i++) {
        munmap(wx, 4096);
        wx = mmap(wx, 4096, rwx, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        put(wx, 50 + i);
        sum = sum * 100 + call(wx);
    }
    printf("%d\n", sum);

    /* A child has its own. */
    fflush(stdout);
    put(page, 60);
    pid_t pid = fork();
    if (!pid) {
        int before = call(page);
        put(page, 61);
        printf("%d %d\n", before, call(page));
        return 0;
    }
    waitpid(pid, NULL, 0);
    printf("%d\n", call(page));
    return 0;
}
