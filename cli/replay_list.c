/* SPDX-License-Identifier: MIT
 * Packets -> what of them is compared. See replay.h. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "replay.h"

enum { MODE_UNKNOWN = 0xff };

void replay_list_start(struct replay_list *list)
{
    list->n = 0;
    memset(list->counts, 0, sizeof list->counts);
    list->codec = (struct cofi_packet_context){.gen = COFI_PT};
    list->last_ip = 0;
    list->mode = MODE_UNKNOWN;
    list->in_psb = list->after_ovf = list->mode_fresh = false;
}

/* What of REPLAY_* a packet is; REPLAY_COUNTED: none. */
static unsigned counted_as(uint8_t kind)
{
    return kind == COFI_PT_TNT   ? REPLAY_OUTCOMES
           : kind == COFI_PT_TIP ? REPLAY_TIPS
           : kind == COFI_PT_OVF ? REPLAY_OVERFLOWS
           : kind == COFI_PT_PSB ? REPLAY_PSBS
                                 : REPLAY_COUNTED;
}

static int push(struct replay_list *list, struct replay_item item)
{
    unsigned what = counted_as(item.kind);
    if (!array_grow(&list->items, list->n, &list->room, sizeof *list->items))
        return COFI_ERR_NOMEM;
    memcpy(item.nth, list->counts, sizeof item.nth);
    if (what < REPLAY_COUNTED)
        list->counts[what]++;
    list->items[list->n++] = item;
    return 0;
}

static int push_bits(struct replay_list *list, const struct cofi_packet *packet,
                     struct replay_item item)
{
    item.kind = COFI_PT_TNT;
    for (unsigned i = packet->tnt.count; i-- > 0;) {
        item.value = packet->tnt.bits >> i & 1;
        int status = push(list, item);
        if (status < 0)
            return status;
    }
    return 0;
}

/* MODE.Exec may always be sent [PTREF 5.3]: what counts is the mode at the address. */
static int push_ip(struct replay_list *list, const struct cofi_packet *packet, struct replay_item item)
{
    bool has_mode = item.kind == COFI_PT_TIP || item.kind == COFI_PT_TIP_PGE ||
                    (item.kind == COFI_PT_FUP && list->mode_fresh);
    item.more = cofi_ip_expand(packet, list->last_ip, &list->last_ip);
    item.value = item.more ? list->last_ip : 0;
    if (has_mode) {
        item.mode = list->mode;
        list->mode_fresh = false;
    }
    return push(list, item);
}

static int take_mode(struct replay_list *list, const struct cofi_packet *packet)
{
    list->mode = (uint8_t)(packet->mode_exec.csl | packet->mode_exec.csd << 1 | packet->mode_exec.iflag << 2);
    list->mode_fresh = true;
    return 0;
}

/* The members that the comparison needs; false: the packet is left out. */
static bool describe(struct replay_list *list, const struct cofi_packet *p, struct replay_item *item)
{
    switch ((enum cofi_packet_kind)p->kind) {
    case COFI_PT_PAD:
    case COFI_PT_TSC:
    case COFI_PT_TMA:
    case COFI_PT_MTC:
    case COFI_PT_CYC:
    case COFI_PT_CBR:
    case COFI_PT_MNT: return false;
    case COFI_PT_PSB: list->last_ip = 0; list->in_psb = true; break;
    case COFI_PT_PSBEND: list->in_psb = false; break;
    case COFI_PT_OVF: list->last_ip = 0; list->in_psb = false; break;
    case COFI_PT_PIP: item->value = p->pip.cr3; item->more = p->pip.nr; return !list->in_psb;
    case COFI_PT_MODE_TSX: item->value = p->mode_tsx.intx | p->mode_tsx.abort << 1; return !list->in_psb;
    case COFI_PT_VMCS: item->value = p->vmcs.base; return !list->in_psb;
    case COFI_PT_PTW: item->value = p->ptw.payload; item->more = p->ptw.wide | p->ptw.ip << 1; break;
    case COFI_PT_EXSTOP: item->more = p->exstop.ip; break;
    case COFI_PT_MWAIT: item->value = p->mwait.hints | (uint64_t)p->mwait.ext << 32; break;
    case COFI_PT_PWRE: item->value = p->pwre.state | p->pwre.sub << 4; item->more = p->pwre.hw; break;
    case COFI_PT_PWRX: item->value = p->pwrx.last | p->pwrx.deepest << 4 | p->pwrx.wake << 8; break;
    case COFI_PT_CFE: item->value = p->cfe.type | p->cfe.vector << 8; item->more = p->cfe.ip; break;
    case COFI_PT_EVD: item->value = p->evd.payload; item->more = p->evd.type; break;
    case COFI_PT_BBP: item->value = p->bbp.type; item->more = p->bbp.sz; break;
    case COFI_PT_BIP: item->value = p->bip.payload; item->more = p->bip.id; break;
    case COFI_PT_BEP: item->more = p->bep.ip; break;
    case COFI_PT_TRIG:
        item->value = p->trig.trbv | (uint64_t)p->trig.icnt << 8;
        item->more = p->trig.ip | p->trig.icntv << 1 | p->trig.mult << 2;
        break;
    case COFI_PT_TRACESTOP:
    case COFI_PT_TNT:
    case COFI_PT_TNT64:
    case COFI_PT_TIP:
    case COFI_PT_TIP_PGE:
    case COFI_PT_TIP_PGD:
    case COFI_PT_FUP:
    case COFI_PT_MODE_EXEC:
    case COFI_PKT_NONE:
    case COFI_RTIT_TNT:
    case COFI_RTIT_PGE:
    case COFI_RTIT_PGD:
    case COFI_RTIT_BUFFOVF:
    case COFI_RTIT_PCC:
    case COFI_RTIT_TIP:
    case COFI_RTIT_FAR:
    case COFI_RTIT_PSB:
    case COFI_RTIT_TRACESTOP:
    case COFI_RTIT_PIP:
    case COFI_RTIT_MTC:
    case COFI_RTIT_STS:
    case COFI_PKT_KINDS: break;
    }
    return true;
}

