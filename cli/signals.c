/* SPDX-License-Identifier: MIT
 * See signals.h. */
#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

volatile int signals_stop, signals_snapshots, signals_release;
volatile int32_t signals_forward_to;

/* A terminal's signal reaches the command by itself; another's is handed on. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    static volatile time_t last;
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (signals_stop && now.tv_sec - last < 1) /* timeout(1) tells us, and then our process group */
        return;
    last = now.tv_sec;
    signals_stop++;
    if (signals_forward_to > 0 && info->si_code <= 0)
        kill(signals_forward_to, signal);
}

/* A write's error is reported where it happens. Handled, not ignored: the command must not inherit that. (SIGXFSZ: main.c.) */
static void on_failed_write(int signal) { (void)signal; }

/* perf's signal for a snapshot. */
static void on_snapshot(int signal)
{
    (void)signal;
    signals_snapshots++;
}

static void on_release(int signal)
{
    (void)signal;
    signals_release++;
}

static bool is_ignored(int signal)
{
    struct sigaction old;
    return !sigaction(signal, NULL, &old) && old.sa_handler == SIG_IGN;
}

/* In the child that becomes the command: a handler ends with exec, but who ignored the signal meant it for the command. */
static void ignore_snapshots(void) { signal(SIGUSR2, SIG_IGN); }

/* What is ignored stays so: also to us a failed write says why. SIGUSR2 is needed here all the same. */
void signals_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static bool again;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (!is_ignored(signals[i]))
            sigaction(signals[i], &action, NULL);
    if (!is_ignored(SIGPIPE))
        signal(SIGPIPE, on_failed_write);
    if (!again && is_ignored(SIGUSR2))
        pthread_atfork(NULL, NULL, ignore_snapshots);
    if (!is_ignored(SIGUSR1))
        signal(SIGUSR1, on_release);
    signal(SIGUSR2, on_snapshot);
    again = true;
}
