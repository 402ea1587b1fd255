/* SPDX-License-Identifier: MIT
 * The doors between translated code, the runtime's C, and native execution. */
#define EXIT_ID   0x1038
#define TARGET    0x1050
#define STACK     0x1058
#define P         0x1060
#define FLAGS     0x1068
#define PC        0x1070
#define SELF      0x1078
#define REGS      0x1080
#define MISS      0x1100
#define MODE      0x1108
#define CALL_STACK 0x1110
#define SAFEPOINT 0x1010
#define S_RCX     0x1018
#define S_RDX     0x1000
#define COFI__FAST_RUNTIME_SYSCALL 16
#define COFI__FAST_RUNTIME_OWN_END 0x50
#define IBL       0x6e200000
#define IBL_SHIFT 21
#define IBL2      0x6e280000
#define IBL2_MASK 0x7fff
/* DF, NT, AC and ID: what POPF alone can change, which is slow. In the runtime they are clear. */
#define UNUSUAL   0x244400

        .section .text.start, "ax"
        .globl rt_begin
/* First instruction after injection: RDI = slot of the first thread. */
rt_begin:
        jmp 1f
        .org COFI__FAST_RUNTIME_SYSCALL
/* Where the system calls of the runtime itself are, all those that a seccomp filter of the guest must not concern. The
 * first is for the injection. */
        syscall
        int3

        .globl rt_syscall6
rt_syscall6:
        mov %rdi, %rax
        mov %rsi, %rdi
        mov %rdx, %rsi
        mov %rcx, %rdx
        mov %r8, %r10
        mov %r9, %r8
        mov 8(%rsp), %r9
        syscall
        ret

        .globl rt_restorer
rt_restorer:
        mov $15, %eax
        syscall

/* RDI = struct ucontext to go on from. */
        .globl rt_sigreturn
rt_sigreturn:
        mov %rdi, %rsp
        mov $15, %eax
        syscall
        ud2
        .org COFI__FAST_RUNTIME_OWN_END

1:      mov STACK(%rdi), %rsp
        xor %ebp, %ebp
        call rt_start
        ud2

        .text
/* From translated code by an exit: exit_id says which. R11 = P. */
        .globl rt_entry
rt_entry:
        movq $0, %gs:MISS
        mov %r11, %gs:P
1:      mov %rax, %gs:REGS
        mov %rcx, %gs:REGS+8
        mov %rdx, %gs:REGS+16
        mov %rbx, %gs:REGS+24
        mov %rsp, %gs:REGS+32
        mov %rbp, %gs:REGS+40
        mov %rsi, %gs:REGS+48
        mov %rdi, %gs:REGS+56
        mov %r8, %gs:REGS+64
        mov %r9, %gs:REGS+72
        mov %r10, %gs:REGS+80
        mov %r12, %gs:REGS+96
        mov %r13, %gs:REGS+104
        mov %r14, %gs:REGS+112
        mov %r15, %gs:REGS+120
        mov %gs:STACK, %rsp
        pushfq
        pop %rax
        mov %rax, %gs:FLAGS
        test $UNUSUAL, %eax
        jne 4f
5:      mov %gs:SELF, %rdi
        call rt_dispatch
        mov %gs:SELF, %rdi
        jmp rt_resume
4:      pushq $2
        popfq
        jmp 5b

/* From an indirect transfer that found another target's block: RCX - RDX is the target. Flags are the guest's. */
        .globl rt_miss_arrival
rt_miss_arrival:
        not %rdx
        lea 1(%rcx,%rdx), %rcx
/* … or no block: RCX is the target. The second table may have it: then the first has, from now on. A signal up to
 * rt_miss_slow comes as if to translated code. */
        .globl rt_miss, rt_miss_slow
rt_miss:
        mov %rax, %gs:REGS
        mov %rbx, %gs:REGS+24
        mov %rsi, %gs:REGS+48
        lahf
        seto %al
        mov %rcx, %rdx
        shr $15, %rdx
        xor %rcx, %rdx
        and $IBL2_MASK, %edx
        shl $4, %edx
        mov %gs:MODE, %rbx
        shl $IBL_SHIFT, %rbx
        add %rbx, %rdx
        lea 1(%rcx), %rsi
        cmp %rsi, IBL2(%rdx)
        jne 2f
        mov IBL2+8(%rdx), %rdx
        movzwl %cx, %esi
        mov %rdx, IBL(%rbx,%rsi,8)
        add $0x7f, %al
        sahf
        mov %gs:REGS, %rax
        mov %gs:REGS+24, %rbx
        mov %gs:REGS+48, %rsi
        jmp *%rdx
2:      add $0x7f, %al
        sahf
        mov %gs:REGS, %rax
        mov %gs:REGS+24, %rbx
        mov %gs:REGS+48, %rsi
rt_miss_slow:
        mov %rcx, %gs:PC
        mov %gs:S_RCX, %rcx
        mov %gs:S_RDX, %rdx
        movq $1, %gs:MISS
        mov %r11, %gs:P
        jmp 1b

/* Into translated code at target. RDI = thread. A signal that has come since rt_dispatch looked is seen here, one from here on sends the thread
 * back there [stop_soon]. */
        .globl rt_resume
