/* SPDX-License-Identifier: MIT
 * A restartable sequence (rseq) with branches within, out of it and back, and R11. */
#ifndef COFI_TEST_PROGRAMS_SEQUENCE_H
#define COFI_TEST_PROGRAMS_SEQUENCE_H

#include <stdint.h>
#include <sys/rseq.h>

static inline struct rseq *area(void)
{
    static struct rseq mine;
    return __rseq_size ? (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset) : &mine;
}

/* Descriptor NAME of the sequence from 1 to 2, and its abort handler at 4, which leads to 6 with 0 in `done`. */
#define DESCRIPTOR(name)                                                                                                  \
    ".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n" name ":\n\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"     \
    ".pushsection .text.abort, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n4:\n\txor %[done], %[done]\n\t"       \
    "jmp 6f\n\t.popsection\n\t"

static uint64_t step_by = 3, result;

/* What n rounds come to: 1, to be found in result; 2 or 3, if that is much or little; 0: it was aborted. */
static int __attribute__((noipa)) reckon(struct rseq *rs, uint64_t n)
{
    int done;
    __asm__ volatile(DESCRIPTOR("reckon_cs")
                     "lea reckon_cs(%%rip), %%r11\n\tmovq %%r11, %[cs]\n"
                     "1:\tmov %[n], %%r11\n\txor %%eax, %%eax\n\tmov $1, %%ecx\n"
                     "3:\ttest $1, %%r11b\n\tjz 5f\n\tadd %%rcx, %%rax\n\tjmp 8f\n"
                     "5:\tlea 1(%%rcx, %%rcx), %%ecx\n"
                     "8:\tadd %[by], %%rax\n\tdec %%r11\n\tjnz 3b\n\t"
                     "cmp $9, %%rax\n\tjb 10f\n\tje 12f\n\tcmp $4000, %%rax\n\tja 11f\n"
                     "12:\tmov %%rax, %[result]\n"
                     "2:\tmov $1, %[done]\n\tjmp 6f\n"
                     "10:\tmov $3, %[done]\n\tjmp 6f\n"
                     "11:\tmov $2, %[done]\n"
                     "6:\n"
                     : [cs] "+m"(rs->rseq_cs), [done] "=&r"(done), [result] "=m"(result)
                     : [n] "r"(n), [by] "m"(step_by)
                     : "rax", "rcx", "r11", "cc");
    return done;
}

/* A result as a number, however often it takes. */
static inline uint64_t reckoned(uint64_t n)
{
    int done;
    result = 0;
    while (!(done = reckon(area(), n)))
        ;
    return result * 10 + (unsigned)done;
}

#endif