int replay_add(struct replay_list *list, const struct cofi_packet *packet, uint64_t offset,
               const char *rule, const char *tag)
{
    struct replay_item item = {.offset = offset, .kind = packet->kind, .rule = rule, .tag = tag};
    if (packet->kind == COFI_PT_MODE_EXEC)
        return take_mode(list, packet);
    if (packet->kind == COFI_PT_TNT || packet->kind == COFI_PT_TNT64)
        return push_bits(list, packet, item);
    if (packet->kind == COFI_PT_TIP || packet->kind == COFI_PT_TIP_PGE || packet->kind == COFI_PT_TIP_PGD ||
        packet->kind == COFI_PT_FUP) {
        list->after_ovf &= packet->kind == COFI_PT_TIP_PGD; /* [ERR APL11] */
        return push_ip(list, packet, item);
    }
    bool state = packet->kind == COFI_PT_PIP || packet->kind == COFI_PT_VMCS || packet->kind == COFI_PT_MODE_TSX;
    if (!describe(list, packet, &item) || (state && list->after_ovf))
        return 0;
    list->after_ovf = packet->kind == COFI_PT_OVF;
    return push(list, item);
}

size_t replay_find(const struct replay_list *list, uint64_t offset)
{
    size_t low = 0, high = list->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void replay_drop(struct replay_list *list, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = n; i < list->n; i++)
        list->items[i - n] = list->items[i];
    list->n -= n;
}

void replay_cut(struct replay_list *list, size_t n)
{
    if (n >= list->n)
        return;
    memcpy(list->counts, list->items[n].nth, sizeof list->counts);
    list->n = n;
}

uint64_t replay_counted(const struct replay_list *list, size_t index, unsigned what)
{
    return index < list->n ? list->items[index].nth[what] : list->counts[what];
}

const struct replay_item *replay_nth(const struct replay_list *list, unsigned what, uint64_t nth)
{
    size_t low = 0, high = list->n;
    while (low < high) { /* the first that stands behind it */
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].nth[what] <= nth)
            low = middle + 1;
        else
            high = middle;
    }
    const struct replay_item *item = low ? &list->items[low - 1] : NULL;
    return item && item->nth[what] == nth && counted_as(item->kind) == what ? item : NULL;
}

/* ---- the stream's own ---- */

void replay_source_start(struct replay_source *source, const struct session_stream *stream, uint64_t errata)
{
    *source = (struct replay_source){.stream = *stream, .errata = errata, .odd_cyc = UINT64_MAX};
    replay_list_start(&source->list);
    cofi_stream_init(&source->reader, COFI_PT, 0, false);
    source->reader.context.lenient = true; /* as the flow reads them; a TMA's byte too many [ERR SKZ84] is a PAD so */
    session_breaks(stream, &source->reader.breaks, &source->reader.breaks_n);
}

void replay_source_fini(struct replay_source *source) { free(source->list.items); }

/* [ERR SKD007]: an OVF has overwritten the tail of a CYC: its first byte and the OVF read as two CYCs. */
static int add_hidden_ovf(struct replay_source *source, const struct cofi_stream_item *item)
{
    bool hidden = source->odd_cyc != UINT64_MAX && item->offset == source->odd_cyc + 2 && item->bytes[0] == 0xf3;
    uint64_t offset = source->odd_cyc;
    source->odd_cyc = UINT64_MAX;
    if (source->errata & COFI_ERRATUM_SKD007 && item->packet.kind == COFI_PT_CYC && item->size == 2 &&
        (item->bytes[0] & 7) == 7 && item->bytes[1] == 2)
        source->odd_cyc = item->offset;
    return hidden ? replay_add(&source->list, &(struct cofi_packet){.kind = COFI_PT_OVF}, offset, NULL, NULL) : 0;
}

/* The next packet. 1, 0 at the end, or an error. */
static int read_one(struct replay_source *source)
{
    struct cofi_stream_item item;
    while (!cofi_stream_next(&source->reader, &item)) {
        size_t n = 0;
        if (source->finished)
            return 0;
        const uint8_t *bytes = session_bytes(&source->stream, source->at, &n);
        session_unneeded(&source->stream, source->at);
        source->at += n;
        source->finished = n == 0;
        if (n)
            cofi_stream_feed(&source->reader, bytes, n);
        else
            cofi_stream_finish(&source->reader);
    }
    if (item.status < 0)
        return 1;
    int status = add_hidden_ovf(source, &item);
    if (status == 0)
        status = replay_add(&source->list, &item.packet, item.offset, NULL, NULL);
    return status < 0 ? status : 1;
}

int replay_source_until(struct replay_source *source, uint64_t offset)
{
    int status = 1;
    while (status > 0 && (source->list.n == 0 || source->list.items[source->list.n - 1].offset <= offset))
        status = read_one(source);
    return status < 0 ? status : 0;
}

int replay_source_outcome(struct replay_source *source, uint64_t nth)
{
    int status = 1;
    while (status > 0 && source->list.counts[REPLAY_OUTCOMES] <= nth)
        status = read_one(source);
    return status < 0 ? status : 0;
}
