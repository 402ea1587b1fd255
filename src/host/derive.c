/* SPDX-License-Identifier: MIT
 * An instruction and where it led -> the event that a trace unit is told. */
#include "host/feed.h"

uint64_t cofi__derive_next(const struct cofi_insn *insn, uint64_t ip, unsigned mode)
{
    uint64_t next = ip + insn->length;
    return mode == 64 ? next : mode == 32 ? (uint32_t)next : (uint16_t)next;
}

void cofi__derive(struct cofi_event *event, const struct cofi_insn *insn, uint64_t ip,
                  uint64_t next, uint64_t to, bool taken)
{
    *event = (struct cofi_event){.kind = (uint8_t)cofi_event_of_class(insn->cls), .vector = COFI_NO_VECTOR,
                                 .ip = ip, .next = next, .target = to};
    if (insn->cls == COFI_CLASS_JCC) {
        event->target = insn->target;
        event->taken = insn->target == next ? taken : to != next;
    } else if (event->kind == COFI_EV_FAR) {
        event->cause = insn->far;
        event->size = insn->prefixes;
    } else if (insn->cls == COFI_CLASS_TSX && to != next) {
        /* Stepping aborts a transaction at once: XBEGIN leads to its fallback. */
        event->kind = COFI_EV_XABORT;
    }
}

bool cofi__derive_plausible(const struct cofi_insn *insn, uint64_t ip, uint64_t to, unsigned mode)
{
    uint64_t next = cofi__derive_next(insn, ip, mode);
    switch ((enum cofi_class)insn->cls) {
    case COFI_CLASS_OTHER:
    case COFI_CLASS_MOV_CR3:
    case COFI_CLASS_PTWRITE:
    case COFI_CLASS_VMPTRLD: return to == next;
    case COFI_CLASS_JCC:
    case COFI_CLASS_TSX: return to == next || to == insn->target;
    case COFI_CLASS_JMP:
    case COFI_CLASS_CALL: return to == insn->target;
    case COFI_CLASS_JMP_IND:
    case COFI_CLASS_CALL_IND:
    case COFI_CLASS_RET:
    case COFI_CLASS_FAR_JMP:
    case COFI_CLASS_FAR_CALL:
    case COFI_CLASS_FAR_RET:
    case COFI_CLASS_VMENTRY:
    case COFI_CLASS_KINDS: return true;
    }
    return true;
}
