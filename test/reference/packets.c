/* SPDX-License-Identifier: MIT
 * Bytes -> one packet, read byte by byte down the manuals' figures, without tables. */
#include "packets.h"

#include <stdbool.h>
#include <string.h>

#include <cofi/error.h>

struct in {
    const uint8_t *bytes;
    size_t n, i;
    int error; /* sticky: TRUNCATED or BAD_PACKET, whichever came first */
};

static unsigned byte(struct in *in)
{
    if (in->error)
        return 0;
    if (in->i == in->n) {
        in->error = COFI_ERR_TRUNCATED;
        return 0;
    }
    return in->bytes[in->i++];
}

static void bad_if(struct in *in, bool wrong)
{
    if (!in->error && wrong)
        in->error = COFI_ERR_BAD_PACKET;
}

static uint64_t number(struct in *in, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v += (uint64_t)byte(in) << (8 * i);
    return v;
}

static void zeros(struct in *in, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        bad_if(in, byte(in) != 0);
}

/* The bits below the highest one that is set. */
static void below_stop_bit(struct in *in, uint64_t v, struct cofi_packet *p)
{
    unsigned top = 64;
    while (top > 0 && !(v & (UINT64_C(1) << (top - 1))))
        top--;
    bad_if(in, top < 2);
    if (in->error)
        return;
    p->tnt.count = (uint8_t)(top - 1);
    for (unsigned i = 0; i + 1 < top; i++)
        p->tnt.bits += v & (UINT64_C(1) << i);
}

/* ---- PT ---- */

static void pt_ip(struct in *in, unsigned kind, unsigned first, struct cofi_packet *p)
{
    p->kind = (uint8_t)kind;
    p->ip.code = (uint8_t)(first / 32);
    switch (p->ip.code) {
    case 0: break;
    case 1: p->ip.payload = number(in, 2); break;
    case 2: p->ip.payload = number(in, 4); break;
    case 3:
    case 4: p->ip.payload = number(in, 6); break;
    case 6: p->ip.payload = number(in, 8); break;
    default: bad_if(in, true);
    }
}

static void pt_cyc(struct in *in, unsigned first, struct cofi_packet *p)
{
    unsigned got = first, have = 5;
    p->kind = COFI_PT_CYC;
    p->cyc.count = first / 8;
    p->cyc.bytes = 1;
    bool more = first & 4;
    while (more && !in->error) {
        bad_if(in, p->cyc.bytes == 10);
        got = byte(in);
        more = got & 1;
        for (unsigned i = 1; i < 8; i++, have++)
            if (got & (1u << i)) {
                bad_if(in, have > 63);
                if (have <= 63)
                    p->cyc.count |= UINT64_C(1) << have;
            }
        p->cyc.bytes++;
    }
}

static void pt_mode(struct in *in, struct cofi_packet *p)
{
    unsigned b = byte(in);
    if (b >> 5 == 0) {
        p->kind = COFI_PT_MODE_EXEC;
        bad_if(in, b & 0x18);
        p->mode_exec.csl = b & 1;
        p->mode_exec.csd = b >> 1 & 1;
        p->mode_exec.iflag = b >> 2 & 1;
    } else if (b >> 5 == 1) {
        p->kind = COFI_PT_MODE_TSX;
        bad_if(in, b & 0x1c);
        p->mode_tsx.intx = b & 1;
        p->mode_tsx.abort = b >> 1 & 1;
    } else {
        bad_if(in, true);
    }
    bad_if(in, (b & 3) == 3);
}

static void pt_trig(struct in *in, struct cofi_packet *p)
{
    unsigned b = byte(in);
    p->kind = COFI_PT_TRIG;
    bad_if(in, b & 0x1f);
    p->trig.ip = b >> 7;
    p->trig.icntv = b >> 6 & 1;
    p->trig.mult = b >> 5 & 1;
    p->trig.trbv = (uint8_t)byte(in);
    if (p->trig.icntv)
        p->trig.icnt = (uint16_t)number(in, 2);
}

