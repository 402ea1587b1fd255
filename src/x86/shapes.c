/* SPDX-License-Identifier: MIT
 * Instructions of extensions that Zydis 4.0 does not know (APX, AVX10 and what comes after them) ->
 * length and class, by the shape that their prefixes give them: which bytes follow is told by prefix,
 * map and, among older instructions, opcode. */
#include "x86/shapes.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "x86/fast.h"
#include "x86/insn_zydis.h"

enum { INSN_MOST = 15 };

/* The legacy prefixes before another; *others: there is one that VEX and EVEX do not allow before them. */
static size_t legacy_prefixes(const uint8_t *bytes, size_t n, bool *others)
{
    static const uint8_t allowed[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67},
                         not_allowed[] = {0x66, 0xf0, 0xf2, 0xf3};
    size_t at = 0;
    *others = false;
    for (; at < n; at++) {
        bool other = memchr(not_allowed, bytes[at], sizeof not_allowed);
        if (!other && !memchr(allowed, bytes[at], sizeof allowed))
            break;
        *others |= other;
    }
    return at;
}

/* ---- REX2: D5, then M0 R4 X4 B4 W R3 X3 B3 [Intel APX 3.1.2] ---- */

/* Rows of both maps that REX2 is not allowed before, and prefixes in the first. */
static bool takes_rex2(bool map1, uint8_t opcode)
{
    static const uint8_t not_behind[] = {0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65,
                                         0x66, 0x67, 0xc4, 0xc5, 0xd5, 0xf0, 0xf2, 0xf3};
    unsigned row = opcode >> 4;
    if (map1)
        return row != 3 && row != 8;
    return row != 4 && row != 7 && row != 0xa && row != 0xe && !memchr(not_behind, opcode, sizeof not_behind);
}

/* D5 00 A1: a jump to the address that follows, told by a TIP [Intel APX, JMPABS]. */
static int jmpabs(struct cofi_insn *insn, size_t n)
{
    enum { LENGTH = 3 + 8 };
    *insn = (struct cofi_insn){.length = LENGTH, .cls = COFI_CLASS_JMP_IND};
    return n < LENGTH ? COFI_ERR_TRUNCATED : LENGTH;
}

/* The instruction with REX, and 0F for M0, in place of REX2: it is as long but for these. */
static int behind_rex2(struct cofi_insn *insn, const uint8_t *bytes, size_t n, uint64_t ip, size_t at)
{
    uint8_t plain[INSN_MOST + 1];
    if (n - at < 3)
        return COFI_ERR_TRUNCATED;
    uint8_t payload = bytes[at + 1], opcode = bytes[at + 2];
    bool map1 = payload >> 7;
    if (!at && !payload && opcode == 0xa1)
        return jmpabs(insn, n);
    if (!takes_rex2(map1, opcode))
        return COFI_ERR_BAD_INSN;
    size_t left = n - at - 2, shorter = !map1, before = at + 2 - shorter;
    memcpy(plain, bytes, at);
    plain[at] = 0x40 | (payload & 15);
    plain[at + 1] = 0x0f;
    left = left < sizeof plain - before ? left : sizeof plain - before;
    memcpy(plain + before, bytes + at + 2, left);
    int length = cofi__insn_decode_known(insn, 64, ip + shorter, plain, before + left);
    if (length < 0)
        return length;
    insn->length = (uint8_t)(insn->length + shorter);
    insn->prefixes = (uint8_t)(insn->prefixes ? insn->prefixes + 1 : 0);
    return insn->length <= INSN_MOST ? insn->length : COFI_ERR_BAD_INSN;
}

/* ---- VEX and EVEX ---- */

/* Bytes of ModRM, SIB and displacement; 0: there are more than n. */
static size_t modrm_size(const uint8_t *p, size_t n)
{
    if (!n)
        return 0;
    unsigned mod = p[0] >> 6, rm = p[0] & 7;
    bool has_sib = mod != 3 && rm == 4;
    if (has_sib && n < 2)
        return 0;
    size_t size = 1u + has_sib + cofi__disp_bytes(p[0], has_sib ? p[1] : 0);
    return size <= n ? size : 0;
}

/* EVEX map 4 holds instructions that other maps have without it. */
static size_t promoted_immediate(uint8_t opcode, uint8_t modrm, bool word)
{
    static const uint8_t bytes[] = {0x24, 0x2c, 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xd4}, wide[] = {0x69, 0x81};
    bool is_test = (opcode == 0xf6 || opcode == 0xf7) && !(modrm & 0x30);
    if (memchr(bytes, opcode, sizeof bytes) || (is_test && opcode == 0xf6))
        return 1;
    return memchr(wide, opcode, sizeof wide) || is_test ? word ? 2 : 4 : 0;
}

