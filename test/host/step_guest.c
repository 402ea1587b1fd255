/* SPDX-License-Identifier: MIT
 * Programs for test_step.c: each does one thing, and its status says how that went. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void spin(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static int fork_two(void)
{
    int sum = 0;
    for (int i = 4; i < 6; i++) {
        int status = 0;
        pid_t pid = fork();
        if (!pid)
            _exit(i);
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}

static int wait_for_vfork(unsigned n)
{
    int status = 0;
    pid_t pid = vfork();
    if (!pid) {
        spin(n);
        _exit(7);
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

static int is_masked(void)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, SIGCHLD) || sigismember(&mask, SIGALRM);
}

/* Its first thread ends, the other one becomes a program after a while. */
static void *become_another(void *self)
{
    for (int i = 0; i < 20; i++)
        usleep(50000);
    execl(self, (char *)self, "exit", (char *)NULL);
    return self;
}

static void end_the_first_thread(char *self)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, become_another, self))
        _exit(99);
    pthread_exit(NULL);
}

static int program(const char *word)
{
    if (!strcmp(word, "children"))
        return fork_two();
    if (!strcmp(word, "vfork"))
        return wait_for_vfork(20000);
    while (!strcmp(word, "children-for-ever"))
        wait_for_vfork(200);
    if (!strcmp(word, "mask"))
        return is_masked();
    if (!strcmp(word, "sleep"))
        return (int)sleep(1000);
    return 5;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "headless"))
        end_the_first_thread(argv[0]);
    return argc > 1 ? program(argv[1]) : 99;
}
