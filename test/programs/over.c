/* SPDX-License-Identifier: MIT
 * Maps memory, by one of three calls, at a place that is free in most programs, but not under the fast host. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

/* A segment that goes with this process. */
static int segment(size_t bytes)
{
    int id = shmget(IPC_PRIVATE, bytes, 0600);
    shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    return id;
}

int main(int argc, char **argv)
{
    enum { BYTES = 1 << 16 };
    void *at = (void *)strtoul(argv[1], NULL, 16), *got = MAP_FAILED;
    void *other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (argc == 2)
        got = mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    else if (!strcmp(argv[2], "moved"))
        got = mremap(other, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    else
        got = shmat(segment(BYTES), at, SHM_REMAP);
    puts(got == at ? "mapped" : "not mapped");
    return got != at;
}
