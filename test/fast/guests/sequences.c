/* SPDX-License-Identifier: MIT
 * Restartable sequences: known to the kernel, with faults, and with more rounds than are written down [sequences.c of programs: of all shapes]. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../../programs/sequence.h"
#include "guests.h"

/* Whether the kernel knows that this is a sequence, which has R11 from before it, and leaves what it does not name; or -1: it was aborted. */
static int __attribute__((noipa)) is_known(struct rseq *rs)
{
    int done;
    uint64_t seen, r11, sum = 0;
    __asm__ volatile(DESCRIPTOR("known_cs")
                     "mov $1, %%r8d\n\tmov $2, %%r9d\n\tmov $4, %%r10d\n\tmov $8, %%r12d\n\tmov $16, %%r13d\n\tmov $32, %%r14d\n\tmov $64, %%r15d\n\t"
                     "mov $11, %%r11d\n\tlea known_cs(%%rip), %%rax\n\tmovq %%rax, %[cs]\n"
                     "1:\tmov %[cs], %%rax\n\tinc %%r11\n\tmov %%rax, %[seen]\n"
                     "2:\tmov %%r11, %[r11]\n\tmov $1, %[done]\n"
                     "6:\tadd %%r9, %%r8\n\tadd %%r12, %%r10\n\tadd %%r14, %%r13\n\tadd %%r10, %%r8\n\tadd %%r15, %%r13\n\tadd %%r13, %%r8\n\tmov %%r8, %[sum]\n"
                     : [cs] "+m"(rs->rseq_cs), [done] "=&r"(done), [seen] "=m"(seen), [r11] "=m"(r11), [sum] "=m"(sum)
                     :
                     : "rax", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc");
    return done ? seen && r11 == 12 && sum == 127 : -1;
}

extern const uint64_t known_cs[4];

int guest_sequences_known(void)
{
    int known;
    while ((known = is_known(area())) < 0)
        ;
    uint64_t left = *(volatile uint64_t *)&area()->rseq_cs;
    printf("%d %d\n", known, !left || left == (uint64_t)known_cs);
    return 0;
}

/* More rounds than are written down, then few again. */
int guest_sequences_long(void)
{
    printf("%lu", (unsigned long)reckoned(5));
    printf(" %lu", (unsigned long)reckoned(300));
    printf(" %lu\n", (unsigned long)reckoned(7));
    return 0;
}

extern const uint64_t touch_cs[4];
extern const uint8_t touch_ud2[];
static const uint8_t *faulted_at, *went_on_at;
static int faulted;

static void on_fault(int signo, siginfo_t *info, void *context)
{
    const ucontext_t *uc = context;
    faulted = signo;
    faulted_at = info->si_addr;
    went_on_at = (const uint8_t *)uc->uc_mcontext.gregs[REG_RIP];
}

/* Write to p, and be no instruction if that is asked for. Returns 0 if it was aborted. */
static int __attribute__((noipa)) touch(struct rseq *rs, uint8_t *p, int undefined)
{
    int done;
    __asm__ volatile(DESCRIPTOR("touch_cs")
                     "lea touch_cs(%%rip), %%rax\n\tmovq %%rax, %[cs]\n"
                     "1:\ttest %[undefined], %[undefined]\n\tjz 3f\n"
                     "touch_ud2:\tud2\n"
                     "3:\tmovb $0xc3, (%[p])\n"
                     "2:\tmov $1, %[done]\n"
                     "6:\n"
                     : [cs] "+m"(rs->rseq_cs), [done] "=&r"(done)
                     : [p] "r"(p), [undefined] "r"(undefined)
                     : "rax", "cc", "memory");
    return done;
}

/* … until it is done, or a signal says why not. */
static void touched(const char *what, uint8_t *p, int undefined)
{
    int done = 0;
    faulted = 0;
    while (!done && !faulted)
        done = touch(area(), p, undefined);
    printf("%s: %d, signal %d", what, done, faulted);
    if (faulted)
        printf(", at %s, on at %s", faulted_at == p ? "the operand" : faulted_at == touch_ud2 ? "the instruction" : "?",
               went_on_at == (const uint8_t *)touch_cs[3] ? "the abort handler" : "?");
    puts("");
}

int guest_sequences_fault(void)
{
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGILL, &a, NULL);
    if (!__rseq_size)
        return 0;
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, "\x90\x90\xc3", 3);
    ((void (*)(void))page)();
    touched("code that ran", page, 0);
    ((void (*)(void))page)();
    touched("nothing there", (uint8_t *)64, 0);
    touched("no instruction", page, 1);
    touched("code that ran, again", page, 0);
    return 0;
}
