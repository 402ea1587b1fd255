/* SPDX-License-Identifier: MIT
 * The text column of the packet tables: one template for printing and for parsing a payload.
 *
 *   %x       the next field in hex        %8x   the same, 8 digits
 *   %c       the next field, a C-state: in decimal, one more than what is encoded, 4 bits
 *   %w       the next field, a wake reason: its words, joined by '+'
 *   %v       the next field, a vector: ": " and hex; nothing where it is 0 and the type has none
 *   {a|b}    the next fields, one bit each: those words whose bit is 1, each after ", " unless it begins
 *            the payload
 *   else     itself
 * The fields come in the row's order, without reserved ones and further parts. */
#ifndef COFI_PACKET_TEXT_H
#define COFI_PACKET_TEXT_H

#include "packet/row.h"

enum { NAME_WIDTH_PT = 11, NAME_WIDTH_RTIT = 13 };

/* Wake reasons by bit [SDM (PWRX) Packet]; none set: a wake that is none of these. */
#define WAKE_WORDS {"int", "timer", "st", "hw"}
#define WAKE_NONE "none"

/* Shortest encodings: what the text need not say. */
static inline unsigned cyc_least_bytes(uint64_t count)
{
    unsigned n = 1;
    for (count >>= 5; count; count >>= 7)
        n++;
    return n;
}

static inline unsigned ccp_least_bytes(uint32_t count)
{
    return count < 1 << 6 ? 1 : count < 1 << 14 ? 2 : 3;
}

/* The next field that prints, from *i on. */
static inline const struct field *next_field(const struct row *row, unsigned *i)
{
    while (!row->fields[*i].name || row->fields[*i].part)
        ++*i;
    return &row->fields[(*i)++];
}

#endif
