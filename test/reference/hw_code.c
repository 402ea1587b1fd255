/* SPDX-License-Identifier: MIT
 * Random programs of real x86 code. */
#include "reference/hw_code.h"

#include <assert.h>
#include <string.h>

uint64_t hw_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

unsigned hw_below(uint64_t *seed, unsigned n) { return (unsigned)((hw_random(seed) >> 32) % n); }

struct pattern {
    uint8_t kind, modes; /* 1 in 32-bit code, 2 in 64-bit code, 8 in 16-bit code; 4 in kernels only, 16 in programs only */
    uint8_t length;
    const char *bytes;
};

static const struct pattern patterns[] = {
    {HW_JMP_IND, 11, 2, "\xff\xe0"}, {HW_JMP_IND, 2, 6, "\xff\x25\x10\0\0\0"}, {HW_JMP_IND, 11, 3, "\x3e\xff\xe1"},
    {HW_JMP_IND, 11, 2, "\xff\xe3"},
    {HW_FAR_IN, 2, 2, "\x0f\x05"}, {HW_FAR_IN, 11, 2, "\x0f\x34"}, {HW_INT, 11, 2, "\xcd\x80"}, {HW_INT, 11, 1, "\xcc"},
    {HW_FAR_OUT, 6, 2, "\x48\xcf"}, {HW_FAR_OUT, 6, 3, "\x48\x0f\x07"}, {HW_FAR_OUT, 15, 1, "\xcf"},
    {HW_FAR_SAME, 11, 2, "\xff\x28"}, {HW_FAR_SAME, 11, 2, "\xff\x18"}, {HW_FAR_SAME, 11, 1, "\xcb"},
    {HW_MOV_CR3, 15, 3, "\x0f\x22\xd8"}, {HW_MOV_CR3, 15, 3, "\x0f\x22\xdf"},
    {HW_PTW4, 11, 4, "\xf3\x0f\xae\xe0"}, {HW_PTW8, 2, 5, "\xf3\x48\x0f\xae\xe1"},
    {HW_XEND, 11, 3, "\x0f\x01\xd5"}, {HW_XEND, 11, 3, "\x0f\x01\xd5"}, {HW_XABORT, 11, 3, "\xc6\xf8\x07"},
    {HW_VMENTRY, 7, 3, "\x0f\x01\xc2"}, {HW_VMENTRY, 7, 3, "\x0f\x01\xc3"}, {HW_VMPTRLD, 7, 3, "\x0f\xc7\x30"}, {HW_CPUID, 11, 2, "\x0f\xa2"},
    {HW_MWAIT, 15, 3, "\x0f\x01\xc9"}, {HW_HLT, 15, 1, "\xf4"}, {HW_IF, 15, 1, "\xfa"}, {HW_IF, 15, 1, "\xfb"}, {HW_WRMSR, 15, 2, "\x0f\x30"},
    {HW_ENCLU, 19, 3, "\x0f\x01\xd7"}, {HW_ENCLU, 19, 3, "\x0f\x01\xd7"}, {HW_ENCLU, 19, 3, "\x0f\x01\xd7"}, {HW_FAULT, 11, 2, "\x0f\x0b"},
};

static const struct pattern fills[] = {
    {HW_OTHER, 11, 1, "\x90"}, {HW_OTHER, 11, 2, "\x66\x90"}, {HW_OTHER, 11, 3, "\x0f\x1f\x00"}, {HW_OTHER, 11, 2, "\x89\xc8"},
    {HW_OTHER, 3, 5, "\xb8\x01\x02\x03\x04"}, {HW_OTHER, 2, 3, "\x48\x01\xc8"}, {HW_OTHER, 2, 10, "\x48\xb8\1\2\3\4\5\6\7\x08"},
    {HW_OTHER, 9, 1, "\x40"}, {HW_OTHER, 9, 1, "\x4f"}, {HW_OTHER, 3, 8, "\x0f\x1f\x84\0\0\0\0\0"}, {HW_OTHER, 11, 2, "\xf3\x90"},
    {HW_OTHER, 8, 3, "\xb8\xe8\xe9"}, {HW_OTHER, 8, 5, "\x0f\x1f\x84\x74\xeb"}, {HW_OTHER, 8, 6, "\x66\xb8\xc3\xc3\xc3\xc3"},
    {HW_OTHER, 8, 5, "\x67\x8b\x44\x24\x08"}, {HW_OTHER, 8, 4, "\x8b\x0e\xc3\xcb"},
};

