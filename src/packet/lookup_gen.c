/* SPDX-License-Identifier: MIT
 * pt.def and rtit.def -> packet_lookup.h, at build time: which packet a first byte (and, after 02
 * and 99, a second byte) begins, and for packets of one step how to take them apart without asking
 * which they are. */
#include <stdio.h>
#include <stdlib.h>

#include "packet/row.h"

static void die(const char *what, unsigned a, unsigned b)
{
    fprintf(stderr, "packet tables: %s (%02x %02x)\n", what, a, b);
    exit(1);
}

/* The kind whose header fits the first two bytes, of which known tells one or both; COFI_PKT_NONE:
 * none; COFI_PKT_KINDS: the second byte decides. BIP is looked for elsewhere, in blocks. */
static unsigned kind_of(enum cofi_gen gen, unsigned first, unsigned second, unsigned known)
{
    unsigned found = COFI_PKT_NONE;
    for (unsigned kind = 1; kind < COFI_PKT_KINDS; kind++) {
        const struct row *r = &cofi__packet_rows[kind];
        unsigned seen = first | (known > 1 ? second << 8 : 0),
                 mask = r->mask & (known > 1 ? 0xffff : 0xff);
        if (r->gen != gen || r->shape == SHAPE_BIP || ((seen ^ r->header) & mask))
            continue;
        /* Short TNT is what has its bit 0 (PT) or 7 (RTIT) clear and is nothing else. */
        if (r->shape == SHAPE_TNT || r->shape == SHAPE_RTIT_TNT) {
            if (found == COFI_PKT_NONE && first > (r->shape == SHAPE_TNT ? 2 : 0))
                found = kind;
            continue;
        }
        if (known == 1 && r->mask & 0xff00) {
            found = COFI_PKT_KINDS;
            continue;
        }
        if (found != COFI_PKT_NONE && cofi__packet_rows[found].shape != SHAPE_TNT &&
            cofi__packet_rows[found].shape != SHAPE_RTIT_TNT)
            die("two packets begin so", first, second);
        found = kind;
    }
    return found;
}

struct step {
    unsigned long long mask;
    unsigned kind, size, skip, shift, aux;
};

/* Number of result bits below the stop bit. */
static unsigned tnt_bits(unsigned value)
{
    unsigned n = 0;
    while (value >> (n + 1))
        n++;
    return n;
}

static unsigned long long ones(unsigned n) { return n < 64 ? (1ULL << n) - 1 : ~0ULL; }

/* A header of one byte, and at most one field of whole bytes behind it that is the union's first
 * member, and one in the header that is where a code would be. */
static struct step fixed_step(const struct row *r, unsigned first, struct step s)
{
    struct step none = {0};
    if (r->mask >> 8 || (r->size > 1 && !r->field_count))
        return none;
    s.size = r->size;
    s.skip = 1;
    for (unsigned i = 0; i < r->field_count; i++) {
        const struct field *f = &r->fields[i];
        if (f->name && f->lsb == 8 && !f->left && f->offset == offsetof(struct cofi_packet, tnt) &&
            f->lsb + f->width == 8 * r->size)
            s.mask = ones(f->width);
        else if (f->name && f->lsb + f->width <= 8 && !f->left && f->bytes == 1 &&
                 f->offset == offsetof(struct cofi_packet, tnt.count))
            s.aux = first >> f->lsb & (unsigned)ones(f->width);
        else
            return none;
    }
    return s;
}

/* How to take apart in one step the packet that begins with a byte; size 0: it needs more. */
static struct step step_of(enum cofi_gen gen, unsigned first)
{
    struct step s = {0}, none = {0};
    s.kind = kind_of(gen, first, 0, 1);
    if (s.kind == COFI_PKT_NONE || s.kind == COFI_PKT_KINDS)
        return none;
    const struct row *r = &cofi__packet_rows[s.kind];
    int n;
    switch ((enum shape)r->shape) {
    case SHAPE_TNT:
    case SHAPE_RTIT_TNT:
        s.shift = r->shape == SHAPE_TNT;
        s.aux = tnt_bits(first >> s.shift);
        s.mask = ones(s.aux);
        s.size = s.aux ? 1 : 0;
        return s.size ? s : none;
    case SHAPE_IP:
    case SHAPE_RTIT_IP:
        s.aux = gen == COFI_PT ? first >> 5 : first & 7;
        n = cofi__ip_bytes(gen, s.aux);
        if (n < 0)
            return none;
        s.mask = ones(8 * (unsigned)n);
        s.skip = 1;
        s.size = 1 + (unsigned)n;
        return s;
    case SHAPE_CYC:
        if (first & 4)
            return none;
        s.mask = 0x1f;
        s.shift = 3;
        s.aux = s.size = 1;
        return s;
    case SHAPE_FIXED: return fixed_step(r, first, s);
    case SHAPE_MODE:
    case SHAPE_TNT64:
    case SHAPE_PSB:
    case SHAPE_PTW:
    case SHAPE_BIP:
    case SHAPE_TRIG:
        return none;
    }
    return none;
}

static void print_steps(const char *name, enum cofi_gen gen)
{
    printf("static const struct step %s[256] = {\n", name);
    for (unsigned first = 0; first < 256; first++) {
        struct step s = step_of(gen, first);
        printf("    {0x%llx, %u, %u, %u, %u, %u},\n", s.mask, s.kind, s.size, s.skip, s.shift,
               s.aux);
    }
    printf("};\n");
}

static void print_kinds(const char *name, enum cofi_gen gen, unsigned first, unsigned known)
{
    printf("static const unsigned char %s[256] = {", name);
    for (unsigned i = 0; i < 256; i++)
        printf("%s%u,", i % 16 ? " " : "\n    ",
               known == 1 ? kind_of(gen, i, 0, 1) : kind_of(gen, first, i, 2));
    printf("\n};\n");
}

int main(void)
{
    for (unsigned first = 0; first < 256; first++)
        if (kind_of(COFI_PT, first, 0, 1) == COFI_PKT_KINDS && first != 0x02 && first != 0x99)
            die("a second byte decides where only 02 and 99 may ask it", first, 0);
    printf("/* Made from pt.def and rtit.def by lookup_gen.c. */\n");
    print_steps("pt_steps", COFI_PT);
    print_steps("rtit_steps", COFI_RTIT);
    print_kinds("pt_first", COFI_PT, 0, 1);
    print_kinds("pt_after_02", COFI_PT, 0x02, 2);
    print_kinds("pt_after_99", COFI_PT, 0x99, 2);
    print_kinds("rtit_first", COFI_RTIT, 0, 1);
    return 0;
}
