/* SPDX-License-Identifier: MIT
 * A command beside a recording -> the recording's end. */
#include "meanwhile.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* Until the recording has begun; false: who records is gone. */
static bool wait_for(const struct meanwhile *m, int recorder)
{
    struct pollfd gone = {.fd = recorder, .events = POLLIN};
    while (!m->go && !poll(&gone, 1, 1))
        ;
    return m->go;
}

static void __attribute__((noreturn)) run(char *const *argv)
{
    execvp(argv[0], argv);
    complain("record: %s: %s", argv[0], strerror(errno));
    _exit(127);
}

/* The terminal's signals are the command's and the recorder's. */
static void watch(char *const *argv, struct meanwhile *m, int recorder)
{
    int status = 0;
    if (!wait_for(m, recorder))
        return;
    pid_t command = fork();
    if (!command)
        run(argv);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    while (command > 0 && waitpid(command, &status, 0) < 0 && errno == EINTR)
        ;
    m->status = status;
    syscall(SYS_pidfd_send_signal, recorder, SIGTERM, NULL, 0);
}

struct meanwhile *meanwhile(char *const *argv)
{
    int recorder = (int)syscall(SYS_pidfd_open, getpid(), 0);
    struct meanwhile *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = recorder < 0 || m == MAP_FAILED ? -1 : fork();
    if (!child) {
        if (!fork())
            watch(argv, m, recorder);
        _exit(0);
    }
    if (recorder >= 0)
        close(recorder);
    return child > 0 && waitpid(child, NULL, 0) == child ? m : NULL;
}
