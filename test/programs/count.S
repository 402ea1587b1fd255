/* SPDX-License-Identifier: MIT
 * Instructions whose number is known by construction: 1090, the sum of the right column. Exits 0. */
.globl _start
_start:
    mov $100, %ecx              /* 1 */
1:  dec %ecx
    jnz 1b                      /* 2 * 100 */
    mov $50, %ecx               /* 1 */
2:  loop 2b                     /* 50: an instruction that leads to itself */
    xor %eax, %eax              /* 1 */
    jz 3f                       /* 1: taken, to its own successor */
3:  jnz 4f                      /* 1: not taken, to its own successor */
4:  jrcxz 5f                    /* 1: taken, likewise */
5:  cld                         /* 1 */
    lea buffer(%rip), %rdi      /* 1 */
    mov $300, %ecx              /* 1 */
    rep stosb                   /* 1, of 300 steps */
    xor %ecx, %ecx              /* 1 */
    rep stosb                   /* 1, of none */
    lea buffer(%rip), %rsi      /* 1 */
    lea buffer(%rip), %rdi      /* 1 */
    mov $300, %ecx              /* 1 */
    repe cmpsb                  /* 1 */
    call next                   /* 1: displacement 0 */
next:
    pop %rax                    /* 1 */
    mov $200, %ebx              /* 1 */
6:  call leaf                   /* 4 * 200, leaf's included */
    dec %ebx
    jnz 6b
    mov %ss, %eax               /* 1 */
    mov %eax, %ss               /* 1: no trap behind it */
    lea done(%rip), %rax        /* 1: in its shadow */
    mov $39, %eax               /* 1 */
    syscall                     /* 1: getpid */
    pause                       /* 1 */
    mov %ss, %eax               /* 1 */
    mov %eax, %ss               /* 1 */
    jmp done                    /* 1: a branch in the shadow */
    ud2
done:
    pushf                       /* 1 */
    pop %rbx                    /* 1 */
    and $0x100, %ebx            /* 1: TF must not be seen */
    shr $8, %ebx                /* 1 */
    mov $39, %eax               /* 1 */
    syscall                     /* 1: R11 has the flags */
    and $0x100, %r11d           /* 1 */
    shr $7, %r11d               /* 1 */
    or %r11d, %ebx              /* 1 */
    mov %ebx, %edi              /* 1 */
    mov $60, %eax               /* 1 */
    syscall                     /* 1 */
leaf:
    ret
.bss
buffer: .skip 300
