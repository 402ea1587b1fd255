/* SPDX-License-Identifier: MIT
 * See fuzz_code.h. Instructions are random bytes that Zydis takes for one; memory operands are pointed at data, branches
 * at other elements. */
#include "fuzz_code.h"

#include <string.h>

#include <Zydis/Zydis.h>

uint64_t fuzz_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- what is not to be run: what the kernel, time, the processor's number or the instruction's own address decides ---- */

static bool is_one_of(ZydisMnemonic m, const uint16_t *list, size_t n)
{
    size_t i = 0;
    while (i < n && list[i] != m)
        i++;
    return i < n;
}

#define IS_ONE_OF(m, list) is_one_of(m, list, sizeof list / sizeof list[0])

static bool is_tame(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    static const uint16_t never[] = {
        /* time and numbers */
        ZYDIS_MNEMONIC_RDTSC, ZYDIS_MNEMONIC_RDTSCP, ZYDIS_MNEMONIC_RDRAND, ZYDIS_MNEMONIC_RDSEED, ZYDIS_MNEMONIC_CPUID,
        ZYDIS_MNEMONIC_RDPID, ZYDIS_MNEMONIC_RDPMC, ZYDIS_MNEMONIC_RDPRU, ZYDIS_MNEMONIC_LSL, ZYDIS_MNEMONIC_UMWAIT, ZYDIS_MNEMONIC_TPAUSE,
        ZYDIS_MNEMONIC_SGDT, ZYDIS_MNEMONIC_SIDT, ZYDIS_MNEMONIC_SLDT, ZYDIS_MNEMONIC_STR, ZYDIS_MNEMONIC_SMSW, ZYDIS_MNEMONIC_MONITORX,
        ZYDIS_MNEMONIC_MWAITX, ZYDIS_MNEMONIC_XBEGIN, ZYDIS_MNEMONIC_XGETBV,
        /* the x87 unit's own pointers, which tell where the translation is (docs/limits.md) */
        ZYDIS_MNEMONIC_FNSTENV, ZYDIS_MNEMONIC_FNSAVE, ZYDIS_MNEMONIC_FXSAVE, ZYDIS_MNEMONIC_FXSAVE64, ZYDIS_MNEMONIC_XSAVE,
        ZYDIS_MNEMONIC_XSAVE64, ZYDIS_MNEMONIC_XSAVEC, ZYDIS_MNEMONIC_XSAVEC64, ZYDIS_MNEMONIC_XSAVEOPT, ZYDIS_MNEMONIC_XSAVEOPT64,
        /* the kernel, the hypervisor, the thread's own memory, which this program needs */
        ZYDIS_MNEMONIC_SYSCALL, ZYDIS_MNEMONIC_SYSENTER, ZYDIS_MNEMONIC_VMCALL, ZYDIS_MNEMONIC_VMMCALL, ZYDIS_MNEMONIC_VMFUNC,
        ZYDIS_MNEMONIC_ENCLU, ZYDIS_MNEMONIC_TDCALL, ZYDIS_MNEMONIC_SEAMCALL, ZYDIS_MNEMONIC_GETSEC, ZYDIS_MNEMONIC_WRFSBASE,
        ZYDIS_MNEMONIC_WRPKRU, ZYDIS_MNEMONIC_LFS, ZYDIS_MNEMONIC_INT1, /* virtual machines repeat it for ever */ ZYDIS_MNEMONIC_IRET, ZYDIS_MNEMONIC_IRETD, ZYDIS_MNEMONIC_IRETQ,
        /* TF and NT: tests of their own */
        ZYDIS_MNEMONIC_POPF, ZYDIS_MNEMONIC_POPFQ};
    if (IS_ONE_OF(zy->mnemonic, never))
        return false;
    if (zy->mnemonic == ZYDIS_MNEMONIC_INT && zy->raw.imm[0].value.u == 0x80)
        return false;
    if (zy->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || zy->meta.category == ZYDIS_CATEGORY_SYSRET)
        return false;
    for (unsigned i = 0; i < zy->operand_count; i++) {
        bool writes = ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[i].reg.value == ZYDIS_REGISTER_FS && writes)
            return false;
        /* FS and an absolute address: the thread's own memory. */
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].mem.segment == ZYDIS_REGISTER_FS && ops[i].mem.base == ZYDIS_REGISTER_NONE)
            return false;
    }
    return true;
}

/* ---- bytes ---- */

