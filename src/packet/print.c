/* SPDX-License-Identifier: MIT
 * One packet -> a line of text, in ptdump's words. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "packet/text.h"

struct line {
    char text[COFI_PACKET_TEXT_MAX];
    size_t n, payload; /* payload: where it begins */
};

static __attribute__((format(printf, 2, 3))) void add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->text + line->n, sizeof line->text - line->n, format, args);
    va_end(args);
    if (n > 0)
        line->n = line->n + (size_t)n < sizeof line->text ? line->n + (size_t)n : sizeof line->text - 1;
}

static void add_flag(struct line *line, const char *word, size_t n)
{
    add(line, "%s%.*s", line->n > line->payload ? ", " : "", (int)n, word);
}

static void add_wake(struct line *line, unsigned wake)
{
    static const char *const words[] = WAKE_WORDS;
    const char *joint = "";
    for (unsigned i = 0; i < 4; i++)
        if (wake >> i & 1) {
            add(line, "%s%s", joint, words[i]);
            joint = "+";
        }
    if (!*joint)
        add(line, WAKE_NONE);
}

/* {a|b}, *t behind the brace; leaves *t behind the closing one. */
static void add_flags(struct line *line, const char **t, const struct row *row, unsigned *field,
                      const struct cofi_packet *packet)
{
    while (**t != '}') {
        size_t n = strcspn(*t, "|}");
        if (cofi__field_get(packet, next_field(row, field)))
            add_flag(line, *t, n);
        *t += n + ((*t)[n] == '|');
    }
    ++*t;
}

static void print_template(struct line *line, const struct row *row, const struct cofi_packet *packet)
{
    unsigned field = 0;
    for (const char *t = row->text; *t;) {
        if (*t == '{') {
            t++;
            add_flags(line, &t, row, &field, packet);
        } else if (*t == '%') {
            uint64_t value = cofi__field_get(packet, next_field(row, &field));
            switch (*++t) {
            case 'x': add(line, "%llx", (unsigned long long)value); break;
            case '8': add(line, "%08llx", (unsigned long long)value); t++; break;
            case 'c': add(line, "%u", (unsigned)(value + 1) & 15); break;
            case 'v':
                if (value || cfe_has_vector(packet->cfe.type))
                    add(line, ": %llx", (unsigned long long)value);
                break;
            case 'w': add_wake(line, (unsigned)value); break;
            }
            t++;
        } else {
            add(line, "%c", *t++);
        }
    }
}

static void print_tnt(struct line *line, const struct cofi_packet *packet, bool words)
{
    for (unsigned i = packet->tnt.count; i-- > 0;) {
        bool taken = packet->tnt.bits >> i & 1;
        if (words)
            add(line, "%s%s", taken ? "T" : "NT", i ? " " : "");
        else
            add(line, "%c", taken ? '!' : '.');
    }
}

/* "code: digits", '?' where LastIP has them. */
static void print_ip(struct line *line, const struct cofi_packet *packet)
{
    int n = cofi__ip_bytes(COFI_PT, packet->ip.code);
    uint64_t ip = packet->ip.payload;
    if (packet->ip.code == 3) {
        ip = sext(ip, 47);
        n = 8;
    }
    n = n < 0 ? 8 : n;
    add(line, "%x: %.*s", packet->ip.code, 16 - 2 * n, "????????????????");
    if (n)
        add(line, "%0*llx", 2 * n, (unsigned long long)ip);
}

/* The same with 12 digits; z: zeros above. */
static void print_rtit_ip(struct line *line, const struct cofi_packet *packet)
{
    int n = cofi__ip_bytes(COFI_RTIT, packet->ip.code);
    n = n < 0 ? 6 : n;
    bool zext = packet->ip.code & 4;
    add(line, "%x%s: %.*s%0*llx", packet->ip.code & 3, zext ? "z" : "", 12 - 2 * n,
        zext ? "000000000000" : "????????????", 2 * n, (unsigned long long)packet->ip.payload);
}

static void print_trig(struct line *line, const struct cofi_packet *packet)
{
    add(line, "%x", packet->trig.trbv);
    if (packet->trig.ip)
        add_flag(line, "ip", 2);
    if (packet->trig.mult)
        add_flag(line, "mult", 4);
    if (packet->trig.icntv)
        add(line, ", icnt: %x", packet->trig.icnt);
}

static void print_payload(struct line *line, const struct row *row, const struct cofi_packet *packet)
{
    switch ((enum shape)row->shape) {
    case SHAPE_FIXED:
    case SHAPE_MODE:
    case SHAPE_PSB: print_template(line, row, packet); break;
    case SHAPE_TNT:
    case SHAPE_TNT64: print_tnt(line, packet, false); break;
    case SHAPE_RTIT_TNT: print_tnt(line, packet, true); break;
    case SHAPE_IP: print_ip(line, packet); break;
    case SHAPE_RTIT_IP: print_rtit_ip(line, packet); break;
    case SHAPE_CYC:
        add(line, "%llx", (unsigned long long)packet->cyc.count);
        if (packet->cyc.bytes > cyc_least_bytes(packet->cyc.count))
            add(line, "/%u", packet->cyc.bytes);
        break;
    case SHAPE_PTW:
        add(line, "%x: %llx", packet->ptw.wide, (unsigned long long)packet->ptw.payload);
        if (packet->ptw.ip)
            add_flag(line, "ip", 2);
        break;
    case SHAPE_BIP:
        add(line, "%x: %0*llx", packet->bip.id, packet->bip.wide ? 16 : 8,
            (unsigned long long)packet->bip.payload);
        break;
    case SHAPE_TRIG: print_trig(line, packet); break;
    }
}

int cofi_packet_print(const struct cofi_packet *packet, char *out, size_t n)
{
    unsigned kind = packet->kind < COFI_PKT_KINDS ? packet->kind : COFI_PKT_NONE;
    const struct row *row = &cofi__packet_rows[kind];
    bool rtit = row->gen == COFI_RTIT;
    struct line line = {.n = 0};
    add(&line, "%-*s", rtit ? NAME_WIDTH_RTIT : NAME_WIDTH_PT, row->name);
    if (rtit)
        for (size_t i = 0; i < line.n; i++)
            line.text[i] = (char)toupper((unsigned char)line.text[i]);
    line.payload = line.n;
    if (kind != COFI_PKT_NONE)
        print_payload(&line, row, packet);
    if (packet->ccp_size) {
        add(&line, ", CCP %x", packet->ccp);
        if (packet->ccp_size > ccp_least_bytes(packet->ccp))
            add(&line, "/%u", packet->ccp_size);
    }
    while (line.n && line.text[line.n - 1] == ' ')
        line.text[--line.n] = 0;
    return snprintf(out, n, "%s", line.text);
}
