/* SPDX-License-Identifier: MIT
 * A plain RTIT flow decoder, written from the document alone. */
#include "reference/rtit_flow.h"

enum { MOST_BITS = 4096, MOST_STEPS = 1000000 };

struct walker {
    struct plain_flow *flow;
    bool on;              /* PacketEn, as far as the packets tell */
    bool far_due;         /* FUP.FAR came, its TIP is next */
    bool was_pgd, was_ovf;
    uint64_t ip, last_next, last_call;
    uint8_t bits[MOST_BITS];
    unsigned bit, bits_n;
};

static bool fail(struct walker *w, const char *error)
{
    if (!w->flow->error)
        w->flow->error = error;
    return false;
}

static bool ran(struct walker *w, uint64_t ip)
{
    if (w->flow->n == w->flow->room)
        return fail(w, "too many instructions");
    w->flow->ran[w->flow->n++] = ip;
    return true;
}

static bool outside(const struct walker *w)
{
    const struct plain_flow *f = w->flow;
    return f->ranged && (w->ip < f->base || w->ip >= f->limit) && (w->ip < f->base2 || w->ip >= f->limit2);
}

static bool take_bit(struct walker *w, bool *taken)
{
    if (w->bit == w->bits_n)
        return fail(w, "an outcome is missing");
    *taken = w->bits[w->bit++];
    if (w->bit == w->bits_n)
        w->bit = w->bits_n = 0;
    return true;
}

/* Where a step ended. */
enum stop { WENT_ON, AT_INDIRECT, AT_FAR, FAILED };

/* Execute the instruction at ip, unless it needs a TIP or is a far transfer. */
static enum stop step(struct walker *w)
{
    const struct plain_insn *i = w->flow->find(w->flow->opaque, w->ip);
    bool taken = true;
    if (!i)
        return fail(w, "no code"), FAILED;
    if (i->kind == P_FAR)
        return AT_FAR;
    if (i->kind == P_JMP_IND || i->kind == P_CALL_IND || (i->kind == P_RET && w->bits_n == 0))
        return AT_INDIRECT;
    if (!ran(w, w->ip) || (i->kind == P_JCC && !take_bit(w, &taken)))
        return FAILED;
    w->last_next = i->next;
    if (i->kind == P_RET) { /* compressed: a taken bit [RTIT 4.2.3.2] */
        if (!take_bit(w, &taken) || !taken)
            return fail(w, "a compressed return is not taken"), FAILED;
        w->ip = w->last_call;
    } else if (i->kind == P_JMP || i->kind == P_CALL || (i->kind == P_JCC && taken)) {
        w->ip = i->target;
    } else {
        w->ip = i->next;
    }
    if (i->kind == P_CALL)
        w->last_call = i->next;
    return WENT_ON;
}

/* Up to the address of a FUP.FAR or FUP.PGD: an instruction not executed, or the end of one that was
 * [RTIT Table 1]. */
static bool walk_to(struct walker *w, uint64_t lip)
{
    for (unsigned n = 0; n < MOST_STEPS; n++) {
        if (w->bits_n == 0 && (w->ip == lip || (w->last_next == lip && outside(w))))
            return true;
        const struct plain_insn *i = w->flow->find(w->flow->opaque, w->ip);
        switch (step(w)) {
        case WENT_ON:
            break;
        case AT_FAR:
            if (w->bits_n == 0 && lip > i->ip && lip <= i->next) /* [ERR E1]: or inside of it */
                return ran(w, w->ip);
            return fail(w, "a far transfer on the way to a FUP");
        case AT_INDIRECT:
            return fail(w, "an indirect branch on the way to a FUP");
        case FAILED:
            return false;
        }
    }
    return fail(w, "a FUP's address is not reached");
}

/* Up to and with the next indirect branch. */
static bool walk_indirect(struct walker *w, uint64_t target)
{
    for (unsigned n = 0; n < MOST_STEPS; n++) {
        enum stop stop = step(w);
        if (stop == FAILED)
            return false;
        if (stop == AT_FAR)
            return fail(w, "a far transfer where a TIP is due");
        if (stop == WENT_ON)
            continue;
        const struct plain_insn *i = w->flow->find(w->flow->opaque, w->ip);
        if (w->bits_n > 0)
            return fail(w, "outcomes are left at an indirect branch");
        if (i->kind == P_CALL_IND)
            w->last_call = i->next;
        w->last_next = i->next;
        if (!ran(w, w->ip))
            return false;
        w->ip = target;
        return true;
    }
    return fail(w, "no indirect branch for a TIP");
}

