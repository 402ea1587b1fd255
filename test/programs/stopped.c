/* SPDX-License-Identifier: MIT
 * A child that is stopped and goes on again, at once, for some seconds: in how many of the turns did it stand behind that? */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int stands(int pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    fgets(line, sizeof line, f);
    fclose(f);
    return strrchr(line, ')')[2] == 'T';
}

int main(void)
{
    int stood = 0, pid = fork();
    if (!pid)
        for (;;)
            usleep(300);
    FILE *f = fopen("stopped.pid", "w");
    fprintf(f, "%d\n", pid);
    fclose(f);
    for (time_t end = time(0) + 8; time(0) < end;) {
        usleep(10000 + (unsigned)time(0) * 7919 % 20000);
        kill(pid, SIGSTOP);
        usleep(3000);
        kill(pid, SIGCONT);
        usleep(60000);
        stood += stands(pid);
    }
    kill(pid, SIGKILL);
    printf("%d\n", stood);
    return 0;
}
