/* SPDX-License-Identifier: MIT
 * Instruction bytes -> what stepping over it takes. */
#include "host/step/code.h"

#include <cofi/event.h>

#include "host/feed.h"

/* Opcode and prefixes, as far as the questions below need them. */
struct opcode {
    bool rep, osize, asize, twobyte, rexw, based; /* based: FS or GS */
    uint8_t byte, modrm;
};

static bool is_legacy_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2: case 0xf3: return true;
    }
    return false;
}

static struct opcode parse(const uint8_t *bytes, size_t n, unsigned mode)
{
    struct opcode op = {0};
    size_t i = 0;
    for (; i < n && is_legacy_prefix(bytes[i]); i++) {
        op.rep |= bytes[i] == 0xf2 || bytes[i] == 0xf3;
        op.osize |= bytes[i] == 0x66;
        op.asize |= bytes[i] == 0x67;
        op.based |= bytes[i] == 0x64 || bytes[i] == 0x65;
    }
    if (mode == 64 && i < n && (bytes[i] & 0xf0) == 0x40)
        op.rexw = bytes[i++] & 8;
    if (i < n && bytes[i] == 0x0f) {
        op.twobyte = true;
        i++;
    }
    op.byte = i < n ? bytes[i++] : 0;
    op.modrm = i < n ? bytes[i] : 0;
    return op;
}

/* INS, OUTS, MOVS, CMPS, STOS, LODS, SCAS. */
static bool is_string(uint8_t byte)
{
    return (byte >= 0x6c && byte <= 0x6f) || (byte >= 0xa4 && byte <= 0xa7) ||
           (byte >= 0xaa && byte <= 0xaf);
}

/* REP MOVS and REP STOS whose registers hold linear addresses: bytes of an element, else 0. */
static uint8_t element_of(const struct opcode *op, unsigned mode)
{
    if (!op->rep || op->twobyte || op->asize || op->based || mode != 64)
        return 0;
    switch (op->byte) {
    case 0xa4:
    case 0xaa: return 1;
    case 0xa5:
    case 0xab: return op->rexw ? 8 : op->osize ? 2 : 4;
    }
    return 0;
}

static bool loads_ss(const struct opcode *op, unsigned mode)
{
    if (op->twobyte)
        return mode != 64 && op->byte == 0xb2; /* LSS: does not block, costs nothing to look at */
    return (op->byte == 0x8e && ((op->modrm >> 3) & 7) == 2) || (mode != 64 && op->byte == 0x17);
}

static bool stores_pointer(const struct opcode *op)
{
    if (op->twobyte || op->osize)
        return false;
    return ((op->byte == 0x89 || op->byte == 0xc7) && op->modrm < 0xc0) || op->byte == 0xa3;
}

static uint8_t vector_of(const struct opcode *op)
{
    switch (op->byte) {
    case 0xcc: return COFI__VECTOR_BP;
    case 0xce: return COFI__VECTOR_OF;
    case 0xf1: return COFI__VECTOR_DB;
    case 0xcd: return op->modrm; /* the immediate stands where a ModRM would */
    }
    return 0;
}

enum { COND_LOOPNE = 16, COND_LOOPE, COND_LOOP, COND_CXZ };

static uint8_t condition_of(const struct opcode *op)
{
    return !op->twobyte && op->byte >= 0xe0 && op->byte <= 0xe3
               ? (uint8_t)(COND_LOOPNE + (op->byte & 3))
               : op->byte & 15;
}

/* Jcc conditions by the low bits of the opcode; bit 0 negates (SDM, volume 1, appendix EFLAGS
 * condition codes). */
static bool flags_say(uint8_t cond, uint64_t flags)
{
    bool cf = flags & 1, pf = flags & 4, zf = flags & 0x40, sf = flags & 0x80, of = flags & 0x800;
    const bool even[8] = {of, cf, zf, cf || zf, sf, pf, sf != of, zf || sf != of};
    return even[(cond >> 1) & 7] != (cond & 1);
}

bool cofi__step_code_taken(const struct step_code *code, const struct user_regs_struct *regs,
                           unsigned mode)
{
    if (code->cond < COND_LOOPNE)
        return flags_say(code->cond, regs->eflags);
    unsigned width = code->addr_half ? mode / 2 : mode;
    uint64_t count = width == 64 ? regs->rcx : regs->rcx & ((UINT64_C(1) << width) - 1);
    bool zf = regs->eflags & 0x40;
    if (code->cond == COND_CXZ)
        return !count;
    return count != 1 && (code->cond == COND_LOOP || (code->cond == COND_LOOPE) == zf);
}

int cofi__step_code_decode(struct step_code *code, const uint8_t *bytes, size_t n, uint64_t ip,
                           unsigned mode)
{
    *code = (struct step_code){0};
    int length = cofi_insn_decode(&code->insn, mode, ip, bytes, n);
    if (length < 0)
        return length;
    struct opcode op = parse(bytes, (size_t)length, mode);
    code->string = op.rep && !op.twobyte && is_string(op.byte);
    code->element = element_of(&op, mode);
    code->moves = op.byte == 0xa4 || op.byte == 0xa5;
    code->pushf = !op.twobyte && op.byte == 0x9c;
    code->sets_tf = !op.twobyte && (op.byte == 0x9d || op.byte == 0xcf);
    code->load_ss = code->insn.cls == COFI_CLASS_OTHER && loads_ss(&op, mode);
    code->store = code->insn.cls == COFI_CLASS_OTHER && stores_pointer(&op);
    code->pause = op.rep && !op.twobyte && op.byte == 0x90;
    code->xbegin = code->insn.cls == COFI_CLASS_TSX && !op.twobyte && op.byte == 0xc7;
    code->cond = condition_of(&op);
    code->addr_half = op.asize;
    if (code->insn.far == COFI_FAR_INT)
        code->vector = vector_of(&op);
    if (code->insn.cls == COFI_CLASS_FAR_CALL) {
        code->syscall = code->insn.far == COFI_FAR_SYSCALL || code->insn.far == COFI_FAR_SYSENTER ||
                        (code->insn.far == COFI_FAR_INT && code->vector == COFI__VECTOR_SYSCALL32);
    }
    return length;
}
