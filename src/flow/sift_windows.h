/* SPDX-License-Identifier: MIT
 * The sieve's work by windows of 64 bytes, made of what sift_lanes.h lists: included once by each who has that. */

enum { READS = WINDOW + 8, WINDOWS = 8 };

/* The bytes of a window. */
struct lanes {
    vec v[VECS];
};

/* 64 bytes of trace, a bit each. */
struct window {
    uint64_t tnt, tip, cyc; /* where these begin */
    uint64_t two;           /* of timing those that have two bytes */
    uint64_t partial;       /* TNTs of fewer than 6 outcomes */
    uint64_t far;           /* TIPs that tell whether their target is the kernel's */
    uint64_t keep;          /* bytes of TNTs and TIPs */
};

/* The packet that reaches into the next window: by so many bytes, which are timing or not. */
struct carry {
    unsigned at;
    uint64_t timing;
};

/* ---- where packets begin ---- */

WIDE struct lanes lanes_at(const uint8_t *p)
{
    struct lanes l;
    for (unsigned i = 0; i < VECS; i++)
        memcpy(&l.v[i], p + i * sizeof(vec), sizeof(vec));
    return l;
}

WIDE struct lanes all_kinds(struct lanes l)
{
    for (unsigned i = 0; i < VECS; i++)
        l.v[i] = kinds_of(l.v[i]);
    return l;
}

/* A mask of all bytes, made of those of the registers. */
#define WHOLE(name, of) \
    WIDE uint64_t name(struct lanes l, unsigned c) \
    { \
        uint64_t mask = 0; \
        for (unsigned i = 0; i < VECS; i++) \
            mask |= (uint64_t)of(l.v[i], c) << i * sizeof(vec); \
        return mask; \
    }
WHOLE(that_are, is)
WHOLE(that_have, with)
WHOLE(from_on, at_least)

/* From each byte on, were it a packet's first one, whose are the next ones up to the end of its 16?
 * `next` is where the one behind a packet begins, then behind two, four and eight; what is outside of
 * the 16 has bit 7, which PSHUFB leaves out. Then only four steps have to wait for each other. */
struct ways {
    _Alignas(64) uint8_t lows[WINDOW], highs[WINDOW], ends[WINDOW];
};
enum { IN = 0x70 };

