/* SPDX-License-Identifier: MIT
 * The guest's instructions as they are, with another register for R11, for RIP where its operand is too
 * far away, and for the base of operands in GS, which is not the guest's. */
#include "host/fast/rt/build.h"

/* Registers that stand in for RIP, and for the base of an operand in GS. */
const uint8_t rip_stand_ins[4] = {RSI, RDI, RBP, RBX};

static unsigned pick_rip(uint32_t used)
{
    for (unsigned i = 0; i < 4; i++)
        if (!(used >> rip_stand_ins[i] & 1))
            return i;
    return 0; /* cannot be: an instruction names three other registers at most */
}

/* XCHG of R8 and RAX is the opcode of NOP, and with REP it is PAUSE for Intel's processors: a prefix
 * without effect in its place. */
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

static bool is_lea(const struct cofi__fast *x)
{
    return x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x8d;
}

/* For an operand in GS: not RBP, which is no base without a displacement. */
static int pick_gs(const struct cofi__fast *x, uint32_t used)
{
    bool hidden = x->space == COFI__FAST_LEGACY && x->map == 1 && x->opcode == 0xc7; /* CMPXCHG16B has RBX */
    if (!(used >> RSI & 1))
        return 0;
    if (!(used >> RDI & 1))
        return 1;
    return used >> RBX & 1 || hidden || cofi__fast_may_name_high_bytes(x) ? -1 : 3;
}

/* Whether the address is more than one sum, or its size another operand's, too: with 67h the sum is made beforehand. */
static bool is_more_than_a_sum(const struct cofi__fast *x)
{
    bool tiles = x->space == COFI__FAST_VEX && x->map == 2 && x->opcode == 0x4b;    /* the index is a distance */
    bool moves = x->space == COFI__FAST_LEGACY && x->map == 2 && x->opcode == 0xf8; /* MOVDIR64B, ENQCMD */
    return x->space == COFI__FAST_EVEX || x->attr & COFI__FAST_VSIB || tiles || moves; /* EVEX: disp8 times something */
}

bool copy_takes_gs(const struct cofi__fast *x)
{
    /* RSP is another one when the address is made */
    bool pop = x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x8f;
    bool odd = x->prefixes & COFI__FAST_P67 && is_more_than_a_sum(x);
    if (is_lea(x)) /* has no segment */
        return true;
    return x->modrm_offset && x->modrm < 0xc0 && !x->rip_relative && !pop && !odd &&
           pick_gs(x, cofi__fast_registers(x)) >= 0;
}

void copy_operand(struct out *o, const struct item *it, unsigned op, unsigned reg, unsigned r11_as)
{
    const struct cofi__fast *x = &it->x;
    struct cofi__fast y = *x;
    if (x->prefixes & COFI__FAST_FS)
        b1(o, 0x64);
    if (x->prefixes & COFI__FAST_P67)
        b1(o, 0x67);
    uint8_t *p = out_bytes(o);
    b1(o, (uint8_t)(0x48 | (reg >> 3) << 2 | (x->rex & 3)));
    b1(o, (uint8_t)op);
    b1(o, (uint8_t)((x->modrm & 0xc7) | (reg & 7) << 3));
    bytes(o, it->bytes + x->modrm_offset + 1, (x->sib_offset ? 1u : 0) + x->disp_bytes);
    y.rex_offset = 1;
    y.opcode_offset = 1;
    y.modrm_offset = 2;
    y.sib_offset = x->sib_offset ? 3 : 0;
    y.attr = 0;
    copy_rename_r11(p, &y, r11_as);
}

/* lea reg, [reg+other] */
static void emit_add(struct out *o, unsigned reg, unsigned other)
{
    /* and a displacement of 0 */
    few(o, 0x448d48 | other >> 3 | (reg & 7) << 19 | (uint64_t)(reg << 3 | (other & 7)) << 24, 5);
}

/* Whether the operand, which is not RIP-relative, has a base. */
static bool has_base(const struct cofi__fast *x)
{
    return !(x->sib_offset && x->modrm < 0x40 && (x->sib & 7) == 5);
}

/* reg = GS's base and the operand's; or all of the address where that is cut off at 32 bits before GS's
 * base comes to it. */
static void emit_gs_base(struct out *o, const struct item *it, unsigned reg, unsigned r11_as)
{
    const struct cofi__fast *x = &it->x;
    unsigned base = ((x->sib_offset ? x->sib : x->modrm) & 7) | (x->rex & 1) << 3, other = reg == RSI ? RDI : RSI;
    if (x->prefixes & COFI__FAST_P67) {
        copy_operand(o, it, 0x8d, reg, r11_as); /* with a prefix for the address: 32 bits of it, and zeros */
        store(o, other, AT(s_gs));
        load(o, other, AT(gs.base));
        emit_add(o, reg, other);
        load(o, other, AT(s_gs));
        return;
    }
    load(o, reg, AT(gs.base));
    if (has_base(x))
        emit_add(o, reg, base == R11 ? r11_as : base);
}

