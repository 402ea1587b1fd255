/* SPDX-License-Identifier: MIT
 * A stream of instructions about to run -> the events of those that ran. */
#include <cofi/insn.h>

#include "event/text.h"

void cofi_stepper_init(struct cofi_stepper *stepper, const struct cofi_context *context)
{
    *stepper = (struct cofi_stepper){.context = *context};
}

static bool differs(const struct cofi_context *a, const struct cofi_context *b)
{
#define X(key, member, base, max) \
    if (a->member != b->member)   \
        return true;
    COFI_CONTEXT_KEYS(X)
#undef X
    return false;
}

enum cofi_event_kind cofi_event_of_class(unsigned cls)
{
    static const uint8_t kinds[COFI_CLASS_KINDS] = {
        [COFI_CLASS_OTHER] = COFI_EV_INSN, [COFI_CLASS_JCC] = COFI_EV_JCC,
        [COFI_CLASS_JMP] = COFI_EV_JMP, [COFI_CLASS_CALL] = COFI_EV_CALL,
        [COFI_CLASS_JMP_IND] = COFI_EV_JMP_IND, [COFI_CLASS_CALL_IND] = COFI_EV_CALL_IND,
        [COFI_CLASS_RET] = COFI_EV_RET,
        [COFI_CLASS_FAR_JMP] = COFI_EV_FAR, [COFI_CLASS_FAR_CALL] = COFI_EV_FAR,
        [COFI_CLASS_FAR_RET] = COFI_EV_FAR, [COFI_CLASS_VMENTRY] = COFI_EV_FAR,
        [COFI_CLASS_MOV_CR3] = COFI_EV_MOV_CR3, [COFI_CLASS_VMPTRLD] = COFI_EV_VMPTRLD,
        [COFI_CLASS_PTWRITE] = COFI_EV_INSN, [COFI_CLASS_TSX] = COFI_EV_INSN,
    };
    return cls < COFI_CLASS_KINDS ? (enum cofi_event_kind)kinds[cls] : COFI_EV_INSN;
}

static bool goes_anywhere(const struct cofi_event *e)
{
    return e->kind == COFI_EV_JMP_IND || e->kind == COFI_EV_CALL_IND || e->kind == COFI_EV_RET ||
           e->kind == COFI_EV_FAR;
}

/* Where the instruction leads, if it was followed by the one at ip. */
static uint64_t lead(const struct cofi_stepper *s, struct cofi_event *e, uint64_t ip)
{
    if (goes_anywhere(e))
        return e->target = ip;
    if (e->kind == COFI_EV_JMP || e->kind == COFI_EV_CALL)
        return e->target = s->target;
    if (e->kind != COFI_EV_JCC)
        return e->next;
    e->target = s->target;
    e->taken = ip == s->target && ip != e->next;
    return e->taken ? e->target : e->next;
}

static void keep(struct cofi_stepper *s, uint64_t ip, const struct cofi_insn *insn)
{
    s->ip = ip;
    s->length = insn->length;
    s->cls = insn->cls;
    s->far = insn->far;
    s->prefixes = insn->prefixes;
    s->target = insn->target;
    s->running = true;
}

int cofi_stepper_next(struct cofi_stepper *stepper, uint64_t ip, const struct cofi_insn *insn,
                      const struct cofi_context *context, struct cofi_event events[2])
{
    bool changed = context && differs(context, &stepper->context);
    struct cofi_event e = {.vector = COFI_NO_VECTOR, .ip = stepper->ip, .next = stepper->ip + stepper->length};
    int n = 0;
    e.kind = (uint8_t)cofi_event_of_class(stepper->cls);
    /* The next iteration of a string instruction is the same instruction. */
    bool again = stepper->running && ip == stepper->ip && e.kind == COFI_EV_INSN;
    if (stepper->running && !again) {
        e.cause = e.kind == COFI_EV_FAR ? stepper->far : 0;
        e.size = e.kind == COFI_EV_FAR ? stepper->prefixes : 0;
        uint64_t to = lead(stepper, &e, ip);
        bool event = to != ip;
        e.context_set = changed && !event;
        if (e.context_set && e.kind == COFI_EV_INSN)
            e.kind = COFI_EV_STATE;
        e.after = e.context_set ? *context : stepper->context;
        events[n++] = e;
        if (event)
            events[n++] = (struct cofi_event){.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .vector = COFI_NO_VECTOR,
                                              .ip = to, .target = ip, .context_set = changed,
                                              .after = context ? *context : stepper->context};
    }
    if (context)
        stepper->context = *context;
    keep(stepper, ip, insn);
    return n;
}

void cofi_stepper_fault(struct cofi_stepper *stepper, enum cofi_cause cause, uint16_t vector, uint64_t handler,
                        const struct cofi_context *context, struct cofi_event *event)
{
    *event = (struct cofi_event){.kind = COFI_EV_EVENT, .cause = (uint8_t)cause, .vector = vector, .ip = stepper->ip,
                                 .target = handler, .context_set = context != NULL,
                                 .after = context ? *context : stepper->context};
    if (context)
        stepper->context = *context;
    stepper->running = false;
}
