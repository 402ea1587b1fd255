/* SPDX-License-Identifier: MIT
 * Instruction bytes that Zydis 4.0 does not know yet, but kernels and programs use -> length and class. */
#include "x86/newer.h"

#include <string.h>

#include <cofi/event.h>

#include "base/error.h"

struct newer {
    uint8_t prefix, n, bytes[4], mask; /* prefix: 0 none; of the last byte, a ModRM, the mask's bits count */
    uint8_t cls, far;
    const char *name;
};

/* 64-bit mode, operands in registers only, as the SDM's instruction set reference has them; FRED's
 * returns change control flow as IRET does [SDM COFI Type for Branch Instructions], [PTREF 5.8]. */
static const struct newer table[] = {
    {0xf3, 3, {0x0f, 0x01, 0xca}, 0xff, COFI_CLASS_FAR_RET, COFI_FAR_IRET, "eretu"},
    {0xf2, 3, {0x0f, 0x01, 0xca}, 0xff, COFI_CLASS_FAR_RET, COFI_FAR_IRET, "erets"},
    {0xf2, 3, {0x0f, 0x00, 0xf0}, 0xf8, COFI_CLASS_OTHER, 0, "lkgs"},
    {0x00, 3, {0x0f, 0x01, 0xc6}, 0xff, COFI_CLASS_OTHER, 0, "wrmsrns"},
    {0xf3, 3, {0x0f, 0x01, 0xc6}, 0xff, COFI_CLASS_OTHER, 0, "wrmsrlist"},
    {0xf2, 3, {0x0f, 0x01, 0xc6}, 0xff, COFI_CLASS_OTHER, 0, "rdmsrlist"},
    {0x00, 3, {0x0f, 0x01, 0xc7}, 0xff, COFI_CLASS_OTHER, 0, "pbndkb"},
    {0xf2, 4, {0x0f, 0x38, 0xf8, 0xc0}, 0xc0, COFI_CLASS_OTHER, 0, "urdmsr"},
    {0xf3, 4, {0x0f, 0x38, 0xf8, 0xc0}, 0xc0, COFI_CLASS_OTHER, 0, "uwrmsr"},
};

/* The mandatory prefix, then at most a REX. */
static unsigned prefixes_of(const struct newer *row, const uint8_t *bytes, size_t n)
{
    unsigned at = row->prefix != 0;
    return at + (at < n && bytes[at] >> 4 == 4);
}

static bool fits(const struct newer *row, const uint8_t *bytes, size_t n)
{
    if (!n || (row->prefix && bytes[0] != row->prefix))
        return false;
    unsigned at = prefixes_of(row, bytes, n), last = row->n - 1u;
    return n - at >= row->n && memcmp(bytes + at, row->bytes, last) == 0 &&
           (bytes[at + last] & row->mask) == row->bytes[last];
}

const char *cofi__insn_newer(struct cofi_insn *insn, unsigned mode, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; mode == 64 && i < ARRAY_LEN(table); i++) {
        const struct newer *row = &table[i];
        if (!fits(row, bytes, n))
            continue;
        unsigned prefixes = prefixes_of(row, bytes, n);
        *insn = (struct cofi_insn){.length = (uint8_t)(prefixes + row->n), .cls = row->cls, .far = row->far};
        if (row->far)
            insn->prefixes = (uint8_t)prefixes;
        return row->name;
    }
    return NULL;
}
