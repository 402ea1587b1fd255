/* SPDX-License-Identifier: MIT
 * Job control: a child stops itself, is continued, and is killed in its sleep. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    waitpid(pid, &status, WUNTRACED);
    printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(pid, SIGCONT);
    waitpid(pid, &status, WCONTINUED);
    printf("continued %d\n", WIFCONTINUED(status));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("killed %d by %d\n", WIFSIGNALED(status), WTERMSIG(status));
    fflush(stdout);
    kill(getpid(), SIGTERM);
    return 0;
}