WIDE void find_ways(struct ways *w, vec kind, unsigned at)
{
    const vec lane = each(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    vec low = each(_mm_set_epi64x(0, (long long)0x8040201008040201)),
        high = each(_mm_set_epi64x((long long)0x8040201008040201, 0));
    vec next = OP(add_epi8)(OP(add_epi8)(lane, OP(set1_epi8)(IN)), OF(and)(kind, OP(set1_epi8)(SIZE)));
    for (unsigned i = 0; i < 4; i++) {
        low = OF(or)(low, OP(shuffle_epi8)(low, next));
        high = OF(or)(high, OP(shuffle_epi8)(high, next));
        next = OP(max_epu8)(next, OP(shuffle_epi8)(next, next));
    }
    memcpy(w->lows + at, &low, sizeof low);
    memcpy(w->highs + at, &high, sizeof high);
    memcpy(w->ends + at, &next, sizeof next);
}

/* *at: where the first packet begins; then where the first one does that is behind the window. */
WIDE uint64_t starts_of(struct lanes kind, unsigned *at)
{
    struct ways w;
    uint64_t starts = 0;
    for (unsigned i = 0; i < VECS; i++)
        find_ways(&w, kind.v[i], i * sizeof(vec));
    for (unsigned group = 0; group < WINDOW; group += GROUP) {
        unsigned first = group + *at;
        starts |= (uint64_t)(w.lows[first] | w.highs[first] << 8) << group;
        *at = w.ends[first] - (IN + GROUP);
    }
    return starts;
}

/* False where there are other packets, or long CYCs. */
WIDE bool look(struct window *x, const uint8_t *bytes, struct carry *carry)
{
    struct lanes l = lanes_at(bytes), kind = all_kinds(l);
    uint64_t starts = starts_of(kind, &carry->at);
    x->tip = that_have(kind, TIP) & starts;
    x->cyc = that_have(kind, CYC) & starts;
    x->two = that_have(kind, TWO) & starts;
    x->far = from_on(kind, TIP | 7) & x->tip;
    x->tnt = starts & ~(x->tip | x->cyc | x->two);
    x->partial = x->tnt & ~that_have(l, 0x80);
    x->keep = ~(x->cyc | x->two | x->two << 1 | carry->timing);
    carry->timing = x->two >> 63;
    return !((that_have(kind, 0x80) & starts) | (x->two & x->cyc & that_have(lanes_at(bytes + 1), 1)));
}

/* ---- timing ---- */

/* The cycles of some CYCs of one or two bytes, in parts [SDM Cycle Count Packet (CYC) Packet]. */
WIDE vec cycles_of(const struct window *x, const uint8_t *bytes, uint64_t which)
{
    struct lanes l = lanes_at(bytes), behind = lanes_at(bytes + 1);
    uint64_t twice = which & x->two;
    vec sum = OF(setzero)(), zero = OF(setzero)();
    for (unsigned i = 0; i < VECS; i++) {
        unsigned at = i * sizeof(vec);
        vec low = OF(and)(OP(srli_epi16)(l.v[i], 3), OP(set1_epi8)(0x1f)),
            high = OF(and)(OP(srli_epi16)(behind.v[i], 1), OP(set1_epi8)(0x7f));
        vec lows = OP(sad_epu8)(only(low, which >> at), zero), highs = OP(sad_epu8)(only(high, twice >> at), zero);
        sum = OP(add_epi64)(sum, OP(add_epi64)(lows, OP(slli_epi64)(highs, 5)));
    }
    return sum;
}

WIDE uint64_t total(vec sums)
{
    uint64_t part[sizeof(vec) / 8], all = 0;
    memcpy(part, &sums, sizeof part);
    for (unsigned i = 0; i < sizeof part / sizeof *part; i++)
        all += part[i];
    return all;
}

/* The window's MTCs, and the cycles before each. Returns those behind the last one. */
WIDE vec tell(struct cofi__clock *clock, const struct window *x, const uint8_t *bytes, vec cycles)
{
    uint64_t left = x->cyc;
    for (uint64_t mtc = x->two & ~x->cyc; mtc; mtc = _blsr_u64(mtc)) {
        uint64_t before = _blsmsk_u64(mtc);
        clock->cycles += total(OP(add_epi64)(cycles, cycles_of(x, bytes, left & before)));
        cofi__clock_mtc(clock, bytes[_tzcnt_u64(mtc) + 1]);
        cycles = OF(setzero)();
        left &= ~before;
    }
    return OP(add_epi64)(cycles, cycles_of(x, bytes, left));
}

/* ---- outcomes and targets ---- */

/* May one of the targets be in user mode, and the one before in the kernel? Addresses of 6 and 8 bytes
 * tell [SDM IP Compression]. */
WIDE bool leaves_kernel(const struct window *x, const uint8_t *bytes, uint64_t *last_ip)
{
    struct lanes l = lanes_at(bytes);
    uint64_t of_6 = x->far & that_are(l, PT_TIP(3)), of_8 = x->far & that_are(l, PT_TIP(6)), all = of_6 | of_8;
    uint64_t kernel = (of_6 & that_have(lanes_at(bytes + 6), 0x80)) | (of_8 & that_have(lanes_at(bytes + 8), 0x80));
    if (kernel != all && (kernel || *last_ip >> 63))
        return true;
    if (all)
        *last_ip = kernel ? ~UINT64_C(0) : 0;
    return false;
}

/* Outcomes of up to 8 TNTs, put to those that wait; six of them are a TNT. */
WIDE uint8_t *merge_8(struct sift *w, uint8_t *q, const uint8_t *tnts, unsigned count)
{
    uint64_t x = __builtin_bswap64(le64(tnts)) & ~UINT64_C(0) << (64 - 8 * count);
    uint64_t below = x >> 1 & UINT64_C(0x7f7f7f7f7f7f7f7f); /* all bits below each byte's highest */
    below |= below >> 1 & UINT64_C(0x3f3f3f3f3f3f3f3f);
    below |= below >> 2 & UINT64_C(0x1f1f1f1f1f1f1f1f);
    below |= below >> 4 & UINT64_C(0x0707070707070707);
    below &= UINT64_C(0xfefefefefefefefe);
    unsigned bits = (unsigned)_mm_popcnt_u64(below), n = w->n + bits, full = n * 43 / 256; /* n / 6 */
    w->acc = w->acc << bits | _pext_u64(x, below);
    w->n = n - 6 * full;
    uint64_t out = _pdep_u64(w->acc >> w->n << (48 - 6 * full), UINT64_C(0x7e7e7e7e7e7e7e7e)) |
                   UINT64_C(0x8080808080808080);
    put_le(q, __builtin_bswap64(out), 8);
    return q + full;
}

WIDE uint8_t *merge(struct sift *w, uint8_t *q, const uint8_t *tnts, unsigned count)
{
    for (; count > 8; count -= 8, tnts += 8)
        q = merge_8(w, q, tnts, 8);
    return count ? merge_8(w, q, tnts, count) : q;
}

/* The first set bit from one on, at most n. */
WIDE unsigned next_bit(uint64_t bits, unsigned from, unsigned n)
{
    bits &= ~UINT64_C(0) << from;
    return bits ? (unsigned)_tzcnt_u64(bits) : n;
}

/* Bytes kept, where TNTs were cut: those between a cut and the next target have to be put together anew. */
WIDE uint8_t *put_cut(struct sift *w, uint8_t *q, const uint8_t *kept, uint64_t tips, uint64_t cuts, unsigned n)
{
    for (unsigned at = 0; at < n;) {
        if (!w->n) {
            unsigned cut = next_bit(cuts, at, n);
            put_behind(q, kept, at);
            q += cut - at;
            at = cut;
            if (at == n)
                break;
        }
        unsigned tip = next_bit(tips, at, n);
        q = merge(w, q, kept + at, tip - at);
        at = tip;
        if (at < n && w->n) {
            *q++ = short_tnt(w->acc, w->n, true);
            w->n = 0;
        }
    }
    return q;
}

WIDE uint8_t *put(struct sift *w, uint8_t *q, const struct window *x, const uint8_t *bytes)
{
    unsigned n = (unsigned)_mm_popcnt_u64(x->keep);
    uint64_t tips = _pext_u64(x->tip, x->keep), cuts = _pext_u64(x->partial, x->keep) & ~(tips >> 1);
    if (w->n || cuts) {
        _Alignas(64) uint8_t kept[2 * WINDOW];
        put_kept(kept, x->keep, bytes);
        put_le(kept + WINDOW, 0, 8);
        return put_cut(w, q, kept, tips, cuts, n);
    }
    put_kept(q, x->keep, bytes);
    return q + n;
}

WIDE const uint8_t *last_of(const uint8_t *bytes, uint64_t bits) { return bytes + 63 - _lzcnt_u64(bits); }

WIDE void note_last(struct sift *w, const struct window *x, const uint8_t *bytes)
{
    if (x->tnt)
        w->tnt = last_of(bytes, x->tnt);
    if (!x->tip)
        return;
    const uint8_t *last = last_of(bytes, x->tip);
    uint64_t before = x->tip & ~(UINT64_C(1) << (last - bytes));
    w->tip_before = before ? last_of(bytes, before) : w->tip;
    w->tip = last;
}

/* What is left of a TIP that begins in the last window, behind it. */
WIDE uint8_t *put_rest(uint8_t *q, const uint8_t *p, const struct carry *carry)
{
    memcpy(q, p, 8);
    return carry->timing ? q : q + carry->at;
}

/* The next windows, until there is a packet that cannot be taken here: all of them first, for that waits
 * for no branch. */
WIDE unsigned look_ahead(struct window *x, const uint8_t *p, const uint8_t *stop, const uint8_t *end, uint64_t *last_ip,
                         struct carry *carry)
{
    unsigned n = 0;
    for (; n < WINDOWS && p + carry->at <= stop && end - p >= READS; n++, p += WINDOW) {
        struct carry next = *carry;
        if (!look(&x[n], p, &next) || (x[n].far && leaves_kernel(&x[n], p, last_ip)))
            break;
        *carry = next;
    }
    return n;
}

WIDE void sift_windows(struct sift *w, struct cofi__clock *clock, const uint8_t *stop, const uint8_t *end)
{
    struct window x[WINDOWS];
    while (w->p <= stop) {
        struct carry carry = {0};
        unsigned n = look_ahead(x, w->p, stop, end, &w->last_ip, &carry);
        if (!n)
            break;
        vec cycles = OF(setzero)();
        for (unsigned i = 0; i < n; i++) {
            w->q = put(w, w->q, &x[i], w->p + i * WINDOW);
            note_last(w, &x[i], w->p + i * WINDOW);
        }
        for (unsigned i = 0; i < n; i++)
            cycles = tell(clock, &x[i], w->p + i * WINDOW, cycles);
        clock->cycles += total(cycles);
        w->p += n * WINDOW;
        w->q = put_rest(w->q, w->p, &carry);
        w->p += carry.at;
    }
}