/* Bytes that are some instruction of any map, often with prefixes, also many, also 15 bytes of it. */
static void random_bytes(uint64_t *seed, uint8_t *p)
{
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x67, 0x64, 0x65, 0x2e, 0x3e, 0x26, 0x36, 0xf0};
    unsigned n = 0;
    for (unsigned i = 0; i < 15; i++)
        p[i] = (uint8_t)fuzz_random(seed);
    uint64_t r = fuzz_random(seed);
    unsigned count = (r & 3) == 0 ? 1 + (r >> 2 & 1) : (r & 0x3c) == 4 ? 3 + (r >> 6) % 8 : 0;
    for (unsigned i = 0; i < count; i++)
        p[n++] = prefixes[fuzz_random(seed) % sizeof prefixes];
    r >>= 16;
    unsigned kind = r % 10;
    if (kind < 7 && r & 0x100)
        p[n++] = (uint8_t)(0x40 | (r >> 12 & 15));
    if (kind >= 3 && kind < 7)
        p[n++] = 0x0f;
    if (kind == 5 || kind == 6)
        p[n++] = kind == 5 ? 0x38 : 0x3a;
    if (kind == 2 && r & 0x200)
        p[n] = (uint8_t)(0xd8 | (p[n] & 7)); /* x87 */
    if (kind == 7)
        p[n++] = 0xc5;
    if (kind == 8) {
        p[n++] = 0xc4;
        p[n] = (uint8_t)((p[n] & 0xe0) | (1 + p[n] % 3));
    }
    if (kind == 9) {
        p[n++] = 0x62;
        p[n] = (uint8_t)((p[n] & 0xf0) | (1 + p[n] % 6));
        p[n + 1] |= 4;
    }
}

/* ---- elements ---- */

struct maker {
    struct sequence *s;
    uint64_t *seed;
    const uint8_t *data;
    uint8_t *p;
    unsigned slots;
    struct { uint8_t *at; unsigned bytes, element; uint8_t *from; bool back; } fixes[4 * ELEMENTS_MAX];
    unsigned fixes_n;
};

static void put(struct maker *m, const void *bytes, size_t n)
{
    memcpy(m->p, bytes, n);
    m->p += n;
}

static void put_mov(struct maker *m, unsigned reg, uint64_t value)
{
    put(m, (uint8_t[]){(uint8_t)(0x48 | reg >> 3), (uint8_t)(0xb8 | (reg & 7))}, 2);
    put(m, &value, 8);
}

/* A field that is to hold where another element is. */
static void fix_later(struct maker *m, uint8_t *at, unsigned bytes, uint8_t *from, bool back)
{
    m->fixes[m->fixes_n].at = at;
    m->fixes[m->fixes_n].bytes = bytes;
    m->fixes[m->fixes_n].element = m->s->n;
    m->fixes[m->fixes_n].from = from;
    m->fixes[m->fixes_n++].back = back;
}

static uint64_t *new_slot(struct maker *m)
{
    return &m->s->place.slots[m->slots++ % SLOTS];
}

static unsigned number(ZydisRegister reg)
{
    return (unsigned)ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));
}

static bool is_general(ZydisRegister reg)
{
    ZydisRegisterClass c = ZydisRegisterGetClass(reg);
    return c == ZYDIS_REGCLASS_GPR64 || c == ZYDIS_REGCLASS_GPR32;
}

static uint64_t some_data(struct maker *m)
{
    return (uint64_t)m->data + DATA_BYTES / 2 + (fuzz_random(m->seed) & 0x7f8);
}

/* What the transfer's memory operand, or register, holds: where another element is. */
static bool is_indirect(const ZydisDecodedInstruction *zy)
{
    return (zy->mnemonic == ZYDIS_MNEMONIC_JMP || zy->mnemonic == ZYDIS_MNEMONIC_CALL) && zy->meta.branch_type == ZYDIS_BRANCH_TYPE_NEAR &&
           !(zy->attributes & ZYDIS_ATTRIB_IS_RELATIVE);
}

/* Load the registers of memory operands. False: an address that cannot be had. */
static bool put_bases(struct maker *m, const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops, uint64_t *slot)
{
    bool pointers = zy->mnemonic == ZYDIS_MNEMONIC_MOVDIR64B || zy->mnemonic == ZYDIS_MNEMONIC_ENQCMD || zy->mnemonic == ZYDIS_MNEMONIC_ENQCMDS;
    for (unsigned i = 0; i < zy->operand_count; i++) {
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER && pointers && is_general(ops[i].reg.value))
            put_mov(m, number(ops[i].reg.value), some_data(m));
        if (ops[i].type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        ZydisRegister base = ops[i].mem.base, index = ops[i].mem.index;
        bool visible = ops[i].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN;
        if (is_general(base) && is_general(index) && number(base) == number(index))
            return false;
        if (is_general(base) && (visible || number(base) != 4))
            put_mov(m, number(base), slot ? (uint64_t)slot : some_data(m));
        if (is_general(index))
            put_mov(m, number(index), slot ? 0 : fuzz_random(m->seed) & 63);
        if (slot && !is_general(base) && base != ZYDIS_REGISTER_RIP && (uint64_t)slot >> 31)
            return false;
    }
    return true;
}

