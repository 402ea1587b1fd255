/* SPDX-License-Identifier: MIT
 * What the program does -> what the log says of it, which the filters decide. */
#include "host/fast/rt/block.h"

/* The mode at t->pc. The mappings, and with them the filters' addresses, are as of now. */
static unsigned mode_here(struct thread *t, bool taken)
{
    if (!rt.control->filters)
        return t->mode;
    rt_lock();
    maps_find(t, t->pc);
    unsigned mode = filter_mode(t->mode, t->pc, taken);
    rt_unlock();
    return mode;
}

/* The thread is in a mode from now on; `on`: it was traced up to here. */
static void enter(struct thread *t, unsigned mode, bool on)
{
    bool stops = mode == MODE_STOPPED && t->mode != MODE_STOPPED;
    t->mode = (uint8_t)mode;
    if (mode == MODE_TRACED && !on)
        log_put(t, COFI__FAST_PGE, t->pc);
    if (stops)
        log_put(t, COFI__FAST_STOP, t->pc);
}

/* Tracing ends because the kernel is entered. */
void trace_pause(struct thread *t, unsigned what, uint64_t address)
{
    if (!t->paused && t->mode == MODE_TRACED)
        log_put(t, what, address);
    t->paused = true;
}

/* The kernel is left, to t->pc. */
void trace_resume(struct thread *t)
{
    halt_gate(t);
    enter(t, mode_here(t, true), false);
}

/* A thread's first instruction is at t->pc. */
void trace_begin(struct thread *t, bool wanted)
{
    t->mode = wanted ? (uint8_t)filter_first() : MODE_STOPPED;
    t->crossing.how = HOW_NONE;
    trace_resume(t);
}

/* Log the branch to t->pc, which leaves the filter (`out`) or does not. */
static void log_branch(struct thread *t, enum how how, unsigned outcomes, bool out)
{
    switch (how) {
    case HOW_NONE:
    case HOW_NEXT: break;
    case HOW_JCC:
        if (!out)
            log_outcomes(t, 3);
        break;
    case HOW_DIRECT: break;
    case HOW_INDIRECT:
        if (out)
            log_outcomes(t, outcomes);
        else
            log_tip(t, outcomes, t->pc);
        break;
    }
    if (out)
        log_put(t, COFI__FAST_LEAVE, how == HOW_JCC ? COFI__FAST_NOWHERE : t->pc);
}

/* The thread has come to t->pc and that is not in the log yet; outcomes: those before an indirect branch. */
void trace_branch(struct thread *t, enum how how, unsigned outcomes)
{
    unsigned mode = mode_here(t, how != HOW_NEXT);
    bool on = t->mode == MODE_TRACED;
    if (on)
        log_branch(t, how, outcomes, mode == MODE_OUTSIDE || mode == MODE_STOPPED);
    if (on && mode == MODE_OFF)
        log_put(t, COFI__FAST_EVENT, t->pc);
    enter(t, mode, on);
}

/* Translated code has logged an indirect branch to t->pc as one inside of the filter: is it? */
void trace_missed(struct thread *t)
{
    if (!rt.control->filters)
        return;
    unsigned outcomes = 1;
    if (t->mode == MODE_TRACED)
        outcomes = log_take_back(t);
    trace_branch(t, HOW_INDIRECT, outcomes);
}

/* The thread comes to a block: its trace must tell a time at which the recording has the block's code.
 * That stands before the last taken branch; what lies between may be told as another by then, unless
 * this is where the branch went. Then decoders first go up to here. */
void trace_code(struct thread *t, const struct block *b, bool indirect)
{
    if (t->mode != MODE_TRACED || t->told >= b->since)
        return;
    log_put(t, !indirect && t->told < rt.forgotten ? COFI__FAST_PSB : COFI__FAST_CODE, t->pc);
}

/* A thread that may be in traced code and has told an earlier time only. */
static bool lags(const struct thread *t, uint64_t tsc)
{
    return t->mode == MODE_TRACED && !t->paused && __atomic_load_n(&t->told, __ATOMIC_ACQUIRE) < tsc;
}

/* Whether no thread can come to code that is there since tsc without having told that time: then it may
 * come by a link. Until then the way is through the runtime. The lock is held. */
bool trace_all_know(uint64_t tsc)
{
    if (tsc <= rt.told)
        return true;
    if (threads_any(lags, tsc))
        return false;
    rt.told = tsc;
    return true;
}

/* The thread has come to a trigger's address: what led here is kept before it goes on. */
void trace_trigger(struct thread *t)
{
    uint64_t v[4] = {t->pc, 0, 0, 0};
    if (collector_gone())
        return;
    if (t->mode == MODE_TRACED)
        log_put(t, COFI__FAST_PSB, t->pc); /* so that decoders go up to here, which no branch says */
    collector_ask(t, COFI__FAST_NOTE_TRIGGER, v);
}
