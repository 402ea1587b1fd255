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

/* A write's error is reported where it happens. Handled, not ignored: the command must not inherit that.
 * (SIGXFSZ: main.c.) */
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

/* In the child that becomes the command: a handler ends with exec, but who ignored the signal meant it
 * for the command. */
static void ignore_snapshots(void) { signal(SIGUSR2, SIG_IGN); }

/* What was there before, in the order in which it was taken. */
static struct {
    int signal;
    struct sigaction action;
} before[8];
static size_t before_n;
static bool again;

static void take(int signal, struct sigaction action)
{
    struct sigaction old;
    if (sigaction(signal, &action, &old) || again)
        return;
    before[before_n].signal = signal;
    before[before_n++].action = old;
}

static void take_unless_ignored(int signal, struct sigaction action)
{
    if (!is_ignored(signal))
        take(signal, action);
}

/* What is ignored stays so: also to us a failed write says why. SIGUSR2 is needed here all the same. */
void signals_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        take_unless_ignored(signals[i], (struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO});
    take_unless_ignored(SIGPIPE, (struct sigaction){.sa_handler = on_failed_write, .sa_flags = SA_RESTART});
    if (!again && is_ignored(SIGUSR2))
        pthread_atfork(NULL, NULL, ignore_snapshots);
    take_unless_ignored(SIGUSR1, (struct sigaction){.sa_handler = on_release, .sa_flags = SA_RESTART});
    take(SIGUSR2, (struct sigaction){.sa_handler = on_snapshot, .sa_flags = SA_RESTART});
    again = true;
}

void signals_restore(void)
{
    for (; before_n; before_n--)
        sigaction(before[before_n - 1].signal, &before[before_n - 1].action, NULL);
    again = false;
}
