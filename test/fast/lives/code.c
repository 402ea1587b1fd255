/* SPDX-License-Identifier: MIT
 * Acts of code that a life makes, changes, moves and drops. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lives.h"

enum { SLOTS = 5, PAGE = 4096, BYTES = 2 * PAGE, FUNCTIONS = 6 };

/* A second address, of the same memory, in slots that have one. */
static struct {
    unsigned char *at, *twin;
    int prot;
    unsigned written; /* by function */
} slots[SLOTS];
static unsigned running_slot, running_function;

static unsigned char *place(unsigned function)
{
    return slots[running_slot].at + (function < 3 ? (int)function * 64 : PAGE - 20 + ((int)function - 3) * 64);
}

void act_code_map(void)
{
    running_slot = below(SLOTS);
    if (slots[running_slot].at)
        return;
    int fd = one_in(3) ? memfd_create("twin", 0) : -1, rights = PROT_READ | PROT_WRITE | PROT_EXEC;
    unsigned char *want = (unsigned char *)(0x200000000 + (uint64_t)running_slot * 0x10000);
    if (fd >= 0 && ftruncate(fd, BYTES))
        exit(97);
    slots[running_slot].at = mmap(want, BYTES, rights, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED : MAP_SHARED | MAP_FIXED, fd, 0);
    slots[running_slot].twin = fd < 0 ? NULL : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    slots[running_slot].prot = rights;
    slots[running_slot].written = 0;
    tell(" slot %u %s", running_slot, fd < 0 ? "private" : "twice");
    if (fd >= 0)
        close(fd);
}

static size_t put(unsigned char *p, unsigned char opcode, int32_t value)
{
    *p = opcode;
    memcpy(p + 1, &value, 4);
    return 5;
}

/* mov eax, VALUE; a few rounds of a loop that adds, or a jump to the function
 * before it; ret. */
static size_t make(unsigned char *p, unsigned function)
{
    size_t n = put(p, 0xb8, (int32_t)below(1000));
    unsigned char loop[] = {0x01, 0xc8, 0xff, 0xc9, 0x75, 0xfa};
    if (one_in(3)) {
        n += put(p + n, 0xb9, (int32_t)below(200) + 1);
        memcpy(p + n, loop, sizeof loop);
        n += sizeof loop;
    } else if (function && one_in(3) && slots[running_slot].written & 1u << (function - 1)) {
        n += put(p + n, 0xe9, (int32_t)(place(function - 1) - place(function) - (ptrdiff_t)n - 5));
    }
    p[n] = 0xc3;
    return n + 1;
}

void act_code_write(void)
{
    running_slot = below(SLOTS);
    unsigned function = below(FUNCTIONS);
    unsigned char bytes[64], *to;
    if (!slots[running_slot].at)
        return;
    to = place(function);
    size_t n = make(bytes, function);
    if (slots[running_slot].twin && one_in(2))
        to = slots[running_slot].twin + (to - slots[running_slot].at);
    else if (!(slots[running_slot].prot & PROT_WRITE))
        return;
    memcpy(to, bytes, n);
    slots[running_slot].written |= 1u << function;
    tell(" slot %u function %u, %zu bytes", running_slot, function, n);
}

static int run_code(void)
{
    int r = 0;
    __asm__ volatile("lea 2f(%%rip), %%rax\n mov %%rax, %1\n mov %%rsp, %2\n xor "
                     "%%eax, %%eax\n call *%%rbx\n 2: mov %%eax, %0"
                     : "=m"(r), "=m"(resume_at), "=m"(resume_stack)
                     : "b"(place(running_function))
                     : "rax", "rcx", "rdx", "memory", "cc");
    return r;
}

void act_code_run(void)
{
    running_slot = below(SLOTS);
    running_function = below(FUNCTIONS);
    int r;
    if (!slots[running_slot].at || !(slots[running_slot].written & 1u << running_function))
        return;
    run_resumed(run_code, &r);
    tell(" slot %u function %u: %d", running_slot, running_function, r);
}

void act_code_rights(void)
{
    static const int rights[] = {PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ | PROT_EXEC, PROT_READ | PROT_WRITE,
                                 PROT_READ | PROT_WRITE | PROT_EXEC};
    running_slot = below(SLOTS);
    int prot = rights[below(4)];
    size_t bytes = one_in(4) ? PAGE : BYTES;
    if (!slots[running_slot].at)
        return;
    tell(" slot %u: %d for %zu: %d", running_slot, prot, bytes, mprotect(slots[running_slot].at, bytes, prot));
    slots[running_slot].prot = bytes == BYTES ? prot : slots[running_slot].prot & prot;
}

void act_code_move(void)
{
    running_slot = below(SLOTS);
    unsigned char *from = slots[running_slot].at, *to = (unsigned char *)(0x210000000 + (uint64_t)below(3) * 0x10000);
    for (unsigned i = 0; i < SLOTS; i++)
        if (slots[i].at == to)
            return;
    if (!from || slots[running_slot].twin)
        return;
    bool moved = mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
    tell(" slot %u: %d", running_slot, moved);
    if (moved)
        slots[running_slot].at = to;
}

void act_code_drop(void)
{
    running_slot = below(SLOTS);
    if (!slots[running_slot].at)
        return;
    munmap(slots[running_slot].at, BYTES);
    if (slots[running_slot].twin)
        munmap(slots[running_slot].twin, BYTES);
    slots[running_slot].at = slots[running_slot].twin = NULL;
    tell(" slot %u", running_slot);
}