static void pt_extended(struct in *in, struct cofi_packet *p)
{
    unsigned b = byte(in), v;
    if (in->error)
        return;
    if ((b & 0x1f) == 0x12) {
        p->kind = COFI_PT_PTW;
        bad_if(in, b & 0x40);
        p->ptw.ip = b >> 7;
        p->ptw.wide = b >> 5 & 1;
        p->ptw.payload = number(in, p->ptw.wide ? 8 : 4);
        return;
    }
    switch (b) {
    case 0x03: p->kind = COFI_PT_CBR; p->cbr.ratio = (uint8_t)byte(in); zeros(in, 1); return;
    case 0x13:
        p->kind = COFI_PT_CFE;
        v = byte(in);
        bad_if(in, v & 0x60);
        p->cfe.ip = v >> 7;
        p->cfe.type = v & 0x1f;
        p->cfe.vector = (uint8_t)byte(in);
        return;
    case 0x22:
        p->kind = COFI_PT_PWRE;
        v = byte(in);
        bad_if(in, v & 0x7f);
        p->pwre.hw = v >> 7;
        v = byte(in);
        p->pwre.state = (uint8_t)(v >> 4);
        p->pwre.sub = v & 15;
        return;
    case 0x23: p->kind = COFI_PT_PSBEND; return;
    case 0x33: p->kind = COFI_PT_BEP; return;
    case 0xb3: p->kind = COFI_PT_BEP; p->bep.ip = 1; return;
    case 0x43:
        p->kind = COFI_PT_PIP;
        p->pip.cr3 = number(in, 6);
        p->pip.nr = p->pip.cr3 & 1;
        p->pip.cr3 = p->pip.cr3 / 2 * 32;
        return;
    case 0x53:
        p->kind = COFI_PT_EVD;
        v = byte(in);
        bad_if(in, v > 0x3f);
        p->evd.type = (uint8_t)v;
        p->evd.payload = number(in, 8);
        return;
    case 0x62: p->kind = COFI_PT_EXSTOP; return;
    case 0xe2: p->kind = COFI_PT_EXSTOP; p->exstop.ip = 1; return;
    case 0x63:
        p->kind = COFI_PT_BBP;
        v = byte(in);
        bad_if(in, v & 0x60);
        p->bbp.sz = v >> 7;
        p->bbp.type = v & 0x1f;
        return;
    case 0x73:
        p->kind = COFI_PT_TMA;
        p->tma.ctc = (uint16_t)number(in, 2);
        zeros(in, 1);
        p->tma.fc = (uint16_t)byte(in);
        v = byte(in);
        bad_if(in, v > 1);
        p->tma.fc += (uint16_t)(256 * v);
        return;
    case 0x82:
        p->kind = COFI_PT_PSB;
        for (int i = 1; i < 8; i++) {
            bad_if(in, byte(in) != 0x02);
            bad_if(in, byte(in) != 0x82);
        }
        return;
    case 0x83: p->kind = COFI_PT_TRACESTOP; return;
    case 0xa2:
        p->kind = COFI_PT_PWRX;
        v = byte(in);
        p->pwrx.last = (uint8_t)(v >> 4);
        p->pwrx.deepest = v & 15;
        v = byte(in);
        bad_if(in, v > 15);
        p->pwrx.wake = (uint8_t)v;
        zeros(in, 3);
        return;
    case 0xa3:
        p->kind = COFI_PT_TNT64;
        below_stop_bit(in, number(in, 6), p);
        return;
    case 0xc2:
        p->kind = COFI_PT_MWAIT;
        p->mwait.hints = (uint8_t)byte(in);
        zeros(in, 3);
        v = byte(in);
        bad_if(in, v > 3);
        p->mwait.ext = (uint8_t)v;
        zeros(in, 3);
        return;
    case 0xc3:
        p->kind = COFI_PT_MNT;
        bad_if(in, byte(in) != 0x88);
        p->mnt.payload = number(in, 8);
        return;
    case 0xc8: p->kind = COFI_PT_VMCS; p->vmcs.base = number(in, 5) * 4096; return;
    case 0xf3: p->kind = COFI_PT_OVF; return;
    }
    bad_if(in, true);
}

static void pt_block(struct cofi_packet_context *context, const struct cofi_packet *p)
{
    switch (p->kind) {
    case COFI_PT_BBP: context->block = p->bbp.sz ? 2 : 1; break;
    case COFI_PT_TNT:
    case COFI_PT_TNT64:
    case COFI_PT_TIP:
    case COFI_PT_TIP_PGE:
    case COFI_PT_TIP_PGD:
    case COFI_PT_MODE_EXEC: case COFI_PT_MODE_TSX: case COFI_PT_PIP: case COFI_PT_VMCS:
    case COFI_PT_TRACESTOP:
    case COFI_PT_PSB:
    case COFI_PT_PSBEND:
    case COFI_PT_OVF:
    case COFI_PT_PTW:
    case COFI_PT_MWAIT: case COFI_PT_BEP: case COFI_PT_CFE: case COFI_PT_EVD:
        context->block = 0;
    }
}