struct maker {
    struct hw_segment *s;
    uint64_t *seed;
    bool calm;
    size_t labels[512], calls[512], entries[64];
    unsigned labels_n, calls_n, entries_n;
};

static size_t put(struct maker *m, unsigned kind, const char *bytes, unsigned length)
{
    struct hw_segment *s = m->s;
    size_t at = s->size;
    assert(at + length <= HW_BYTES);
    memcpy(s->bytes + at, bytes, length);
    s->size += length;
    s->at[at] = (struct hw_insn){.ip = s->base + at, .next = s->base + s->size, .kind = (uint8_t)kind, .length = (uint8_t)length};
    s->starts[s->starts_n++] = (uint16_t)at;
    return at;
}

static bool allowed(const struct maker *m, const struct pattern *p)
{
    return p->modes & (m->s->mode == 64 ? 2 : m->s->mode == 32 ? 1 : 8) && !(p->modes & (m->s->cpl ? 4 : 16));
}

static void put_one_of(struct maker *m, const struct pattern *list, unsigned n)
{
    const struct pattern *p;
    do
        p = &list[hw_below(m->seed, n)];
    while (!allowed(m, p));
    put(m, p->kind, p->bytes, p->length);
}

static void filler(struct maker *m) { put_one_of(m, fills, sizeof fills / sizeof *fills); }

/* The displacement stands last in each direct branch, in 1 byte or in 4; in 16-bit code in 2, where no prefix makes it 4. */
static void aim(struct maker *m, size_t at, size_t to)
{
    struct hw_insn *insn = &m->s->at[at];
    unsigned size = insn->length == 2 ? 1 : insn->length <= 4 ? 2 : 4;
    int32_t distance = (int32_t)((int64_t)to - (int64_t)(at + insn->length));
    assert(size > 1 || (distance >= -128 && distance < 128));
    memcpy(m->s->bytes + at + insn->length - size, &distance, size);
    insn->target = m->s->base + to;
}

/* A direct branch whose displacement is not a short one: opcode of n bytes. */
static size_t put_direct(struct maker *m, unsigned kind, const char *opcode, unsigned n)
{
    char bytes[8] = {0};
    bool wide = m->s->mode != 16 || hw_below(m->seed, 3) == 0, prefix = m->s->mode == 16 && wide;
    bytes[0] = 0x66;
    memcpy(bytes + prefix, opcode, n);
    return put(m, kind, bytes, prefix + n + (wide ? 4 : 2));
}

static size_t near_jcc(struct maker *m)
{
    static const char *const shorts[] = {"\x74\0", "\x75\0", "\x7c\0", "\xe3\0", "\xe2\0", "\xe0\0"};
    return put(m, HW_JCC, shorts[hw_below(m->seed, 6)], 2);
}

/* A loop: a JCC back to a label near by. */
static void back(struct maker *m)
{
    size_t to = m->labels[m->labels_n - 1 - hw_below(m->seed, m->labels_n > 4 ? 4 : m->labels_n)];
    if (m->s->size - to < 100 && hw_below(m->seed, 2))
        aim(m, near_jcc(m), to);
    else
        aim(m, put_direct(m, HW_JCC, "\x0f\x84", 2), to);
}

/* Past a few instructions. Direct JMPs lead forward only, so that no loop is without an outcome. */
static void forward(struct maker *m)
{
    unsigned how = hw_below(m->seed, 8), n = hw_below(m->seed, 4);
    size_t at = how < 5 ? near_jcc(m)
        : how == 5 ? put_direct(m, HW_JCC, "\x0f\x85", 2)
        : how == 6 ? put(m, HW_JMP, "\xeb\0", 2)
        : put_direct(m, HW_JMP, "\xe9", 1);
    for (; n; n--)
        filler(m);
    if (hw_below(m->seed, m->calm ? 60 : 3) == 0)
        put_one_of(m, patterns, sizeof patterns / sizeof *patterns);
    aim(m, at, m->s->size);
}

/* To what is behind it. */
static void behind(struct maker *m, size_t at) { aim(m, at, m->s->size); }

/* A call with a JCC past it, for calls must not go on for ever without an outcome. */
static void call(struct maker *m)
{
    size_t guard = near_jcc(m);
    m->s->at[guard].guard = true;
    if (hw_below(m->seed, m->calm ? 30 : 4) == 0)
        put(m, HW_CALL_IND, "\xff\xd0", 2);
    else if (hw_below(m->seed, 6) == 0)
        behind(m, put_direct(m, HW_CALL, "\xe8", 1));
    else
        m->calls[m->calls_n++] = put_direct(m, HW_CALL, "\xe8", 1);
    aim(m, guard, m->s->size);
}

