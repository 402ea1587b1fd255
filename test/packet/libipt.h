/* SPDX-License-Identifier: MIT
 * Comparing a packet with libipt's (2.0.5).
 *
 * Where the two may differ [PTREF 9.9]:
 * - libipt 2.0.5 does not know CFE, EVD, BBP, BEP, TRIG (it refuses them);
 * - it reads PWRE.HW from bit 3 of byte 2, the manual says bit 7;
 * - it ignores reserved bits except TMA's, MODE with both low bits set, and CYC bits over 64, which are bad to us;
 *   MWAIT's hints and extensions are 32 bits to it;
 * - it refuses a CYC of 10 bytes, the only one that holds all of 64 bits;
 * - it knows no blocks (ours are compared outside of them). */
#ifndef COFI_TEST_LIBIPT_H
#define COFI_TEST_LIBIPT_H

#include <intel-pt.h>
#include <string.h>

#include <cofi/error.h>
#include <cofi/packet.h>

static bool libipt_knows(const uint8_t *p, size_t n)
{
    if (p[0] == 0xd9)
        return false;
    return !(p[0] == 0x02 && n > 1 &&
             (p[1] == 0x13 || p[1] == 0x53 || p[1] == 0x63 || p[1] == 0x33 || p[1] == 0xb3));
}

/* Whether libipt's packet says the same as ours. */
static bool same(const struct cofi_packet *c, const struct pt_packet *i)
{
    if (c->size != i->size)
        return false;
    switch ((enum cofi_packet_kind)c->kind) {
    case COFI_PT_PAD: return i->type == ppt_pad;
    case COFI_PT_TNT:
    case COFI_PT_TNT64:
        return i->type == (c->kind == COFI_PT_TNT ? ppt_tnt_8 : ppt_tnt_64) &&
               i->payload.tnt.bit_size == c->tnt.count && i->payload.tnt.payload == c->tnt.bits;
    case COFI_PT_TIP:
    case COFI_PT_TIP_PGE:
    case COFI_PT_TIP_PGD:
    case COFI_PT_FUP: {
        enum pt_packet_type type = c->kind == COFI_PT_TIP ? ppt_tip : c->kind == COFI_PT_TIP_PGE ? ppt_tip_pge
                                 : c->kind == COFI_PT_TIP_PGD ? ppt_tip_pgd : ppt_fup;
        return i->type == type && (unsigned)i->payload.ip.ipc == c->ip.code && i->payload.ip.ip == c->ip.payload;
    }
    case COFI_PT_PIP:
        return i->type == ppt_pip && i->payload.pip.cr3 == c->pip.cr3 && i->payload.pip.nr == c->pip.nr;
    case COFI_PT_MODE_EXEC:
        return i->type == ppt_mode && i->payload.mode.leaf == pt_mol_exec &&
               i->payload.mode.bits.exec.csl == c->mode_exec.csl && i->payload.mode.bits.exec.csd == c->mode_exec.csd;
    case COFI_PT_MODE_TSX:
        return i->type == ppt_mode && i->payload.mode.leaf == pt_mol_tsx &&
               i->payload.mode.bits.tsx.intx == c->mode_tsx.intx && i->payload.mode.bits.tsx.abrt == c->mode_tsx.abort;
    case COFI_PT_TRACESTOP: return i->type == ppt_stop;
    case COFI_PT_CBR: return i->type == ppt_cbr && i->payload.cbr.ratio == c->cbr.ratio;
    case COFI_PT_TSC: return i->type == ppt_tsc && i->payload.tsc.tsc == c->tsc.tsc;
    case COFI_PT_MTC: return i->type == ppt_mtc && i->payload.mtc.ctc == c->mtc.ctc;
    case COFI_PT_TMA:
        return i->type == ppt_tma && i->payload.tma.ctc == c->tma.ctc && i->payload.tma.fc == c->tma.fc;
    case COFI_PT_CYC: return i->type == ppt_cyc && i->payload.cyc.value == c->cyc.count;
    case COFI_PT_VMCS: return i->type == ppt_vmcs && i->payload.vmcs.base == c->vmcs.base;
    case COFI_PT_OVF: return i->type == ppt_ovf;
    case COFI_PT_PSB: return i->type == ppt_psb;
    case COFI_PT_PSBEND: return i->type == ppt_psbend;
    case COFI_PT_MNT: return i->type == ppt_mnt && i->payload.mnt.payload == c->mnt.payload;
    case COFI_PT_PTW:
        return i->type == ppt_ptw && i->payload.ptw.payload == c->ptw.payload && i->payload.ptw.plc == c->ptw.wide &&
               i->payload.ptw.ip == c->ptw.ip;
    case COFI_PT_EXSTOP: return i->type == ppt_exstop && i->payload.exstop.ip == c->exstop.ip;
    case COFI_PT_MWAIT:
        return i->type == ppt_mwait && i->payload.mwait.hints == c->mwait.hints && i->payload.mwait.ext == c->mwait.ext;
    case COFI_PT_PWRE: /* not its hw */
        return i->type == ppt_pwre && i->payload.pwre.state == c->pwre.state && i->payload.pwre.sub_state == c->pwre.sub;
    case COFI_PT_PWRX:
        return i->type == ppt_pwrx && i->payload.pwrx.last == c->pwrx.last &&
               i->payload.pwrx.deepest == c->pwrx.deepest && i->payload.pwrx.interrupt == (c->pwrx.wake & 1) &&
               i->payload.pwrx.store == (c->pwrx.wake >> 2 & 1) && i->payload.pwrx.autonomous == c->pwrx.wake >> 3;
    case COFI_PT_CFE: case COFI_PT_EVD: case COFI_PT_BBP: case COFI_PT_BIP: case COFI_PT_BEP: case COFI_PT_TRIG:
    case COFI_RTIT_TNT: case COFI_RTIT_PGE: case COFI_RTIT_PGD: case COFI_RTIT_BUFFOVF: case COFI_RTIT_PCC:
    case COFI_RTIT_TIP: case COFI_RTIT_FAR: case COFI_RTIT_PSB: case COFI_RTIT_TRACESTOP: case COFI_RTIT_PIP:
    case COFI_RTIT_MTC: case COFI_RTIT_STS: case COFI_PKT_NONE: case COFI_PKT_KINDS: break;
    }
    return false;
}