static void pt(struct in *in, struct cofi_packet_context *context, struct cofi_packet *p)
{
    unsigned b = byte(in);
    if (in->error)
        return;
    if (context->block && (b & 7) == 4) {
        p->kind = COFI_PT_BIP;
        p->bip.id = (uint8_t)(b / 8);
        p->bip.wide = context->block == 1;
        p->bip.payload = number(in, p->bip.wide ? 8 : 4);
    } else if (b == 0) {
        p->kind = COFI_PT_PAD;
    } else if (b == 2) {
        pt_extended(in, p);
    } else if (!(b & 1)) {
        p->kind = COFI_PT_TNT;
        below_stop_bit(in, b / 2, p);
    } else if ((b & 3) == 3) {
        pt_cyc(in, b, p);
    } else if ((b & 31) == 0x0d) {
        pt_ip(in, COFI_PT_TIP, b, p);
    } else if ((b & 31) == 0x11) {
        pt_ip(in, COFI_PT_TIP_PGE, b, p);
    } else if ((b & 31) == 0x01) {
        pt_ip(in, COFI_PT_TIP_PGD, b, p);
    } else if ((b & 31) == 0x1d) {
        pt_ip(in, COFI_PT_FUP, b, p);
    } else if (b == 0x19) {
        p->kind = COFI_PT_TSC;
        p->tsc.tsc = number(in, 7);
    } else if (b == 0x59) {
        p->kind = COFI_PT_MTC;
        p->mtc.ctc = (uint8_t)byte(in);
    } else if (b == 0x99) {
        pt_mode(in, p);
    } else if (b == 0xd9) {
        pt_trig(in, p);
    } else {
        bad_if(in, true);
    }
}

/* ---- RTIT ---- */

static void rtit_family(struct in *in, unsigned b, struct cofi_packet *p)
{
    static const uint8_t kinds[8] = {COFI_RTIT_PGE, COFI_RTIT_PGD, COFI_RTIT_BUFFOVF, COFI_RTIT_PCC,
                                     0, 0, COFI_RTIT_TIP, COFI_RTIT_FAR};
    unsigned event = b >> 3 & 7, zext = b >> 2 & 1, cnt = b & 3;
    p->kind = kinds[event];
    bad_if(in, !p->kind || cnt == 3 || (zext && cnt == 2));
    p->ip.code = (uint8_t)(b & 7);
    p->ip.payload = number(in, 2 * cnt + 2);
}

static bool rtit(struct in *in, struct cofi_packet *p)
{
    unsigned b = byte(in), v;
    if (in->error)
        return false;
    if (b < 0x80) {
        p->kind = COFI_RTIT_TNT;
        below_stop_bit(in, b, p);
        return p->tnt.count == 6;
    }
    if (b < 0xc0) {
        rtit_family(in, b, p);
        return true;
    }
    if (b == 0xc0) {
        p->kind = COFI_RTIT_PSB;
        zeros(in, 8);
        return false;
    }
    if (b == 0xc1) {
        p->kind = COFI_RTIT_TRACESTOP;
        return false;
    }
    if (b == 0xc2 || b == 0xc3) {
        p->kind = COFI_RTIT_PIP;
        p->pip.pg = b & 1;
        p->pip.cr3 = number(in, 5);
    } else if (b >= 0xc4 && b <= 0xc7) {
        p->kind = COFI_RTIT_MTC;
        p->mtc.range = b & 3;
        p->mtc.ctc = (uint8_t)byte(in);
    } else if (b >= 0xd0 && b <= 0xdf) {
        p->kind = COFI_RTIT_STS;
        v = byte(in);
        p->sts.acbr = (uint8_t)((b & 15) * 4 + v / 64);
        p->sts.ecbr = v % 64;
        p->sts.tsc = number(in, 5);
    } else {
        bad_if(in, true);
    }
    return true;
}

static void cycle_count(struct in *in, struct cofi_packet *p)
{
    unsigned b = byte(in), length = b & 3;
    bad_if(in, !length);
    p->ccp = b >> 2;
    if (length > 1)
        p->ccp += byte(in) << 6;
    if (length > 2)
        p->ccp += byte(in) << 14;
    p->ccp_size = (uint8_t)length;
}

int reference_decode(struct cofi_packet_context *context, const uint8_t *bytes, size_t n,
                     struct cofi_packet *packet)
{
    struct in in = {bytes, n, 0, 0};
    memset(packet, 0, sizeof *packet);
    if (context->gen == COFI_PT) {
        pt(&in, context, packet);
        if (!in.error)
            pt_block(context, packet);
    } else {
        bool counted = rtit(&in, packet);
        if (!in.error && counted && context->cyc)
            cycle_count(&in, packet);
    }
    packet->size = (uint8_t)in.i;
    return in.error ? in.error : (int)in.i;
}
