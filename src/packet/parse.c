/* SPDX-License-Identifier: MIT
 * A line of text -> one packet; the inverse of print.c. */
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/error.h"
#include "packet/text.h"

struct scan {
    const char *start, *p, *name, *payload;
    struct cofi_error *error;
};

static int fail(struct scan *s, int code, const char *what)
{
    return cofi__fail(s->error, code, (uint64_t)(s->p - s->start), "%s, at \"%.24s\"", what, s->p);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_name(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '.' ||
           c == '_';
}

/* A literal, in any letter case; false: it is not there, and nothing is taken. */
static bool take(struct scan *s, const char *literal, size_t n)
{
    if (strncasecmp(s->p, literal, n))
        return false;
    s->p += n;
    return true;
}

static int expect(struct scan *s, const char *literal)
{
    if (take(s, literal, strlen(literal)))
        return 0;
    return cofi__fail(s->error, COFI_ERR_SYNTAX, (uint64_t)(s->p - s->start),
                      "expected '%s', at \"%.24s\"", literal, s->p);
}

/* A number in hex; *digits (may be null) says how many digits it had. */
static int take_hex(struct scan *s, uint64_t *value, unsigned *digits)
{
    unsigned n = 0;
    if (s->p[0] == '0' && (s->p[1] | 0x20) == 'x' && hex_digit(s->p[2]) >= 0)
        s->p += 2;
    for (*value = 0; hex_digit(*s->p) >= 0; n++, s->p++) {
        if (*value >> 60)
            return fail(s, COFI_ERR_RANGE, "a number of more than 64 bits");
        *value = *value << 4 | (unsigned)hex_digit(*s->p);
    }
    if (digits)
        *digits = n;
    return n ? 0 : fail(s, COFI_ERR_SYNTAX, "expected a hex number");
}

static int take_decimal(struct scan *s, unsigned *value)
{
    if (*s->p < '0' || *s->p > '9')
        return fail(s, COFI_ERR_SYNTAX, "expected a decimal number");
    for (*value = 0; *s->p >= '0' && *s->p <= '9'; s->p++) {
        *value = *value * 10 + (unsigned)(*s->p - '0');
        if (*value > 255)
            return fail(s, COFI_ERR_RANGE, "a number that is too large");
    }
    return 0;
}

/* A word that ends here, after ", " unless it begins the payload; false: it is not there. */
static bool take_flag(struct scan *s, const char *word, size_t n)
{
    const char *p = s->p;
    if ((s->p == s->payload || take(s, ", ", 2)) && take(s, word, n) && !is_name(*s->p))
        return true;
    s->p = p;
    return false;
}

static int take_wake(struct scan *s, uint64_t *wake)
{
    static const char *const words[] = WAKE_WORDS;
    *wake = 0;
    if (take(s, WAKE_NONE, strlen(WAKE_NONE)))
        return 0;
    do {
        unsigned i = 0;
        while (i < 4 && !take(s, words[i], strlen(words[i])))
            i++;
        if (i == 4)
            return fail(s, COFI_ERR_SYNTAX, "expected a wake reason: int, timer, st, hw or none");
        *wake |= 1u << i;
    } while (take(s, "+", 1));
    return 0;
}

/* One %-item of a template into the next field. */
static int parse_item(struct scan *s, char item, const struct field *field,
                      struct cofi_packet *packet)
{
    uint64_t value = 0;
    unsigned decimal;
    switch (item) {
    case 'c':
        COFI_TRY(take_decimal(s, &decimal));
        if (decimal > 15)
            return fail(s, COFI_ERR_RANGE, "a C-state over 15");
        value = (decimal + 15) & 15;
        break;
    case 'w': COFI_TRY(take_wake(s, &value)); break;
    case 'v':
        if (take(s, ": ", 2))
            COFI_TRY(take_hex(s, &value, 0));
        break;
    default: COFI_TRY(take_hex(s, &value, 0)); break;
    }
    if (value & ~(bits(UINT64_MAX, 0, 8 * field->bytes)))
        return fail(s, COFI_ERR_RANGE, "a value that does not fit its field");
    cofi__field_set(packet, field, value);
    return 0;
}

static int parse_template(struct scan *s, const struct row *row, struct cofi_packet *packet)
{
    unsigned field = 0;
    for (const char *t = row->text; *t;) {
        if (*t == '{') {
            for (t++; *t != '}';) {
                size_t n = strcspn(t, "|}");
                cofi__field_set(packet, next_field(row, &field), take_flag(s, t, n));
                t += n + (t[n] == '|');
            }
            t++;
        } else if (*t == '%') {
            char item = t[1];
            t += item == '8' ? 3 : 2;
            COFI_TRY(parse_item(s, item, next_field(row, &field), packet));
        } else {
            if (!take(s, t, 1))
                return fail(s, COFI_ERR_SYNTAX, "unexpected text");
            t++;
        }
    }
    return 0;
}

/* '!' and '.', or T and NT; oldest first. */
static int parse_tnt(struct scan *s, struct cofi_packet *packet)
{
    for (;;) {
        const char *p = s->p;
        if (packet->tnt.count)
            take(s, " ", 1);
        unsigned bit = take(s, "!", 1)    ? 1
                       : take(s, ".", 1)  ? 0
                       : take(s, "NT", 2) ? 0
                       : take(s, "T", 1)  ? 1
                                          : 2;
        if (bit == 2) {
            s->p = p;
            break;
        }
        if (packet->tnt.count == 63)
            return fail(s, COFI_ERR_RANGE, "too many TNT bits");
        packet->tnt.bits = packet->tnt.bits << 1 | bit;
        packet->tnt.count++;
    }
    return packet->tnt.count ? 0 : fail(s, COFI_ERR_SYNTAX, "expected TNT bits");
}

/* "code: digits", "code": IPBytes, or CNT and 'z' for Zext. */
static int parse_ip(struct scan *s, enum cofi_gen gen, struct cofi_packet *packet)
{
    uint64_t value = 0;
    int code = hex_digit(*s->p);
    if (code < 0)
        return fail(s, COFI_ERR_SYNTAX, "expected the IP's code");
    s->p++;
    if (gen == COFI_RTIT && code < 4 && take(s, "z", 1))
        code |= 4;
    int n = cofi__ip_bytes(gen, (unsigned)code);
    if (n < 0)
        return fail(s, COFI_ERR_RANGE, "reserved IP code");
    COFI_TRY(expect(s, ": "));
    s->p += strspn(s->p, "?");
    if (n)
        COFI_TRY(take_hex(s, &value, 0));
    if (gen == COFI_PT && code == 3 && value == sext(value, 47))
        value = bits(value, 0, 48);
    packet->ip.code = (uint8_t)code;
    packet->ip.payload = value;
    return 0;
}

/* "/N" after a count: its length in bytes where that is not the least. */
static int parse_length(struct scan *s, unsigned least, uint8_t *length)
{
    unsigned n = least;
    if (take(s, "/", 1))
        COFI_TRY(take_decimal(s, &n));
    *length = (uint8_t)n;
    return 0;
}

static int parse_bip(struct scan *s, struct cofi_packet *packet)
{
    uint64_t value;
    unsigned digits;
    COFI_TRY(take_hex(s, &value, 0));
    if (value > 31)
        return fail(s, COFI_ERR_RANGE, "a block item's id over 1f");
    packet->bip.id = (uint8_t)value;
    COFI_TRY(expect(s, ": "));
    COFI_TRY(take_hex(s, &packet->bip.payload, &digits));
    if (digits != 8 && digits != 16)
        return fail(s, COFI_ERR_SYNTAX, "a block item has 8 or 16 digits");
    packet->bip.wide = digits == 16;
    return 0;
}

static int parse_ptw(struct scan *s, struct cofi_packet *packet)
{
    uint64_t wide;
    COFI_TRY(take_hex(s, &wide, 0));
    if (wide > 1)
        return fail(s, COFI_ERR_RANGE, "reserved PayloadBytes");
    packet->ptw.wide = (uint8_t)wide;
    COFI_TRY(expect(s, ": "));
    COFI_TRY(take_hex(s, &packet->ptw.payload, 0));
    packet->ptw.ip = take_flag(s, "ip", 2);
    return 0;
}

static int parse_trig(struct scan *s, struct cofi_packet *packet)
{
    uint64_t value;
    COFI_TRY(take_hex(s, &value, 0));
    if (value > 0xff)
        return fail(s, COFI_ERR_RANGE, "a trigger vector over ff");
    packet->trig.trbv = (uint8_t)value;
    packet->trig.ip = take_flag(s, "ip", 2);
    packet->trig.mult = take_flag(s, "mult", 4);
    packet->trig.icntv = take(s, ", icnt: ", 8);
    if (packet->trig.icntv) {
        COFI_TRY(take_hex(s, &value, 0));
        if (value > 0xffff)
            return fail(s, COFI_ERR_RANGE, "an instruction count over ffff");
        packet->trig.icnt = (uint16_t)value;
    }
    return 0;
}

static int parse_payload(struct scan *s, const struct row *row, struct cofi_packet *packet)
{
    switch ((enum shape)row->shape) {
    case SHAPE_FIXED:
    case SHAPE_MODE:
    case SHAPE_PSB: return parse_template(s, row, packet);
    case SHAPE_TNT:
    case SHAPE_TNT64:
    case SHAPE_RTIT_TNT: return parse_tnt(s, packet);
    case SHAPE_IP:
    case SHAPE_RTIT_IP: return parse_ip(s, (enum cofi_gen)row->gen, packet);
    case SHAPE_CYC:
        COFI_TRY(take_hex(s, &packet->cyc.count, 0));
        return parse_length(s, cyc_least_bytes(packet->cyc.count), &packet->cyc.bytes);
    case SHAPE_PTW: return parse_ptw(s, packet);
    case SHAPE_BIP: return parse_bip(s, packet);
    case SHAPE_TRIG: return parse_trig(s, packet);
    }
    return COFI_ERR_SYNTAX;
}

static int parse_suffix(struct scan *s, struct cofi_packet *packet)
{
    uint64_t count;
    if (!take(s, ", CCP ", 6))
        return 0;
    COFI_TRY(take_hex(s, &count, 0));
    if (count >> 22)
        return fail(s, COFI_ERR_RANGE, "a cycle count of more than 22 bits");
    packet->ccp = (uint32_t)count;
    return parse_length(s, ccp_least_bytes(packet->ccp), &packet->ccp_size);
}

/* The name's row, and the scan behind it and the blanks after it. */
static int take_name(struct scan *s, enum cofi_gen gen)
{
    size_t n = 0;
    while (is_name(s->p[n]))
        n++;
    for (int kind = 1; n && kind < COFI_PKT_KINDS; kind++) {
        const struct row *row = &cofi__packet_rows[kind];
        if (row->gen == gen && strlen(row->name) == n && !strncasecmp(row->name, s->p, n)) {
            s->p += n;
            s->p += strspn(s->p, " \t");
            return kind;
        }
    }
    return fail(s, COFI_ERR_SYNTAX, "no packet of this name");
}

/* What the codec says of the values, in a context in which the packet may stand; its size. */
static int check_values(struct scan *s, enum cofi_gen gen, struct cofi_packet *packet)
{
    uint8_t bytes[COFI_PACKET_MAX];
    struct cofi_packet_context context = {(uint8_t)gen, packet->ccp_size != 0, 0};
    if (packet->kind == COFI_PT_BIP)
        context.block = packet->bip.wide ? 1 : 2;
    int size = cofi_packet_encode(&context, packet, bytes, sizeof bytes);
    if (size < 0)
        return fail(s, COFI_ERR_RANGE, "a value that does not fit its field");
    packet->size = (uint8_t)size;
    return 0;
}

/* The line's end, a comment, or a further column: two blanks after a payload, or after where one
 * would be. */
static bool ends(const struct scan *s, enum cofi_gen gen)
{
    const char *rest = s->p + strspn(s->p, " \t\r\n");
    int width = gen == COFI_PT ? NAME_WIDTH_PT : NAME_WIDTH_RTIT;
    if (!*rest || *rest == '#' || *rest == ';')
        return true;
    return s->p == s->payload ? s->p - s->name >= width + 2
                              : *s->p == '\t' || !strncmp(s->p, "  ", 2);
}

int cofi_packet_parse(enum cofi_gen gen, const char *text, struct cofi_packet *packet,
                      struct cofi_error *error)
{
    struct scan s = {text, text + strspn(text, " \t"), text, text, error};
    memset(packet, 0, sizeof *packet);
    s.name = s.p;
    int kind = take_name(&s, gen);
    COFI_TRY(kind);
    packet->kind = (uint8_t)kind;
    s.payload = s.p;
    COFI_TRY(parse_payload(&s, &cofi__packet_rows[kind], packet));
    COFI_TRY(parse_suffix(&s, packet));
    if (!ends(&s, gen))
        return fail(&s, COFI_ERR_SYNTAX, "unexpected text after the packet");
    return check_values(&s, gen, packet);
}
