/* SPDX-License-Identifier: MIT
 * Debuggers that attach to what is recorded. They see translated code, so somebody is to say so. */
#include <unistd.h>

#include "host/fast/collect.h"
#include "host/proc.h"

static bool is_recorded(const struct cofi__fast_collector *c, int32_t tid)
{
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (cofi__fast_state(c, i) == COFI__FAST_SLOT_LIVE && c->seats[i].tid == tid)
            return true;
    return false;
}

/* A tracer is a thread. Ours, at an exec, is no debugger; nor is one that the program has itself traced by. */
static bool is_debugger(const struct cofi__fast_collector *c, int32_t tracer)
{
    return tracer > 0 && !is_recorded(c, tracer) && cofi__proc_number(tracer, "Tgid:") != getpid();
}

static void watch(const struct cofi__fast_collector *c, struct cofi__fast_seat *seat)
{
    char name[64] = "";
    int32_t tracer = cofi__proc_number(seat->pid, "TracerPid:");
    bool traced = is_debugger(c, tracer);
    if (traced && !seat->traced) {
        cofi__proc_comm(tracer, name, sizeof name);
        c->options->traced(c->options->opaque, seat->pid, tracer, name);
    }
    seat->traced = traced;
}

void cofi__fast_watch_tracers(struct cofi__fast_collector *c)
{
    const uint64_t period = 500000000;
    uint64_t now = cofi__fast_now_ns();
    if (!c->options->traced || now - c->tracers_ns < period)
        return;
    c->tracers_ns = now;
    for (uint32_t i = 0; i < cofi__fast_slots(c); i++)
        if (cofi__fast_state(c, i) == COFI__FAST_SLOT_LIVE && c->seats[i].placed && c->seats[i].tid == c->seats[i].pid)
            watch(c, &c->seats[i]);
}
