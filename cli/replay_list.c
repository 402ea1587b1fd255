/* SPDX-License-Identifier: MIT
 * Packets -> what of them is compared. See replay.h. */
#include <stdlib.h>

#include "replay.h"

enum { MODE_UNKNOWN = 0xff };

void replay_list_start(struct replay_list *list)
{
    list->n = 0;
    list->codec = (struct cofi_packet_context){.gen = COFI_PT};
    list->last_ip = 0;
    list->mode = MODE_UNKNOWN;
    list->in_psb = list->mode_fresh = false;
}

static int push(struct replay_list *list, struct replay_item item)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 4096;
        struct replay_item *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return COFI_ERR_NOMEM;
        list->items = items;
        list->room = room;
    }
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
    case COFI_PT_OVF: list->in_psb = false; break;
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
        packet->kind == COFI_PT_FUP)
        return push_ip(list, packet, item);
    return describe(list, packet, &item) ? push(list, item) : 0;
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
