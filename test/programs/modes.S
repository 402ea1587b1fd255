/* SPDX-License-Identifier: MIT
 * From 64-bit to 32-bit code and back by far transfers; non-PIE, so that addresses fit. Exits 0. */
.globl _start
_start:
    mov $40, %ebx
    lea stack_end(%rip), %rsp
1:  ljmp *to32(%rip)
back:
    .code64
    dec %ebx
    jnz 1b
    mov $60, %eax
    xor %edi, %edi
    syscall
.code32
in32:
    mov $20, %eax
    int $0x80
    call leaf32
    push $0x33
    push $back
    lret
leaf32:
    ret
.data
to32: .long in32
    .word 0x23
.bss
.balign 16
stack: .skip 4096
stack_end:
