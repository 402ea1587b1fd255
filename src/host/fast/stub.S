/* SPDX-License-Identifier: MIT
 * What a program does to get the runtime: maps the window, the runtime's file over its beginning, and the shared memory. It runs in place of
 * code of the program's, wherever that is, without its stack, and ends at INT3.
 *   RDI, RSI, RDX, R10, R8 (-1), R9 (0): the window's mmap
 *   RBX: path of the runtime's file, RBP: its bytes
 *   R12: path of the shared memory, R13, R14, R15: where, bytes and flags of its mmap
 * At its end R9 is 0: there is no window; 1: there is no more than that; 2: there is all. R8 is the shared memory's descriptor, or -1. */
#include <asm/unistd_64.h>
#define AT_FDCWD  -100
#define O_RDONLY  0
#define O_RDWR    2
#define O_CLOEXEC 0x80000
#define PROT_RW   3
#define PROT_ALL  7
#define MAP_OVER  0x12 /* MAP_PRIVATE | MAP_FIXED */
#define WINDOW    0x6e000000 /* COFI__FAST_RUNTIME_BASE */

        .macro make nr
        mov $\nr, %eax
        syscall
        .endm

        .macro open path, flags
        mov $AT_FDCWD, %edi
        mov \path, %rsi
        mov $(\flags | O_CLOEXEC), %edx
        make __NR_openat
        test %eax, %eax
        js 9f
        mov %eax, %r8d
        .endm

        .section .rodata
        .globl cofi__fast_stub, cofi__fast_stub_end
cofi__fast_stub:
        make __NR_mmap
        cmp %rdi, %rax
        jne 9f
        mov $1, %r9d

        open %rbx, O_RDONLY
        mov $WINDOW, %edi
        mov %rbp, %rsi
        mov $PROT_ALL, %edx
        mov $MAP_OVER, %r10d
        xor %r9d, %r9d
        make __NR_mmap
        mov $1, %r9d
        mov %rax, %rbx
        mov %r8d, %edi
        make __NR_close
        or $-1, %r8
        cmp $WINDOW, %rbx
        jne 9f

        open %r12, O_RDWR
        mov %r13, %rdi
        mov %r14, %rsi
        mov $PROT_RW, %edx
        mov %r15, %r10
        xor %r9d, %r9d
        make __NR_mmap
        mov $1, %r9d
        cmp %rdi, %rax
        jne 9f
        mov $2, %r9d
9:      int3
cofi__fast_stub_end:
        .org cofi__fast_stub + 192 /* no longer than struct stub has room */

        .section .note.GNU-stack, "", @progbits
