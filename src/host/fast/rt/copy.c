/* SPDX-License-Identifier: MIT
 * The guest's instructions as they are, with another register for R11, and for RIP where its operand is too far away. */
#include "host/fast/rt/build.h"

/* Registers that stand in for RIP. */
const uint8_t rip_stand_ins[4] = {RSI, RDI, RBP, RBP};

static unsigned pick_rip(uint32_t used)
{
    for (unsigned i = 0; i < 4; i++)
        if (!(used >> rip_stand_ins[i] & 1))
            return i;
    return 0; /* cannot be: an instruction names three other registers at most */
}

/* XCHG of R8 and RAX is the opcode of NOP, and with REP it is PAUSE for Intel's processors: a prefix without effect in its place. */
static void unrepeat_xchg(uint8_t *p, const struct cofi__fast *x)
{
    if (x->space != COFI__FAST_LEGACY || x->map || x->opcode != 0x93)
        return;
    for (unsigned i = 0; i < x->opcode_offset; i++)
        if (p[i] == 0xf3)
            p[i] = 0x3e;
}

void copy_rename_r11(uint8_t *p, const struct cofi__fast *x, unsigned to)
{
    unrepeat_xchg(p, x);
    unsigned low = to & 7;
    if (x->attr & COFI__FAST_OPC && x->rex & 1 && (x->opcode & 7) == 3)
        p[x->opcode_offset] = (uint8_t)((p[x->opcode_offset] & 0xf8) | low);
    if (x->attr & COFI__FAST_VVVV && (x->vvvv & 15) == R11) {
        /* vvvv ends the second-last byte of VEX2, the last of VEX3, the third of EVEX; inverted. */
        unsigned at = x->rex_offset - 1u + (p[x->rex_offset - 1] == 0xc5 ? 1 : 2);
        p[at] = (uint8_t)((p[at] & ~0x78) | (~to & 15) << 3);
    }
    if (!x->modrm_offset)
        return;
    uint8_t *modrm = &p[x->modrm_offset];
    if (x->attr & COFI__FAST_REG && x->rex & 4 && (x->modrm >> 3 & 7) == 3)
        *modrm = (uint8_t)((*modrm & 0xc7) | low << 3);
    if (x->sib_offset) {
        uint8_t *sib = &p[x->sib_offset];
        if (x->rex & 1 && (x->sib & 7) == 3)
            *sib = (uint8_t)((*sib & 0xf8) | low);
        if (!(x->attr & COFI__FAST_VSIB) && x->rex & 2 && (x->sib >> 3 & 7) == 3)
            *sib = (uint8_t)((*sib & 0xc7) | low << 3);
    } else if (x->rex & 1 && (x->modrm & 7) == 3 && (x->modrm < 0xc0 || x->attr & COFI__FAST_RM)) {
        *modrm = (uint8_t)((*modrm & 0xf8) | low);
    }
}

/* Make a RIP-relative operand [reg + disp32 0] instead: mod 10 keeps the layout, B must be clear. */
static void rename_rip(uint8_t *p, const struct cofi__fast *x, unsigned reg)
{
    p[x->modrm_offset] = (uint8_t)((p[x->modrm_offset] & 0x38) | 0x80 | reg);
    __builtin_memset(p + x->disp_offset, 0, 4);
    if (!x->rex_offset)
        return;
    uint8_t *rex = &p[x->rex_offset - 1];
    if (x->space == COFI__FAST_LEGACY)
        *rex &= 0xfe;
    else if (*rex != 0xc5)
        rex[1] |= 0x20;
}

uint64_t copy_rip_target(const struct item *it)
{
    uint64_t t = it->pc + it->x.length + (uint64_t)it->x.disp;
    return it->x.prefixes & COFI__FAST_P67 ? (uint32_t)t : t;
}

bool copy_reaches(const struct out *o, uint64_t address)
{
    int64_t d = (int64_t)(address - (uint64_t)o->p);
    return fits32(d + 256) && fits32(d - 256);
}

bool copy_reach(const struct out *o, const struct item *it)
{
    return copy_reaches(o, copy_rip_target(it)) && !(it->x.prefixes & COFI__FAST_P67);
}

void copy_insn(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    const struct cofi__fast *x = &it->x;
    bool r11 = it->used >> R11 & 1, move_rip = x->rip_relative && !copy_reach(o, it);
    unsigned s = R11, sr = move_rip ? pick_rip(it->used) : 0;
    if (r11)
        s = regs_hold(g, it->used);
    else if (g->held != NONE && it->used >> stand_ins[g->held] & 1)
        regs_release(g);
    unsigned writes = regs_back_for(g, it);
    mark(g, it->pc, move_rip ? FIX_RIP | sr << FIX_RIP_SHIFT : 0);
    if (move_rip) {
        store(o, rip_stand_ins[sr], AT(s_rip));
        move_address(g, o, rip_stand_ins[sr], copy_rip_target(it));
    }
    uint8_t *p = out_bytes(o);
    insn_bytes(o, it->bytes, x->length);
    if (r11)
        copy_rename_r11(p, x, s);
    if (move_rip) {
        rename_rip(p, x, rip_stand_ins[sr]);
        load(o, rip_stand_ins[sr], AT(s_rip));
    } else if (x->rip_relative) {
        uint32_t disp = (uint32_t)(copy_rip_target(it) - (uint64_t)o->p);
        __builtin_memcpy(p + x->disp_offset, &disp, 4);
    }
    if (x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x9d) { /* POPF: a trap by TF comes before the next one */
        mark(g, it->pc + x->length, 0);
        b1(o, 0x90);
    }
    g->out &= ~writes;
    if (r11)
        regs_named_r11(g, x);
}
