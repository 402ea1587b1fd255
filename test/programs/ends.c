/* SPDX-License-Identifier: MIT
 * ends WAY FILE: four threads count in FILE, each count an instruction at the symbol `counted`; meanwhile the process ends by
 * exit_group, a signal, a fault, an exec, or an exec after many that failed. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 4 };
static volatile uint64_t (*counts)[8]; /* a cache line each */

static void *spin(void *count)
{
    /* Branches that are not taken: nothing tells of them before the loop's end. */
    __asm__ volatile("xor %%eax, %%eax\n.globl counted\ncounted: incq (%0)\n"
                     "test %%eax, %%eax\njne 1f\npause\npause\njne 1f\npause\npause\npause\njne 1f\npause\npause\njmp counted\n1: ud2"
                     : : "r"(count) : "rax", "memory", "cc");
    return NULL;
}

static void end(const char *way)
{
    char *none[] = {(char *)"/nonesuch", NULL}, *echo[] = {(char *)"echo", (char *)"executed", NULL};
    if (!strcmp(way, "signal"))
        raise(SIGTERM);
    if (!strcmp(way, "fault"))
        *(volatile int *)8 = 1;
    for (int i = 0; i < 300 && !strcmp(way, "fail"); i++)
        execv(none[0], none);
    if (!strcmp(way, "exec") || !strcmp(way, "fail"))
        execv("/bin/echo", echo);
    _exit(7);
}

int main(int argc, char **argv)
{
    int fd = argc > 2 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    pthread_t thread;
    if (fd < 0 || ftruncate(fd, 4096))
        return 2;
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread, NULL, spin, (void *)counts[i]);
    for (int i = 0; i < THREADS; i++)
        while (!counts[i][0])
            usleep(1000);
    usleep(20000);
    end(argv[1]);
}
