/* SPDX-License-Identifier: MIT
 * The number that a compiler gives one of the paths through a line -> which path that is, and how many
 * copies of it there are. */
#include <dwarf.h>
#include <string.h>

#include "image/symbols.h"

/* LLVM puts three numbers into one, from the lowest bit on: the path, how many copies of it were made
 * (by unrolling and vectorizing), and which of them this is. A number:
 *
 *      bit  0          1..5   6       7..13
 *           1                               it is 0, and that is all
 *           0          low    0             5 bits
 *           0          low    1       high  12 bits */
static uint32_t first_number(uint32_t bits)
{
    enum { ZERO = 1, LONG = 1 << 6 };
    if (bits & ZERO)
        return 0;
    uint32_t low = bits >> 1 & 0x1f, high = bits >> 7 & 0x7f;
    return bits & LONG ? high << 5 | low : low;
}

static uint32_t behind_first(uint32_t bits) { return bits & 1 ? bits >> 1 : bits & 1 << 6 ? bits >> 14 : bits >> 7; }

struct cofi__discriminator cofi__discriminator(uint32_t told, bool llvm)
{
    if (!llvm)
        return (struct cofi__discriminator){told, 1};
    uint32_t copies = first_number(behind_first(told));
    return (struct cofi__discriminator){first_number(told), copies ? copies : 1};
}

/* GCC counts on. What else writes discriminators is made with LLVM. */
bool cofi__is_llvm(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    const char *producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attribute));
    return producer && strncmp(producer, "GNU ", 4) != 0;
}
