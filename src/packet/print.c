/* SPDX-License-Identifier: MIT
 * One packet -> a line of text, in ptdump's words. */
#include <ctype.h>
#include <string.h>

#include "base/bytes.h"
#include "packet/text.h"

struct line {
    char text[COFI_PACKET_TEXT_MAX];
    size_t n, payload; /* payload: where it begins */
};

/* The longest line has room: every packet's is tested. */
static void add_n(struct line *line, const char *text, size_t n)
{
    if (n > sizeof line->text - 1 - line->n)
        n = sizeof line->text - 1 - line->n;
    memcpy(line->text + line->n, text, n);
    line->n += n;
}

static void add(struct line *line, const char *text) { add_n(line, text, strlen(text)); }

static void add_char(struct line *line, char c) { add_n(line, &c, 1); }

/* In hex with at least `digits` digits. */
static void add_hex(struct line *line, uint64_t value, unsigned digits)
{
    char text[16];
    unsigned least = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;
    digits = digits > least ? digits : least;
    for (unsigned i = digits; i-- > 0; value >>= 4)
        text[i] = "0123456789abcdef"[value & 15];
    add_n(line, text, digits);
}

static void add_small(struct line *line, unsigned value)
{
    if (value > 9)
        add_char(line, (char)('0' + value / 10 % 10));
    add_char(line, (char)('0' + value % 10));
}

static void add_flag(struct line *line, const char *word, size_t n)
{
    if (line->n > line->payload)
        add(line, ", ");
    add_n(line, word, n);
}

static void add_wake(struct line *line, unsigned wake)
{
    static const char *const words[] = WAKE_WORDS;
    const char *joint = "";
    for (unsigned i = 0; i < 4; i++)
        if (wake >> i & 1) {
            add(line, joint);
            add(line, words[i]);
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

static void print_template(struct line *line, const struct row *row,
                           const struct cofi_packet *packet)
{
    unsigned field = 0;
    for (const char *t = row->text; *t;) {
        if (*t == '{') {
            t++;
            add_flags(line, &t, row, &field, packet);
        } else if (*t == '%') {
            uint64_t value = cofi__field_get(packet, next_field(row, &field));
            switch (*++t) {
            case 'x': add_hex(line, value, 0); break;
            case '8': add_hex(line, value, 8); t++; break;
            case 'c': add_small(line, (unsigned)(value + 1) & 15); break;
            case 'v':
                if (value || cofi_cfe_has_vector(packet->cfe.type)) {
                    add(line, ": ");
                    add_hex(line, value, 0);
                }
                break;
            case 'w': add_wake(line, (unsigned)value); break;
            }
            t++;
        } else {
            add_char(line, *t++);
        }
    }
}

static void print_tnt(struct line *line, const struct cofi_packet *packet, bool words)
{
    for (unsigned i = packet->tnt.count; i-- > 0;) {
        bool taken = cofi__tnt_taken(packet, i);
        if (words)
            add(line, taken ? i ? "T " : "T" : i ? "NT " : "NT");
        else
            add_char(line, taken ? '!' : '.');
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
    add_hex(line, packet->ip.code, 0);
    add(line, ": ");
    add_n(line, "????????????????", 16 - 2 * (size_t)n);
    if (n)
        add_hex(line, ip, 2 * (unsigned)n);
}

/* The same with 12 digits; z: zeros above. */
static void print_rtit_ip(struct line *line, const struct cofi_packet *packet)
{
    int n = cofi__ip_bytes(COFI_RTIT, packet->ip.code);
    n = n < 0 ? 6 : n;
    bool zext = packet->ip.code & 4;
    add_hex(line, packet->ip.code & 3, 0);
    add(line, zext ? "z: " : ": ");
    add_n(line, zext ? "000000000000" : "????????????", 12 - 2 * (size_t)n);
    add_hex(line, packet->ip.payload, 2 * (unsigned)n);
}

static void print_trig(struct line *line, const struct cofi_packet *packet)
{
    add_hex(line, packet->trig.trbv, 0);
    if (packet->trig.ip)
        add_flag(line, "ip", 2);
    if (packet->trig.mult)
        add_flag(line, "mult", 4);
    if (packet->trig.icntv) {
        add(line, ", icnt: ");
        add_hex(line, packet->trig.icnt, 0);
    }
}

static void print_payload(struct line *line, const struct row *row,
                          const struct cofi_packet *packet)
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
        add_hex(line, packet->cyc.count, 0);
        if (packet->cyc.bytes > cyc_least_bytes(packet->cyc.count)) {
            add_char(line, '/');
            add_small(line, packet->cyc.bytes);
        }
        break;
    case SHAPE_PTW:
        add_hex(line, packet->ptw.wide, 0);
        add(line, ": ");
        add_hex(line, packet->ptw.payload, 0);
        if (packet->ptw.ip)
            add_flag(line, "ip", 2);
        break;
    case SHAPE_BIP:
        add_hex(line, packet->bip.id, 0);
        add(line, ": ");
        add_hex(line, packet->bip.payload, packet->bip.wide ? 16 : 8);
        break;
    case SHAPE_TRIG: print_trig(line, packet); break;
    }
}

int cofi_packet_print(const struct cofi_packet *packet, char *out, size_t n)
{
    unsigned kind = packet->kind < COFI_PKT_KINDS ? packet->kind : COFI_PKT_NONE;
    const struct row *row = &cofi__packet_rows[kind];
    bool rtit = row->gen == COFI_RTIT;
    struct line line;
    line.n = 0;
    add(&line, row->name);
    size_t name = line.n;
    for (size_t i = 0; rtit && i < name; i++)
        line.text[i] = (char)toupper((unsigned char)line.text[i]);
    add_n(&line, "             ", (rtit ? NAME_WIDTH_RTIT : NAME_WIDTH_PT) - name);
    line.payload = line.n;
    if (kind != COFI_PKT_NONE)
        print_payload(&line, row, packet);
    if (packet->ccp_size) {
        add(&line, ", CCP ");
        add_hex(&line, packet->ccp, 0);
        if (packet->ccp_size > ccp_least_bytes(packet->ccp)) {
            add_char(&line, '/');
            add_small(&line, packet->ccp_size);
        }
    }
    while (line.text[line.n - 1] == ' ')
        line.n--;
    if (n) {
        size_t kept = line.n < n ? line.n : n - 1;
        memcpy(out, line.text, kept);
        out[kept] = 0;
    }
    return (int)line.n;
}
