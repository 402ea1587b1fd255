/* SPDX-License-Identifier: MIT
 * Guests about children that have themselves traced. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guests.h"

/* A few calls, a breakpoint, a load that faults, and steps. */
extern const char traced_code[], traced_code_end[], traced_fault[], traced_steps[];
__asm__("traced_code:\n"
        " mov $39, %eax\n syscall\n" /* getpid */
        " mov $102, %eax\n syscall\n" /* getuid */
        " mov $0x1234567, %r11d\n int3\n"
        "traced_fault: mov 8, %rax\n"
        " .byte 0xf4\n" /* which the tracer leaves out */
        "traced_steps: nop\n inc %r11\n push %r11\n pop %rcx\n call 1f\n"
        "1: pop %rdx\n mov $231, %eax\n mov $7, %edi\n syscall\n"
        "traced_code_end:\n");

static const char *place(uint64_t rip)
{
    static char name[32];
    uint64_t offset = rip - (uintptr_t)traced_code;
    if (offset > (uintptr_t)(traced_code_end - traced_code))
        return "elsewhere";
    snprintf(name, sizeof name, "+%d", (int)offset);
    return name;
}

/* What a stop shows: the signal, where, and what the code has in R11, RAX. */
static struct user_regs_struct tell(pid_t pid, int status)
{
    struct user_regs_struct g = {0};
    siginfo_t info = {0};
    ptrace(PTRACE_GETREGS, pid, 0, &g);
    ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
    bool call = WSTOPSIG(status) == (SIGTRAP | 0x80), in_code = *place(g.rip) == '+';
    printf("signal %d%s at %s", WSTOPSIG(status) & 0x7f, call ? ", a call" : "", place(g.rip));
    if (call)
        printf(", number %lld, %s", (long long)g.orig_rax, (long long)g.rax == -38 ? "begins" : "ends");
    else if (in_code)
        printf(", code %d, r11 %llx, address %p", info.si_code, g.r11, WSTOPSIG(status) == SIGSEGV ? info.si_addr : NULL);
    puts("");
    return g;
}

static void be_traced(void)
{
    long first = ptrace(PTRACE_TRACEME, 0, 0, 0), second = ptrace(PTRACE_TRACEME, 0, 0, 0);
    printf("to be traced: %ld, again: %ld\n", first, second);
    fflush(stdout);
    raise(SIGSTOP);
    __asm__ volatile("jmp *%0" : : "r"(traced_code));
}

/* The tracer follows each call, passes over the fault, and makes steps from there. */
int guest_traced_child(void)
{
    int status, stops = 0;
    enum __ptrace_request how = PTRACE_SYSCALL;
    signal(SIGSEGV, SIG_DFL);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid)
        be_traced();
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && ++stops < 60) {
        int signo = WSTOPSIG(status);
        if (stops == 1)
            ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
        struct user_regs_struct g = tell(pid, status);
        if (signo == SIGSEGV) {
            g.rip = (uintptr_t)traced_steps;
            ptrace(PTRACE_SETREGS, pid, 0, &g);
            how = PTRACE_SINGLESTEP;
        }
        ptrace(how, pid, 0, 0);
    }
    printf("%d stops, %s %d\n", stops, WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}

/* As User Mode Linux and sandboxes do it: the child is an address space, what runs there is the tracer's to say. */
int guest_traced_space(void)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(1);
    }
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    for (int round = 0; round < 3; round++) {
        struct user_regs_struct g;
        ptrace(PTRACE_GETREGS, pid, 0, &g);
        g.rip = (uintptr_t)traced_code;
        g.orig_rax = (unsigned long long)-1;
        ptrace(PTRACE_SETREGS, pid, 0, &g);
        ptrace(PTRACE_CONT, pid, 0, 0);
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
            return 2;
        tell(pid, status);
        ptrace(PTRACE_GETREGS, pid, 0, &g);
        printf("its user is %s\n", g.rax == getuid() ? "ours" : "another");
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
    return 0;
}

/* Where a child has its system calls raise SIGSYS at times, it cannot be taken out of the runtime, and is traced in it. */
int guest_traced_confined(void)
{
    enum { SET_DISPATCH = 59, ON = 1 };
    static volatile char allow;
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        prctl(SET_DISPATCH, ON, 0, 0, &allow);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(3);
    }
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, pid, 0, (void *)(long)(WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status)));
    printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}

/* Many children, one after the other. */
int guest_traced_often(void)
{
    int status, good = 0;
    fflush(stdout);
    for (int i = 0; i < 200; i++) {
        pid_t pid = fork();
        if (!pid) {
            ptrace(PTRACE_TRACEME, 0, 0, 0);
            raise(SIGSTOP);
            _exit(i);
        }
        good += waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && !ptrace(PTRACE_DETACH, pid, 0, 0) &&
                waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i % 256;
    }
    printf("%d children\n", good);
    return 0;
}