/* The displacement, once the instruction's place is known. */
static void set_displacement(struct maker *m, const ZydisDecodedInstruction *zy, uint8_t *p, const uint64_t *slot)
{
    bool modrm = zy->attributes & ZYDIS_ATTRIB_HAS_MODRM && zy->raw.modrm.mod != 3;
    bool rip = modrm && zy->raw.modrm.mod == 0 && zy->raw.modrm.rm == 5;
    bool based = modrm && !rip && !(zy->raw.modrm.mod == 0 && zy->raw.modrm.rm == 4 && zy->raw.sib.base == 5);
    int64_t disp = slot ? 0 : (int64_t)(fuzz_random(m->seed) & 0x3ff) - 512;
    if (!zy->raw.disp.size)
        return;
    if (rip)
        disp = (int64_t)(slot ? (const uint8_t *)slot : m->s->place.data + DATA_BYTES / 2 + disp) - (int64_t)(p + zy->length);
    else if (!based)
        disp = slot ? (int64_t)slot : (int64_t)some_data(m);
    if (zy->raw.disp.size == 8 && !slot)
        return;
    memcpy(p + zy->raw.disp.offset, &disp, zy->raw.disp.size / 8);
}

static bool writes_rsp(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    if (zy->mnemonic == ZYDIS_MNEMONIC_LEAVE || zy->mnemonic == ZYDIS_MNEMONIC_ENTER)
        return true;
    for (unsigned i = 0; i < zy->operand_count; i++)
        if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
            ops[i].visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
            ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, ops[i].reg.value) == ZYDIS_REGISTER_RSP)
            return true;
    return false;
}

static bool has_vector_index(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    for (unsigned i = 0; i < zy->operand_count; i++)
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[i].mem.type == ZYDIS_MEMOP_TYPE_VSIB)
            return true;
    return false;
}

/* A return, which goes where a push before it says. */
static void put_target_push(struct maker *m)
{
    uint64_t *slot = new_slot(m);
    int32_t disp = (int32_t)((uint8_t *)slot - (m->p + 6));
    put(m, "\xff\x35", 2); /* push [rip+disp] */
    put(m, &disp, 4);
    fix_later(m, (uint8_t *)slot, 8, NULL, false);
}

/* One element with the instruction that bytes begin with. False, and nothing is made: it cannot be used here. */
static bool put_element(struct maker *m, const uint8_t *bytes)
{
    static ZydisDecoder decoder;
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
    struct sequence *s = m->s;
    uint8_t *begin = m->p;
    unsigned fixes_n = m->fixes_n;
    if (!decoder.machine_mode && !decoder.stack_width)
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 15, &zy, ops)) || !is_tame(&zy, ops))
        return false;
    bool indexed = has_vector_index(&zy, ops);
    bool narrow_rip = zy.address_width == 32 && zy.attributes & ZYDIS_ATTRIB_HAS_MODRM && zy.raw.modrm.mod == 0 && zy.raw.modrm.rm == 5;
    if ((indexed && s->n) || (narrow_rip && (uint64_t)s->place.code >> 32))
        return false;
    uint64_t *slot = is_indirect(&zy) && ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY ? new_slot(m) : NULL;
    if (zy.mnemonic == ZYDIS_MNEMONIC_RET)
        put_target_push(m);
    if (is_indirect(&zy) && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
        put_mov(m, number(ops[0].reg.value), 0);
        fix_later(m, m->p - 8, 8, NULL, false);
    }
    static const uint16_t bits[] = {ZYDIS_MNEMONIC_BT, ZYDIS_MNEMONIC_BTS, ZYDIS_MNEMONIC_BTR, ZYDIS_MNEMONIC_BTC};
    if (IS_ONE_OF(zy.mnemonic, bits) && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
        put_mov(m, number(ops[1].reg.value), fuzz_random(m->seed) & 0xfff); /* how far from the operand */
    if (zy.mnemonic == ZYDIS_MNEMONIC_ENTER) /* reads at RBP, if it nests */
        put_mov(m, 5, some_data(m));
    if ((slot && zy.address_width == 32 && (uint64_t)slot >> 32) || !put_bases(m, &zy, ops, slot)) {
        m->p = begin;
        m->fixes_n = fixes_n;
        return false;
    }
    if (slot)
        fix_later(m, (uint8_t *)slot, 8, NULL, false);
    s->vector_index |= indexed;
    s->insn[s->n] = (unsigned)(m->p - s->code);
    s->mnemonic[s->n] = zy.mnemonic;
    uint8_t *at = m->p;
    put(m, bytes, zy.length);
    set_displacement(m, &zy, at, slot);
    if (zy.attributes & ZYDIS_ATTRIB_IS_RELATIVE && zy.raw.imm[0].is_relative)
        fix_later(m, at + zy.raw.imm[0].offset, zy.raw.imm[0].size / 8, m->p, false);
    if (zy.mnemonic == ZYDIS_MNEMONIC_RET && zy.raw.imm[0].size)
        memcpy(at + zy.raw.imm[0].offset, &(uint16_t){(uint16_t)(fuzz_random(m->seed) & 0x78)}, 2);
    if (writes_rsp(&zy, ops))
        put_mov(m, 4, some_data(m) & ~7ull);
    return true;
}