/* Make an operand in GS one with reg as its base; with P67, without all else. */
static void rename_gs(uint8_t *p, const struct cofi__fast *x, unsigned reg)
{
    bool whole = x->prefixes & COFI__FAST_P67;
    unsigned prefixes = x->rex_offset ? x->rex_offset - 1u : x->opcode_offset;
    uint8_t *modrm = &p[x->modrm_offset], *sib = &p[x->sib_offset];
    for (unsigned i = 0; i < prefixes; i++)
        if (p[i] == 0x64 || p[i] == 0x65 || p[i] == 0x67) /* FS before GS means nothing, but without GS */
            p[i] = 0x3e; /* a segment that never means anything */
    if (!has_base(x))
        *modrm |= 0x80;
    if (x->sib_offset)
        *sib = (uint8_t)((whole ? 0x20 : *sib & 0xf8) | reg);
    else
        *modrm = (uint8_t)((*modrm & 0xf8) | reg);
    if (whole)
        __builtin_memset(p + x->disp_offset, 0, x->disp_bytes);
    if (!x->rex_offset)
        return;
    uint8_t *rex = &p[x->rex_offset - 1];
    if (x->space == COFI__FAST_LEGACY)
        *rex &= whole ? 0xfc : 0xfe;
    else if (*rex != 0xc5)
        rex[1] |= whole ? 0x60 : 0x20;
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

void copy_relocate(const struct out *o, const struct item *it)
{
    uint32_t disp = (uint32_t)(copy_rip_target(it) - (uint64_t)o->p);
    __builtin_memcpy(out_bytes(o) - it->x.length + it->x.disp_offset, &disp, 4);
}

static void copy_any(struct build *g, const struct item *it)
{
    struct out *o = &g->hot;
    const struct cofi__fast *x = &it->x;
    /* PUSHF may have it, too */
    bool r11 = it->used >> R11 & 1, gs = x->prefixes & COFI__FAST_GS && x->modrm_offset && !is_lea(x);
    bool move_rip = x->rip_relative && !copy_reach(o, it), stand_in = move_rip || gs;
    unsigned s = R11, sr = gs ? (unsigned)pick_gs(x, it->used) : move_rip ? pick_rip(it->used) : 0;
    if (r11)
        s = regs_hold(g, it->used);
    else if (g->held != NONE && it->used >> stand_ins[g->held] & 1)
        regs_release(g);
    unsigned writes = regs_back_for(g, it);
    mark(g, it->pc, stand_in ? FIX_RIP | sr << FIX_RIP_SHIFT : 0);
    if (stand_in)
        store(o, rip_stand_ins[sr], AT(s_rip));
    if (move_rip)
        move_address(g, o, rip_stand_ins[sr], copy_rip_target(it));
    else if (gs)
        emit_gs_base(o, it, rip_stand_ins[sr], s);
    uint8_t *p = out_bytes(o);
    insn_bytes(o, it->bytes, x->length);
    if (r11)
        copy_rename_r11(p, x, s);
    if (move_rip) {
        rename_rip(p, x, rip_stand_ins[sr]);
    } else if (gs) {
        rename_gs(p, x, rip_stand_ins[sr]);
    } else if (x->rip_relative) {
        copy_relocate(o, it);
    }
    if (stand_in)
        load(o, rip_stand_ins[sr], AT(s_rip));
    /* POPF: a trap by TF comes before the next one */
    if (x->space == COFI__FAST_LEGACY && x->map == 0 && x->opcode == 0x9d) {
        mark(g, it->pc + x->length, 0);
        b1(o, 0x90);
    }
    g->out &= ~writes;
    if (r11)
        regs_named_r11(g, x);
}

/* A plain one that names RCX or RDX where these are not the guest's. */
static void copy_whole(struct build *g, const struct item *it)
{
    struct item whole = *it;
    /* Another one there meanwhile, and its code is about to be forgotten: then what else it is does not matter. */
    if (cofi__fast_decode(&whole.x, it->bytes, 15) != it->x.length || whole.x.prefixes)
        whole.x = (struct cofi__fast){.length = it->x.length};
    copy_any(g, &whole);
}

void copy_insn(struct build *g, const struct item *it)
{
    if (it->plain)
        copy_whole(g, it);
    else
        copy_any(g, it);
}
