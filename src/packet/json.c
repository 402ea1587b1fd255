/* SPDX-License-Identifier: MIT
 * One packet -> a JSON object, from the tables. */
#include <string.h>

#include "packet/row.h"

struct out {
    char *text;
    size_t n, room;
};

static void add(struct out *out, const char *text)
{
    for (; *text; text++, out->n++)
        if (out->n + 1 < out->room)
            out->text[out->n] = *text;
}

/* In base 10 or 16. */
static void add_number(struct out *out, uint64_t value, unsigned base)
{
    char text[24], *p = text + sizeof text - 1;
    *p = 0;
    do
        *--p = "0123456789abcdef"[value % base];
    while (value /= base);
    add(out, p);
}

static void add_member(struct out *out, const char *name, uint64_t value, bool wide)
{
    const char *dot = strchr(name, '.');
    add(out, ",\"");
    add(out, dot ? dot + 1 : name);
    add(out, wide ? "\":\"" : "\":");
    add_number(out, value, wide ? 16 : 10);
    add(out, wide ? "\"" : "");
}

int cofi_packet_print_json(const struct cofi_packet *packet, char *text, size_t n)
{
    unsigned kind = packet->kind < COFI_PKT_KINDS ? packet->kind : COFI_PKT_NONE;
    const struct row *row = &cofi__packet_rows[kind];
    struct out out = {text, 0, n};
    add(&out, "{\"kind\":\"");
    add(&out, row->name);
    add(&out, "\"");
    if (row->shape == SHAPE_TNT || row->shape == SHAPE_TNT64 || row->shape == SHAPE_RTIT_TNT) {
        add(&out, ",\"bits\":\"");
        for (unsigned i = packet->tnt.count; kind && i-- > 0;)
            add(&out, cofi__tnt_taken(packet, i) ? "!" : ".");
        add(&out, "\"");
    } else {
        for (unsigned i = 0; i < row->field_count; i++)
            if (row->fields[i].name && !row->fields[i].part)
                add_member(&out, row->fields[i].name, cofi__field_get(packet, &row->fields[i]),
                           row->fields[i].bytes == 8);
    }
    if (row->shape == SHAPE_BIP)
        add_member(&out, "wide", packet->bip.wide, false);
    if (packet->ccp_size)
        add_member(&out, "ccp", packet->ccp, false);
    add(&out, "}");
    if (n)
        text[out.n < n ? out.n : n - 1] = 0;
    return (int)out.n;
}
