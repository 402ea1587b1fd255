/* SPDX-License-Identifier: MIT
 * One packet -> a JSON object, from the tables. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "packet/row.h"

struct out {
    char *text;
    size_t n, room;
};

static __attribute__((format(printf, 2, 3))) void add(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out->n < out->room ? out->text + out->n : 0, out->n < out->room ? out->room - out->n : 0,
                      format, args);
    va_end(args);
    out->n += n > 0 ? (size_t)n : 0;
}

static void add_number(struct out *out, const char *name, uint64_t value, unsigned width)
{
    const char *dot = strchr(name, '.');
    if (width > 53)
        add(out, ",\"%s\":\"%llx\"", dot ? dot + 1 : name, (unsigned long long)value);
    else
        add(out, ",\"%s\":%llu", dot ? dot + 1 : name, (unsigned long long)value);
}

int cofi_packet_print_json(const struct cofi_packet *packet, char *text, size_t n)
{
    unsigned kind = packet->kind < COFI_PKT_KINDS ? packet->kind : COFI_PKT_NONE;
    const struct row *row = &cofi__packet_rows[kind];
    struct out out = {text, 0, n};
    add(&out, "{\"kind\":\"%s\"", row->name);
    if (row->shape == SHAPE_TNT || row->shape == SHAPE_TNT64 || row->shape == SHAPE_RTIT_TNT) {
        add(&out, ",\"bits\":\"");
        for (unsigned i = packet->tnt.count; kind && i-- > 0;)
            add(&out, "%c", packet->tnt.bits >> i & 1 ? '!' : '.');
        add(&out, "\"");
    } else {
        for (unsigned i = 0; i < row->field_count; i++)
            if (row->fields[i].name && !row->fields[i].part)
                add_number(&out, row->fields[i].name, cofi__field_get(packet, &row->fields[i]),
                           row->shape == SHAPE_CYC || row->fields[i].bytes == 8 ? 64 : 32);
    }
    if (row->shape == SHAPE_BIP)
        add_number(&out, "wide", packet->bip.wide, 1);
    if (packet->ccp_size)
        add_number(&out, "ccp", packet->ccp, 22);
    add(&out, "}");
    return (int)out.n;
}