rt_resume:
        mov STACK(%rdi), %rsp
        cmpq $0, SAFEPOINT(%rdi)
        jne 8f
        mov FLAGS(%rdi), %rax
        test $UNUSUAL, %eax
        jne 6f
        mov %eax, %ecx
        shr $11, %ecx
        and $1, %ecx
        add $0x7f, %cl
        mov %al, %ah
        sahf
7:      mov REGS(%rdi), %rax
        mov REGS+8(%rdi), %rcx
        mov REGS+16(%rdi), %rdx
        mov REGS+24(%rdi), %rbx
        mov REGS+32(%rdi), %rsp
        mov REGS+40(%rdi), %rbp
        mov REGS+48(%rdi), %rsi
        mov REGS+64(%rdi), %r8
        mov REGS+72(%rdi), %r9
        mov REGS+80(%rdi), %r10
        mov P(%rdi), %r11
        mov REGS+96(%rdi), %r12
        mov REGS+104(%rdi), %r13
        mov REGS+112(%rdi), %r14
        mov REGS+120(%rdi), %r15
        mov REGS+56(%rdi), %rdi
        jmp *%gs:TARGET
6:      push %rax
        popfq
        jmp 7b
        .globl rt_resume_end
rt_resume_end:
8:      call rt_dispatch
        mov %gs:SELF, %rdi
        jmp rt_resume

/* Run guest code in place: RSI = 15 registers (all but RSP) and an IRET frame. */
        .globl rt_native, rt_native_iret
rt_native:
        mov %rsi, %rsp
        pop %rax
        pop %rcx
        pop %rdx
        pop %rbx
        pop %rbp
        pop %rsi
        pop %rdi
        pop %r8
        pop %r9
        pop %r10
        pop %r11
        pop %r12
        pop %r13
        pop %r14
        pop %r15
rt_native_iret:
        iretq

/* A system call of the guest, with its registers and its stack: so who traces the thread finds what it has there (LeakSanitizer
 * looks for pointers). A signal that comes up to rt_sys_insn is delivered before the guest's instruction, and the call
 * ends at rt_sys_pending; one that comes at rt_sys_end waits until the runtime has seen what the call did. */
        .globl rt_guest_syscall, rt_sys_begin, rt_sys_insn, rt_sys_end, rt_sys_pending
rt_guest_syscall:
        push %rbx
        push %rbp
        push %r12
        push %r13
        push %r14
        push %r15
        mov %rsp, %gs:CALL_STACK
        mov REGS(%rdi), %rax
        mov REGS+16(%rdi), %rdx
        mov REGS+24(%rdi), %rbx
        mov REGS+32(%rdi), %rsp
        mov REGS+40(%rdi), %rbp
        mov REGS+48(%rdi), %rsi
        mov REGS+64(%rdi), %r8
        mov REGS+72(%rdi), %r9
        mov REGS+80(%rdi), %r10
        mov REGS+96(%rdi), %r12
        mov REGS+104(%rdi), %r13
        mov REGS+112(%rdi), %r14
        mov REGS+120(%rdi), %r15
        mov REGS+56(%rdi), %rdi
rt_sys_begin:
        cmpq $0, %gs:SAFEPOINT
        jne rt_sys_pending
rt_sys_insn:
        syscall
rt_sys_end:
        mov %gs:CALL_STACK, %rsp
        mov %rax, %gs:REGS
        xor %eax, %eax
1:      pop %r15
        pop %r14
        pop %r13
        pop %r12
        pop %rbp
        pop %rbx
        ret
rt_sys_pending:
        mov %gs:CALL_STACK, %rsp
        mov $1, %eax
        jmp 1b

/* clone or fork with the guest's arguments: RDI = parent, RSI = child's slot. */
        .globl rt_clone
rt_clone:
        push %rbx
        push %r12
        mov %rdi, %rbx
        mov %rsi, %r12
        mov REGS(%rbx), %rax
        mov REGS+16(%rbx), %rdx
        mov REGS+48(%rbx), %rsi
        mov REGS+80(%rbx), %r10
        mov REGS+64(%rbx), %r8
        mov REGS+72(%rbx), %r9
        mov REGS+56(%rbx), %rdi
        syscall
        .globl rt_clone_end
rt_clone_end:
        test %rax, %rax
        je 3f
        pop %r12
        pop %rbx
        ret
3:      mov %r12, %rdi
        mov STACK(%rdi), %rsp
        xor %ebp, %ebp
        call rt_child
        ud2

/* A handler has left the guest's state in the thread; RDI = thread. Of the guest's flags NT is still there, which sigreturn
 * leaves alone, and with which IRET faults. */
        .globl rt_restart
rt_restart:
        mov STACK(%rdi), %rsp
        pushq $2
        popfq
        xor %ebp, %ebp
        call rt_dispatch
        mov %gs:SELF, %rdi
        jmp rt_resume

/* memcpy that may fault. 8 bytes at once: the kernel may look in between, and processors may take an interrupt between the
 * bytes of REP MOVSB. */
        .globl rt_probe, rt_probe_begin, rt_probe_end, rt_probe_fault
rt_probe:
        mov %rdx, %rcx
rt_probe_begin:
        cmp $8, %rdx
        je 1f
        rep movsb
        jmp rt_probe_end
1:      mov (%rsi), %rcx
        mov %rcx, (%rdi)
rt_probe_end:
        xor %eax, %eax
        ret
rt_probe_fault:
        mov $-1, %eax
        ret

        .section .note.GNU-stack, "", @progbits
