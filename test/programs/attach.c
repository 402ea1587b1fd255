/* SPDX-License-Identifier: MIT
 * attach PID: may it be traced here? Asked without cofi, so that tests are not skipped where it is cofi that cannot. Status 0: yes. */
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    int status, pid = argc > 1 ? atoi(argv[1]) : 0;
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid)
        return 1;
    return ptrace(PTRACE_DETACH, pid, 0, 0) != 0;
}
