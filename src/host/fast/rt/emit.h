/* SPDX-License-Identifier: MIT
 * Encodings that the translator writes: each function appends one instruction, none touches the flags. */
#ifndef COFI_HOST_FAST_RT_EMIT_H
#define COFI_HOST_FAST_RT_EMIT_H

#include "host/fast/rt/rt.h"

#define AT(field) ((uint32_t)offsetof(struct thread, field))
#define AT_REG(n) (AT(regs) + 8 * (n))

/* Where code goes. */
struct out {
    uint8_t *p;
};

static inline void b1(struct out *o, uint8_t b)
{
    *o->p++ = b;
}

static inline void b4(struct out *o, uint32_t v)
{
    __builtin_memcpy(o->p, &v, 4);
    o->p += 4;
}

static inline void b8(struct out *o, uint64_t v)
{
    __builtin_memcpy(o->p, &v, 8);
    o->p += 8;
}

static inline void bytes(struct out *o, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *o->p++ = p[i];
}

/* An instruction's bytes, n of up to 16; what comes behind them is still to be written. */
static inline void insn_bytes(struct out *o, const uint8_t *p, size_t n)
{
    if (((uintptr_t)p & 4095) > 4096 - 16) { /* the next page may not be there */
        bytes(o, p, n);
        return;
    }
    __builtin_memcpy(o->p, p, 16);
    o->p += n;
}
#define BYTES(o, text) (__builtin_memcpy((o)->p, text, sizeof text - 1), (o)->p += sizeof text - 1)

static inline void rel32(struct out *o, const uint8_t *to)
{
    b4(o, (uint32_t)(to - (o->p + 4)));
}

/* mov reg, gs:[at] (op 8B) or mov gs:[at], reg (op 89). */
static inline void gs_op(struct out *o, uint8_t op, unsigned reg, uint32_t at)
{
    b1(o, 0x65);
    b1(o, (uint8_t)(0x48 | (reg >> 3) << 2));
    b1(o, op);
    b1(o, (uint8_t)(0x04 | (reg & 7) << 3));
    b1(o, 0x25);
    b4(o, at);
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
    b1(o, (uint8_t)(0x48 | (from >> 3) << 2 | to >> 3));
    b1(o, 0x89);
    b1(o, (uint8_t)(0xc0 | (from & 7) << 3 | (to & 7)));
}

static inline void move_imm(struct out *o, unsigned reg, uint64_t v)
{
    b1(o, (uint8_t)(0x48 | reg >> 3));
    b1(o, (uint8_t)(0xb8 | (reg & 7)));
    b8(o, v);
}

/* movq gs:[at], imm32 (sign-extended). */
static inline void store_imm(struct out *o, uint32_t at, uint32_t imm)
{
    BYTES(o, "\x65\x48\xc7\x04\x25");
    b4(o, at);
    b4(o, imm);
}

/* jmp *gs:[at] */
static inline void jump_gs(struct out *o, uint32_t at)
{
    BYTES(o, "\x65\xff\x24\x25");
    b4(o, at);
}

static inline void jump(struct out *o, const uint8_t *to)
{
    b1(o, 0xe9);
    rel32(o, to);
}

/* mov byte [r11], byte */
static inline void log_byte(struct out *o, unsigned byte)
{
    BYTES(o, "\x41\xc6\x03");
    b1(o, (uint8_t)byte);
}

#define LOG_TARGET "\x49\x89\x4b\x01" /* mov [r11+1], rcx */
#define LOG_NEXT_1 "\x4d\x8d\x5b\x01" /* lea r11, [r11+1] */
#define LOG_NEXT_7 "\x4d\x8d\x5b\x07" /* lea r11, [r11+7] */

#endif
