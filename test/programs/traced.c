/* SPDX-License-Identifier: MIT
 * A child that has itself traced by its parent. */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int status;
    (void)argv;
    if (argc > 1) /* itself, as programs do that look for a debugger */
        return ptrace(PTRACE_TRACEME, 0, 0, 0) != 0;
    pid_t pid = fork();
    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(5);
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
