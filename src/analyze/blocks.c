/* SPDX-License-Identifier: MIT
 * A flow's blocks and events -> calls, returns and jumps of its tree. */
#include <cofi/insn.h>

#include "analyze/calls.h"

#include "base/error.h"

/* Execution went on at `to` behind an instruction of a class, behind which lies `next`. */
static int transfer(struct cofi_calls *calls, uint8_t cls, uint64_t next, uint64_t to)
{
    switch ((enum cofi_class)cls) {
    case COFI_CLASS_CALL:
    case COFI_CLASS_CALL_IND:
        return cofi_calls_call(calls, next, to);
    case COFI_CLASS_RET:
        return cofi_calls_ret(calls, to);
    case COFI_CLASS_JMP:
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_JCC:
    case COFI_CLASS_FAR_JMP:
        return to == next ? 0 : cofi_calls_jump(calls, to);
    case COFI_CLASS_OTHER:
    case COFI_CLASS_FAR_CALL:
    case COFI_CLASS_FAR_RET:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD:
    case COFI_CLASS_TSX:
    case COFI_CLASS_KINDS:
        break;
    }
    return to == next ? 0 : cofi_calls_resume(calls, to);
}

/* The same behind the block shown last, if where it led is not known yet. */
static int transfer_pending(struct cofi_calls *calls, uint64_t to)
{
    bool pending = calls->pending;
    calls->pending = false;
    return pending ? transfer(calls, calls->last_cls, calls->last_end, to) : 0;
}

enum { JUMPS = 1 << COFI_CLASS_JCC | 1 << COFI_CLASS_JMP | 1 << COFI_CLASS_JMP_IND };

/* Whether execution went on behind a block, or jumped, in the function of a frame: what most blocks do. */
static inline bool stays(struct cofi_calls *calls, const struct frame *frame, const struct cofi_flow_block *from,
                         uint64_t to)
{
    if (to == from->end)
        return from->cls != COFI_CLASS_RET;
    if (!(JUMPS >> from->cls & 1))
        return false;
    const struct place *place = cofi__place(&calls->places, to);
    return place && cofi__calls_holds(calls, frame, place);
}

/* Count the first block, and those behind it that ran in the same function. Returns how many. */
static size_t count_run(struct cofi_calls *calls, const struct cofi_flow_block *const *blocks, size_t n)
{
    const struct frame *top = cofi__calls_top(calls);
    uint64_t insns = 0;
    size_t i = 0;
    do
        insns += blocks[i++]->n;
    while (i < n && stays(calls, top, blocks[i - 1], blocks[i]->ip));
    cofi__calls_count(calls, top->node, insns);
    return i;
}

int cofi_calls_blocks(struct cofi_calls *calls, const struct cofi_flow_block *const *blocks, size_t n)
{
    const struct cofi_flow_block *last = NULL;
    for (size_t i = 0; i < n; last = blocks[i - 1]) {
        uint64_t ip = blocks[i]->ip;
        COFI_TRY(last ? transfer(calls, last->cls, last->end, ip) : transfer_pending(calls, ip));
        COFI_TRY(cofi__calls_begin(calls, ip));
        i += count_run(calls, blocks + i, n - i);
    }
    if (last) {
        calls->pending = true;
        calls->last_cls = last->cls;
        calls->last_end = last->end;
    }
    return 0;
}

static int async(struct cofi_calls *calls, const struct cofi_flow_event *event)
{
    COFI_TRY(transfer_pending(calls, event->ip));
    COFI_TRY(cofi_calls_async(calls, event->ip));
    return event->kind == COFI_FLOW_ASYNC ? cofi_calls_resume(calls, event->target) : 0;
}

/* The last block led out of what is traced, to a place if told. */
static int disabled(struct cofi_calls *calls, uint64_t to)
{
    enum { CALLS = 1 << COFI_CLASS_CALL | 1 << COFI_CLASS_CALL_IND };
    if (!calls->pending)
        return 0;
    if (calls->last_cls == COFI_CLASS_RET) {
        calls->last_cls = COFI_CLASS_OTHER;
        calls->last_end = cofi__calls_return_unseen(calls);
    } else if (CALLS >> calls->last_cls & 1) {
        calls->pending = false;
        return cofi_calls_async(calls, calls->last_end); /* it returns as a handler does */
    } else if (JUMPS >> calls->last_cls & 1 && to != COFI_NO_IP) {
        calls->pending = false;
        return cofi__calls_jump_unseen(calls, to);
    }
    return 0;
}

/* Behind a system call, a signal handler, a filter: wherever it is, find its frame. */
static int enabled(struct cofi_calls *calls, uint64_t to)
{
    bool straight = calls->pending && to == calls->last_end;
    calls->pending = false;
    return straight ? 0 : cofi_calls_resume(calls, to);
}

int cofi_calls_event(struct cofi_calls *calls, const struct cofi_flow_event *event)
{
    switch ((enum cofi_flow_event_kind)event->kind) {
    case COFI_FLOW_ASYNC:
    case COFI_FLOW_ASYNC_DISABLED:
        return async(calls, event);
    case COFI_FLOW_ENABLED:
        return enabled(calls, event->target);
    case COFI_FLOW_DISABLED:
        return disabled(calls, event->target);
    case COFI_FLOW_GAP:
    case COFI_FLOW_OVERFLOW:
        calls->pending = false;
        return 0;
    case COFI_FLOW_CODE:
        cofi_calls_forget(calls);
        if (event->a)
            cofi_calls_exec(calls);
        return 0;
    case COFI_FLOW_PAGING:
    case COFI_FLOW_VMCS:
    case COFI_FLOW_MODE:
    case COFI_FLOW_TSX:
    case COFI_FLOW_PTWRITE:
    case COFI_FLOW_EXSTOP:
    case COFI_FLOW_MWAIT:
    case COFI_FLOW_PWRE:
    case COFI_FLOW_PWRX:
    case COFI_FLOW_CBR:
    case COFI_FLOW_STOP:
    case COFI_FLOW_PSB:
    case COFI_FLOW_CFE:
    case COFI_FLOW_EVD:
    case COFI_FLOW_BBP:
    case COFI_FLOW_BIP:
    case COFI_FLOW_BEP:
    case COFI_FLOW_TRIG:
    case COFI_FLOW_EVENT_KINDS:
        break;
    }
    return 0;
}
