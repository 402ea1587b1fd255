/* SPDX-License-Identifier: MIT
 * vfork, posix_spawn, fork from a thread, exec from a thread that is not the leader. */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;

static void *other(void *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (!pid) {
        puts("child of a thread");
        fflush(stdout);
        _exit(3);
    }
    int status;
    waitpid(pid, &status, 0);
    execl(self, self, "end", (char *)NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1) {
        puts(argv[1]);
        return !strcmp(argv[1], "end") ? 42 : 0;
    }
    int status;
    pid_t pid = vfork();
    if (!pid) {
        execl(self, self, "vforked", (char *)NULL);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    char *arguments[] = {self, "spawned", NULL};
    posix_spawn(&pid, self, NULL, NULL, arguments, environ);
    waitpid(pid, &status, 0);
    if (!vfork())
        _exit(5);
    wait(&status);
    printf("%d\n", WEXITSTATUS(status));
    fflush(stdout);
    pthread_t t;
    pthread_create(&t, NULL, other, NULL);
    pthread_join(t, NULL);
    return 1;
}
