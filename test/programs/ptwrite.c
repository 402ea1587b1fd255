/* SPDX-License-Identifier: MIT
 * PTWRITE from a register, from the stack, from behind a segment. */
#include <stdint.h>
#include <stdio.h>

static __thread uint64_t in_tls = 0x1234567800000003;

int main(void)
{
    uint64_t value = 0x1234567800000001, on_stack[2] = {0, 0x1234567800000002};
    uint32_t narrow = 7;
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0xe0" : : "a"(value)); /* ptwrite %rax */
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xae, 0x63, 0x08"
                     :
                     : "b"(on_stack), "m"(on_stack)); /* 8(%rbx) */
    __asm__ volatile("ptwriteq %%fs:in_tls@tpoff" : : "m"(in_tls));
    __asm__ volatile("ptwritel %0" : : "m"(narrow));
    puts("written");
    return 0;
}
