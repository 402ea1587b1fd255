/* SPDX-License-Identifier: MIT
 * System calls with none to ten prefixes, in a loop [ERR E1]. */
    .globl _start
_start:
    mov $20, %ebx
1:  mov $39, %eax               # getpid
    syscall
    mov $39, %eax
    .byte 0x2e, 0x3e, 0x26      # three prefixes: still right
    syscall
    mov $39, %eax
    .byte 0x2e, 0x3e, 0x26, 0x36
    syscall
    mov $39, %eax
    .byte 0x66, 0x67, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0x3e, 0x48
    syscall
    dec %ebx
    jnz 1b
    mov $60, %eax
    xor %edi, %edi
    syscall