/* What the outcomes still tell before an overflow. */
static bool spend_bits(struct walker *w)
{
    while (w->bits_n > 0)
        if (step(w) != WENT_ON)
            return fail(w, "outcomes before an overflow do not fit");
    return true;
}

static bool tip(struct walker *w, const struct plain_packet *p)
{
    if (w->was_pgd) /* out of the region by a far transfer [RTIT 2.2.6] */
        return true;
    if (w->was_ovf && p->lip == w->ip) { /* [ERR E5] */
        w->flow->like_e5++;
        if (w->flow->e5)
            return true;
    }
    if (!w->on)
        return fail(w, "TIP while PacketEn is 0");
    if (w->far_due) {
        w->far_due = false;
        w->ip = p->lip;
        w->last_next = UINT64_MAX;
        return true;
    }
    return walk_indirect(w, p->lip);
}

static bool overflow(struct walker *w, const struct plain_packet *p)
{
    bool ok = !w->on || spend_bits(w);
    w->bit = w->bits_n = 0;
    w->far_due = false;
    w->ip = p->lip;
    w->last_next = UINT64_MAX;
    w->on = !outside(w);
    return ok && ran(w, UINT64_MAX);
}

static bool fup(struct walker *w, const struct plain_packet *p)
{
    if (!w->on)
        return p->kind == PLAIN_PGD ? true : fail(w, "FUP.FAR while PacketEn is 0"); /* [ERR E2] */
    if (!walk_to(w, p->lip))
        return false;
    w->far_due = p->kind == PLAIN_FAR;
    w->on = p->kind == PLAIN_FAR;
    return true;
}

static bool act(struct walker *w, const struct plain_packet *p)
{
    switch (p->kind) {
    case PLAIN_TNT:
        for (unsigned i = 0; i < p->outcomes && w->on; i++) {
            if (w->bits_n == MOST_BITS)
                return fail(w, "too many outcomes");
            w->bits[w->bits_n++] = p->taken[i];
        }
        return true;
    case PLAIN_PGE:
        if (w->on && !spend_bits(w)) /* it was turned off without FUP.PGD [RTIT 4.2.8] */
            return false;
        w->on = true;
        w->ip = p->lip;
        w->last_next = UINT64_MAX;
        w->bit = w->bits_n = 0;
        return true;
    case PLAIN_PGD:
    case PLAIN_FAR:
        return fup(w, p);
    case PLAIN_TIP:
        return tip(w, p);
    case PLAIN_OVF:
        return overflow(w, p);
    case PLAIN_PCC:
    case PLAIN_PSB:
    case PLAIN_STOP:
    case PLAIN_PIP:
    case PLAIN_MTC:
    case PLAIN_STS:
        return true;
    }
    return false;
}

static bool between(enum plain_kind kind) /* does not stand between packets that belong together */
{
    return kind == PLAIN_PSB || kind == PLAIN_MTC || kind == PLAIN_STS;
}

bool plain_flow_decode(struct plain_flow *flow, const uint8_t *bytes, size_t n)
{
    static struct walker w;
    struct plain_state state = {.cycle_acc = flow->cycle_acc};
    struct plain_packet p;
    w = (struct walker){.flow = flow, .last_next = UINT64_MAX};
    flow->error = NULL;
    flow->n = 0;
    for (size_t at = 0; at < n; at += p.size) {
        flow->error_offset = at;
        if (plain_read(&state, bytes + at, n - at, &p) <= 0)
            return fail(&w, "no packet");
        if (!act(&w, &p))
            return fail(&w, "?");
        if (!between(p.kind)) {
            w.was_pgd = p.kind == PLAIN_PGD;
            w.was_ovf = p.kind == PLAIN_OVF;
        }
    }
    return !w.on || spend_bits(&w); /* what is known of the end */
}
