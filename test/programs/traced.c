/* SPDX-License-Identifier: MIT
 * Children that have themselves traced by their parent, one after the other; or the program has itself traced, by
 * nobody. usage: traced COUNT|itself */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(void)
{
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    _exit(5);
}

/* What it ends with. */
static int trace_child(void)
{
    int status;
    pid_t pid = fork();
    if (!pid)
        child();
    waitpid(pid, &status, 0);
    ptrace(PTRACE_CONT, pid, 0, 0);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0, status = 5;
    if (!count) /* as programs do that look for a debugger */
        return ptrace(PTRACE_TRACEME, 0, 0, 0) != 0;
    while (count-- && status == 5)
        status = trace_child();
    return status;
}