/* By map; those of the first are few, and old. */
static size_t vector_immediate(unsigned map, uint8_t opcode)
{
    if (map == 3)
        return 1;
    if (map == 7)
        return 4;
    return map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6));
}

/* C4: two bytes behind it; 62: three. Their map and pp lie alike. */
static int behind_vex(struct cofi_insn *insn, const uint8_t *bytes, size_t n, size_t at)
{
    size_t opcode_at = at + (bytes[at] == 0x62 ? 4 : 3);
    if (n <= opcode_at)
        return COFI_ERR_TRUNCATED;
    unsigned map = bytes[at + 1] & (bytes[at] == 0x62 ? 7 : 31);
    bool has_map = bytes[at] == 0x62 ? map != 0 : map == 1 || map == 2 || map == 3 || map == 5 || map == 7;
    if (!has_map)
        return COFI_ERR_BAD_INSN;
    size_t size = modrm_size(bytes + opcode_at + 1, n - opcode_at - 1);
    if (!size)
        return COFI_ERR_TRUNCATED;
    uint8_t opcode = bytes[opcode_at], modrm = bytes[opcode_at + 1];
    bool word = (bytes[at + 2] & 3) == 1;
    size_t immediate = map == 4 && bytes[at] == 0x62 ? promoted_immediate(opcode, modrm, word)
                                                     : vector_immediate(map, opcode);
    size_t length = opcode_at + 1 + size + immediate;
    if (length > INSN_MOST)
        return COFI_ERR_BAD_INSN;
    *insn = (struct cofi_insn){.length = (uint8_t)length, .cls = COFI_CLASS_OTHER, .writes = modrm < 0xc0};
    return length <= n ? (int)length : COFI_ERR_TRUNCATED;
}

/* ---- 0F 38: RAO-INT (AADD and its like), MOVRS ---- */

static int behind_0f38(struct cofi_insn *insn, const uint8_t *bytes, size_t n, size_t at)
{
    static const uint8_t opcodes[] = {0x8a, 0x8b, 0xfc};
    at += bytes[at] >> 4 == 4; /* REX */
    if (n < at + 3 || bytes[at] != 0x0f || bytes[at + 1] != 0x38 || !memchr(opcodes, bytes[at + 2], sizeof opcodes))
        return COFI_ERR_BAD_INSN;
    size_t size = modrm_size(bytes + at + 3, n - at - 3);
    if (!size)
        return COFI_ERR_TRUNCATED;
    if (bytes[at + 3] >= 0xc0)
        return COFI_ERR_BAD_INSN;
    *insn = (struct cofi_insn){.length = (uint8_t)(at + 3 + size), .cls = COFI_CLASS_OTHER,
                               .writes = bytes[at + 2] == 0xfc};
    return insn->length;
}

/* Where the byte behind the legacy prefixes says what the shape is. */
static int by_first(struct cofi_insn *insn, const uint8_t *bytes, size_t n, uint64_t ip, size_t at, bool others)
{
    if (bytes[at] == 0xd5)
        return behind_rex2(insn, bytes, n, ip, at);
    if (bytes[at] == 0x62 || bytes[at] == 0xc4)
        return others ? COFI_ERR_BAD_INSN : behind_vex(insn, bytes, n, at);
    return behind_0f38(insn, bytes, n, at);
}

int cofi__shape_print(const uint8_t *bytes, size_t n, char *out, size_t size)
{
    bool others;
    const uint8_t *p = bytes + legacy_prefixes(bytes, n, &others);
    if (p[0] == 0xd5 && !p[1] && p[2] == 0xa1)
        return snprintf(out, size, "jmpabs 0x%llx", (unsigned long long)le64(p + 3));
    if (p[0] == 0xd5)
        return snprintf(out, size, "(REX2, map %u, opcode %02x)", p[1] >> 7, p[2]);
    if (p[0] == 0x62)
        return snprintf(out, size, "(EVEX, map %u, opcode %02x)", p[1] & 7u, p[4]);
    if (p[0] == 0xc4)
        return snprintf(out, size, "(VEX, map %u, opcode %02x)", p[1] & 31u, p[3]);
    return snprintf(out, size, "(map 2, opcode %02x)", p[p[0] >> 4 == 4 ? 3 : 2]);
}

int cofi__insn_by_shape(struct cofi_insn *insn, uint64_t ip, const uint8_t *bytes, size_t n)
{
    bool others;
    n = n < INSN_MOST ? n : INSN_MOST;
    size_t at = legacy_prefixes(bytes, n, &others);
    return at < n ? by_first(insn, bytes, n, ip, at, others) : COFI_ERR_BAD_INSN;
}