static void transaction(struct maker *m)
{
    size_t at = put_direct(m, HW_XBEGIN, "\xc7\xf8", 2);
    for (unsigned n = hw_below(m->seed, 3); n; n--)
        filler(m);
    if (hw_below(m->seed, 2))
        back(m);
    if (hw_below(m->seed, 3) == 0)
        put(m, HW_JMP_IND, "\xff\xe2", 2);
    put(m, HW_XEND, "\x0f\x01\xd5", 3);
    aim(m, at, m->s->size);
}

static void item(struct maker *m)
{
    unsigned how = hw_below(m->seed, 16);
    m->labels[m->labels_n++] = m->s->size;
    for (unsigned n = hw_below(m->seed, 4); n; n--)
        filler(m);
    if (how < 3)
        back(m);
    else if (how < 7)
        forward(m);
    else if (how < 11 || (m->calm && hw_below(m->seed, 20)))
        call(m);
    else if (how < 12)
        transaction(m);
    else
        put_one_of(m, patterns, sizeof patterns / sizeof *patterns);
}

static void function(struct maker *m)
{
    m->entries[m->entries_n++] = m->s->size;
    for (unsigned n = 3 + hw_below(m->seed, 9); n; n--)
        item(m);
    filler(m);
    if (hw_below(m->seed, 4))
        put(m, HW_RET, "\xc3", 1);
    else
        put(m, HW_RET, "\xc2\x08\0", 3);
}

/* Calls that nest deeper than a processor's stack of returns, with nothing in between. */
static void chain(struct maker *m)
{
    m->entries[m->entries_n++] = m->s->size;
    for (unsigned n = 66 + hw_below(m->seed, 8); n; n--) {
        size_t at = put_direct(m, HW_CALL, "\xe8", 1);
        put(m, HW_RET, "\xc3", 1);
        aim(m, at, m->s->size);
    }
    put(m, HW_RET, "\xc3", 1);
}

static void segment(struct maker *m, uint64_t base, unsigned mode, unsigned cpl)
{
    m->s->base = base;
    m->s->mode = mode;
    m->s->cpl = cpl;
    for (unsigned n = 3 + hw_below(m->seed, 8); n && m->s->size < HW_BYTES - 1200; n--)
        function(m);
    if (hw_below(m->seed, 12) == 0)
        chain(m);
    for (unsigned i = 0; i < m->calls_n; i++)
        aim(m, m->calls[i], m->entries[hw_below(m->seed, m->entries_n)]);
}

void hw_code_make(struct hw_code *code, uint64_t seed)
{
    static const struct { uint64_t base; unsigned mode, cpl; } places[HW_SEGMENTS] = {
        [HW_USER] = {0x401000, 64, 3}, [HW_USER_HIGH] = {0x7ffff7fd0ff0, 64, 3}, [HW_USER32] = {0x8048000, 32, 3},
        [HW_USER16] = {0x20000, 16, 3}, [HW_REAL] = {0x9a000, 16, 0},
        [HW_KERNEL] = {UINT64_C(0xffffffff81000000), 64, 0}, [HW_KERNEL_LOW] = {UINT64_C(0xffff888000010000), 64, 0},
        [HW_KERNEL32] = {0xc1000000, 32, 0},
        [HW_GUEST] = {UINT64_C(0xffffffffa0008000), 64, 0},
    };
    memset(code, 0, sizeof *code);
    code->seed = seed * 2 + 1;
    code->calm = seed % 8 == 5;
    code->only32 = seed % 16 == 7;
    uint64_t wide = seed % 16 == 3 ? UINT64_C(0x00f0) << 48 : 0; /* addresses of 57 bits, with other upper bits than 48 would have */
    for (int i = 0; i < 8; i++)
        hw_random(&code->seed);
    for (unsigned i = 0; i < HW_SEGMENTS; i++) {
        struct maker m = {.s = &code->segments[i], .seed = &code->seed, .calm = code->calm};
        segment(&m, places[i].base ^ (i == HW_USER_HIGH || i == HW_KERNEL ? wide : 0), places[i].mode, places[i].cpl);
    }
}

const struct hw_insn *hw_code_find(const struct hw_code *code, uint64_t ip)
{
    for (unsigned i = 0; i < HW_SEGMENTS; i++) {
        const struct hw_segment *s = &code->segments[i];
        if (ip - s->base < s->size && s->at[ip - s->base].length)
            return &s->at[ip - s->base];
    }
    return NULL;
}