/* What libipt may accept though we do not. */
static bool stricter(const char *why)
{
    return strstr(why, "reserved bit") || strstr(why, "both low bits") || strstr(why, "more than 64 bits");
}

static struct pt_packet_decoder *libipt_on(uint8_t *bytes, size_t n)
{
    struct pt_config config;
    pt_config_init(&config);
    config.begin = bytes;
    config.end = bytes + n;
    struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
    assert_non_null(decoder);
    return decoder;
}

/* Compare at one offset; the size of ours. */
static int compare(struct pt_packet_decoder *decoder, const uint8_t *bytes, size_t n, size_t at)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet ours;
    struct pt_packet theirs;
    assert_int_equal(pt_pkt_sync_set(decoder, at), 0);
    int size = cofi_packet_decode(&context, bytes + at, n - at, &ours);
    int want = pt_pkt_next(decoder, &theirs, sizeof theirs);
    if (!libipt_knows(bytes + at, n - at) || (size == 10 && ours.kind == COFI_PT_CYC && want < 0))
        return size;
    const char *why = size > 0 ? "" : cofi_packet_why(&context, bytes + at, n - at);
    bool agree = size > 0 ? want > 0 && same(&ours, &theirs)
               : size == COFI_ERR_TRUNCATED ? want < 0 : want < 0 || stricter(why);
    if (!agree) {
        for (size_t i = at; i < n && i < at + 16; i++)
            print_error(" %02x", bytes[i]);
        fail_msg("at %zx: ours %d (%s %s), libipt %d, its type %d", at, size,
                 size > 0 ? cofi_packet_name((enum cofi_packet_kind)ours.kind) : "", why, want,
                 want > 0 ? (int)theirs.type : -1);
    }
    return size;
}

#endif
