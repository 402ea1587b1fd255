/* SPDX-License-Identifier: MIT
 * Acts of instructions that trap. */
#include <sys/mman.h>
#include <unistd.h>

#include "lives.h"

/* A handler goes on at 2, with the stack as here. */
#define TRAPPING(name, code)                                                       \
    static int name(void)                                                          \
    {                                                                              \
        int r = 7;                                                                 \
        __asm__ volatile("lea 2f(%%rip), %%rax\n mov %%rax, %1\n mov %%rsp, %2\n " \
                         "mov $5, %%ecx\n" code "\n 2: mov %%ecx, %0"              \
                         : "=m"(r), "=m"(resume_at), "=m"(resume_stack)            \
                         : "m"(read_only), "m"(beyond)                             \
                         : "rax", "rbx", "rcx", "rdx", "memory", "cc");            \
        return r;                                                                  \
    }

static const int read_only = 3;
static char *beyond; /* mapped, of no file any more */

TRAPPING(loads_nothing, "mov $16, %%eax\n mov (%%rax), %%ecx")
TRAPPING(writes_read_only, "movl $9, %3")
TRAPPING(beyond_file, "mov %4, %%rax\n mov (%%rax), %%ecx")
TRAPPING(undefined, "ud2")
TRAPPING(divides, "xor %%edx, %%edx\n mov $1, %%eax\n xor %%ebx, %%ebx\n div %%ebx")
TRAPPING(breaks, "int3\n mov $6, %%ecx")
TRAPPING(privileged, "hlt")
TRAPPING(calls_nothing, "mov $0x20, %%eax\n call *%%rax")
TRAPPING(jumps_nowhere, "mov $0x30, %%eax\n jmp *%%rax")
TRAPPING(returns_nowhere, "push $0x40\n ret")
TRAPPING(non_canonical, "mov $0x8000000000000000, %%rax\n mov (%%rax), %%ecx")
TRAPPING(steps, "pushfq\n orl $0x100, (%%rsp)\n popfq\n mov $8, %%ecx\n mov $9, %%ecx")
TRAPPING(unaligned, "movaps 1(%%rsp), %%xmm0")
TRAPPING(interrupt, "int $0x81")
TRAPPING(divides_floats, "push $0x1d80\n ldmxcsr (%%rsp)\n pxor %%xmm1, %%xmm1\n mov $1, "
                         "%%eax\n cvtsi2ss %%eax, %%xmm0\n divss %%xmm1, %%xmm0")

static int (*const trapping[])(void) = {loads_nothing, writes_read_only, beyond_file,   undefined, divides,   breaks,    privileged,    calls_nothing,
                                        jumps_nowhere, returns_nowhere,  non_canonical, steps,     unaligned, interrupt, divides_floats};

static char *map_beyond(void)
{
    int fd = memfd_create("short", 0);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p;
}

/* A trap that no handler puts right leaves resume_at as it is; one in a handler
 * has its own. */
void run_resumed(int (*f)(void), int *result)
{
    uint64_t at = resume_at, stack = resume_stack;
    *result = f();
    __asm__ volatile("pushfq\n andl $~0x100, (%%rsp)\n popfq\n" : : : "cc", "memory");
    __builtin_ia32_ldmxcsr(0x1f80);
    resume_at = at;
    resume_stack = stack;
}

void act_fault(void)
{
    unsigned which = below(sizeof trapping / sizeof trapping[0]);
    int r;
    if (!beyond)
        beyond = map_beyond();
    tell(" fault %u", which);
    run_resumed(trapping[which], &r);
    tell(" went on with %d", r);
}
