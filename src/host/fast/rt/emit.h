/* SPDX-License-Identifier: MIT
 * Encodings that the translator writes: each function appends one instruction, none touches the flags. */
#ifndef COFI_HOST_FAST_RT_EMIT_H
#define COFI_HOST_FAST_RT_EMIT_H

#include "host/fast/rt/rt.h"

#define AT(field) ((uint32_t)offsetof(struct thread, field))
#define AT_REG(n) (AT(regs) + 8 * (n))

/* Where the next instruction will run, and how far from there it is written down. */
struct out {
    uint8_t *p;
    intptr_t away;
};

/* Code that will run at p and is written to `draft`. */
static inline struct out out_at(uint8_t *p, uint8_t *draft)
{
    return (struct out){p, (intptr_t)draft - (intptr_t)p};
}

/* Where the next byte is written. */
static inline uint8_t *out_bytes(const struct out *o)
{
    return o->p + o->away;
}

static inline void b1(struct out *o, uint8_t b)
{
    *out_bytes(o) = b;
    o->p++;
}

static inline void b4(struct out *o, uint32_t v)
{
    __builtin_memcpy(out_bytes(o), &v, 4);
    o->p += 4;
}

static inline void b8(struct out *o, uint64_t v)
{
    __builtin_memcpy(out_bytes(o), &v, 8);
    o->p += 8;
}

static inline void bytes(struct out *o, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b1(o, p[i]);
}

/* An instruction's bytes, n of up to 16; what comes behind them is still to be written. */
static inline void insn_bytes(struct out *o, const uint8_t *p, size_t n)
{
    if (((uintptr_t)p & 4095) > 4096 - 16) { /* the next page may not be there */
        bytes(o, p, n);
        return;
    }
    __builtin_memcpy(out_bytes(o), p, 16);
    o->p += n;
}
#define BYTES(o, text) (__builtin_memcpy(out_bytes(o), text, sizeof text - 1), (o)->p += sizeof text - 1)

static inline void rel32(struct out *o, const uint8_t *to)
{
    b4(o, (uint32_t)(to - (o->p + 4)));
}

/* Of up to 8 bytes, the lowest first, n; what comes behind them is still to be written. One at a time
 * they would cost a store of the place and a load of it each. */
static inline void few(struct out *o, uint64_t v, unsigned n)
{
    __builtin_memcpy(out_bytes(o), &v, 8);
    o->p += n;
}

/* mov reg, gs:[at] (op 8B) or mov gs:[at], reg (op 89): 65 REX op ModRM SIB disp32. */
static inline void gs_op(struct out *o, uint8_t op, unsigned reg, uint32_t at)
{
    uint64_t v = 0x2504004865 | (uint64_t)(reg >> 3) << 10 | (uint64_t)op << 16 | (uint64_t)(reg & 7) << 27;
    few(o, v | (uint64_t)at << 40, 8);
    b1(o, 0); /* all that is in a thread lies below 16 MB */
}

static inline void load(struct out *o, unsigned reg, uint32_t at)
{
    gs_op(o, 0x8b, reg, at);
}

static inline void store(struct out *o, unsigned reg, uint32_t at)
{
    gs_op(o, 0x89, reg, at);
}

/* mov to, from (64 bits). */
static inline void move(struct out *o, unsigned to, unsigned from)
{
    few(o, 0xc08948 | (from >> 3) << 2 | to >> 3 | (from & 7) << 19 | (to & 7) << 16, 3);
}

static inline void move_imm(struct out *o, unsigned reg, uint64_t v)
{
    few(o, 0xb848 | reg >> 3 | (reg & 7) << 8, 2);
    b8(o, v);
}

/* movq gs:[at], imm32 (sign-extended). */
static inline void store_imm(struct out *o, uint32_t at, uint32_t imm)
{
    few(o, 0x2504c74865 | (uint64_t)at << 40, 8);
    few(o, (uint64_t)imm << 8, 5);
}

/* jmp *gs:[at] */
static inline void jump_gs(struct out *o, uint32_t at)
{
    few(o, 0x2524ff65 | (uint64_t)at << 32, 8);
}

static inline void jump(struct out *o, const uint8_t *to)
{
    few(o, 0xe9 | (uint64_t)(uint32_t)(to - (o->p + 5)) << 8, 5);
}

/* mov byte [r11], byte */
static inline void log_byte(struct out *o, unsigned byte)
{
    few(o, 0x03c641 | byte << 24, 4);
}

#define LOG_TARGET "\x49\x89\x4b\x01" /* mov [r11+1], rcx */
#define LOG_NEXT_1 "\x4d\x8d\x5b\x01" /* lea r11, [r11+1] */
#define LOG_NEXT_7 "\x4d\x8d\x5b\x07" /* lea r11, [r11+7] */

#endif