/* Back to an element before, a few times. */
static void put_loop(struct maker *m)
{
    uint64_t *slot = new_slot(m);
    new_slot(m); /* a call that RSP points to the slot of pushes over the one before it */
    *slot = fuzz_random(m->seed) & 3;
    int32_t disp = (int32_t)((uint8_t *)slot - (m->p + 6));
    m->s->insn[m->s->n] = (unsigned)(m->p - m->s->code);
    put(m, "\xff\x0d", 2); /* dec dword [rip+disp] */
    put(m, &disp, 4);
    put(m, fuzz_random(m->seed) & 1 ? "\x0f\x89" : "\x0f\x8f", 2); /* jns, jg */
    m->p += 4;
    fix_later(m, m->p - 4, 4, m->p, true);
    m->s->mnemonic[m->s->n] = ZYDIS_MNEMONIC_LOOP;
}

/* Which element a branch of an element goes to. */
static unsigned choose(struct maker *m, unsigned element, bool back)
{
    const struct sequence *s = m->s;
    return back ? (unsigned)(fuzz_random(m->seed) % (element + 1)) : element + 1 + (unsigned)(fuzz_random(m->seed) % (s->n - element));
}

static void resolve(struct maker *m)
{
    struct sequence *s = m->s;
    for (unsigned i = 0; i < m->fixes_n; i++) {
        unsigned to = choose(m, m->fixes[i].element, m->fixes[i].back);
        int64_t value = (int64_t)(s->code + s->start[to]) - (int64_t)m->fixes[i].from;
        if (m->fixes[i].bytes == 1 && value > 127)
            value = (int64_t)(s->code + s->start[m->fixes[i].element + 1]) - (int64_t)m->fixes[i].from;
        memcpy(m->fixes[i].at, &value, m->fixes[i].bytes);
    }
}

static void begin(struct maker *m, struct sequence *s, uint64_t *seed, const struct place *place, const uint8_t *data)
{
    uint64_t r = fuzz_random(seed);
    memset(s, 0, sizeof *s);
    s->place = *place;
    /* Near a page's end, so that something goes across, or anywhere. */
    unsigned at = (unsigned)(r >> 8) % (CODE_BYTES - 8192);
    s->code = place->code + (r & 1 ? (at | 4095) - (unsigned)(r >> 32) % 80 : at);
    *m = (struct maker){.s = s, .seed = seed, .data = data, .p = s->code};
}

static void finish(struct maker *m)
{
    m->s->start[m->s->n] = m->s->bytes = (unsigned)(m->p - m->s->code);
    resolve(m);
}

void fuzz_make(struct sequence *s, uint64_t *seed, const struct place *place, const uint8_t *data)
{
    struct maker m;
    begin(&m, s, seed, place, data);
    unsigned n = 1 + (unsigned)(fuzz_random(seed) % ELEMENTS_MAX);
    while (s->n < n) {
        uint8_t bytes[32];
        s->start[s->n] = (unsigned)(m.p - s->code);
        if (fuzz_random(seed) % 16 == 0) {
            put_loop(&m);
        } else {
            random_bytes(seed, bytes);
            if (!put_element(&m, bytes))
                continue;
        }
        s->n++;
    }
    finish(&m);
}

bool fuzz_make_of(struct sequence *s, uint64_t *seed, const struct place *place, const uint8_t *data, const uint8_t *bytes, unsigned n)
{
    struct maker m;
    uint8_t padded[32] = {0};
    begin(&m, s, seed, place, data);
    memcpy(padded, bytes, n < 15 ? n : 15);
    if (!put_element(&m, padded))
        return false;
    s->n = 1;
    s->start[1] = (unsigned)(m.p - s->code); /* something to jump over */
    s->n += put_element(&m, (const uint8_t[32]){0x48, 0xff, 0xc0});
    finish(&m);
    return true;
}
