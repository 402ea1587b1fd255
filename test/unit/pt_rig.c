/* SPDX-License-Identifier: MIT
 * See pt_rig.h. */
#include "pt_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct pt_rig *rig = opaque;
    if (rig->size + n > rig->limit)
        return COFI_ERR_FULL;
    memcpy(rig->bytes + rig->size, bytes, n);
    rig->size += n;
    return 0;
}

static void pmi(void *opaque) { ((struct pt_rig *)opaque)->pmis++; }

void rig_open(struct pt_rig *rig, const struct cofi_unit_config *config)
{
    memset(rig, 0, offsetof(struct pt_rig, text));
    rig->limit = RIG_BYTES;
    if (config)
        rig->config = *config;
    rig->config.size = sizeof rig->config;
    rig->config.gen = COFI_PT;
    if (!rig->config.sink.write && !rig->config.memory.write)
        rig->config.sink = (struct cofi_sink){take, rig};
    if (!rig->config.opaque) {
        rig->config.opaque = rig;
        rig->config.pmi = pmi;
    }
    rig->codec.gen = COFI_PT;
    rig->context = (struct cofi_context){.cr3 = 0x1000, .vmcs = UINT64_MAX, .mode = 64};
    assert_int_equal(cofi_unit_open(&rig->unit, &rig->config), 0);
}

void rig_close(struct pt_rig *rig) { cofi_unit_close(rig->unit); }

void rig_start(struct pt_rig *rig, uint64_t ctl, unsigned cpl, uint64_t ip)
{
    rig->context.cpl = (uint8_t)cpl;
    cofi_unit_context(rig->unit, &rig->context, ip);
    assert_int_equal(cofi_unit_wrmsr(rig->unit, MSR_CTL, ctl), 0);
    rig_packets(rig);
}

struct pt_rig *rig_new(const struct cofi_unit_config *config, uint64_t ctl, uint64_t ip)
{
    struct pt_rig *rig = malloc(sizeof *rig);
    rig_open(rig, config);
    rig_start(rig, ctl, 3, ip);
    return rig;
}

void rig_free(struct pt_rig *rig)
{
    rig_close(rig);
    free(rig);
}

struct line {
    char *at;
    size_t room;
};

__attribute__((format(printf, 2, 3))) static void say(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->at, line->room, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < line->room);
    line->at += n;
    line->room -= (size_t)n;
}

static void say_ip(struct pt_rig *rig, struct line *line, const struct cofi_packet *packet)
{
    uint64_t ip;
    if (cofi_ip_expand(packet, rig->last_ip, &ip)) {
        rig->last_ip = ip;
        say(line, "(%" PRIx64 ")", ip);
    } else {
        say(line, "()");
    }
}

static void say_tnt(struct line *line, const struct cofi_packet *packet)
{
    say(line, "(");
    for (unsigned i = packet->tnt.count; i-- > 0;)
        say(line, "%c", packet->tnt.bits >> i & 1 ? 'T' : 'N');
    say(line, ")");
}

static void say_mode(struct line *line, const struct cofi_packet *packet)
{
    unsigned mode = packet->mode_exec.csl ? 64 : packet->mode_exec.csd ? 32 : 16;
    say(line, "(%u%s)", mode, packet->mode_exec.iflag ? ",if" : "");
}

static void say_details(struct pt_rig *rig, struct line *line, const struct cofi_packet *p)
{
    switch ((enum cofi_packet_kind)p->kind) {
    case COFI_PT_TNT:
    case COFI_PT_TNT64: say_tnt(line, p); break;
    case COFI_PT_TIP:
    case COFI_PT_TIP_PGE:
    case COFI_PT_TIP_PGD:
    case COFI_PT_FUP: say_ip(rig, line, p); break;
    case COFI_PT_PIP: say(line, "(%" PRIx64 "%s)", p->pip.cr3, p->pip.nr ? ",nr" : ""); break;
    case COFI_PT_MODE_EXEC: say_mode(line, p); break;
    case COFI_PT_MODE_TSX:
        say(line, "(%s)", p->mode_tsx.abort ? "abort" : p->mode_tsx.intx ? "begin" : "commit");
        break;
    case COFI_PT_CBR: say(line, "(%u)", p->cbr.ratio); break;
    case COFI_PT_TSC: say(line, "(%" PRIu64 ")", p->tsc.tsc); break;
    case COFI_PT_MTC: say(line, "(%u)", p->mtc.ctc); break;
    case COFI_PT_TMA: say(line, "(%u,%u)", p->tma.ctc, p->tma.fc); break;
    case COFI_PT_CYC: say(line, "(%" PRIu64 ")", p->cyc.count); break;
    case COFI_PT_VMCS: say(line, "(%" PRIx64 ")", p->vmcs.base); break;
    case COFI_PT_PTW: say(line, "%u%s(%" PRIx64 ")", p->ptw.wide ? 8 : 4, p->ptw.ip ? "ip" : "", p->ptw.payload); break;
    case COFI_PT_EXSTOP: say(line, "%s", p->exstop.ip ? "ip" : ""); break;
    case COFI_PT_MWAIT: say(line, "(%x,%x)", p->mwait.hints, p->mwait.ext); break;
    case COFI_PT_PWRE: say(line, "(c%u.%u%s)", (p->pwre.state + 1) & 15, p->pwre.sub, p->pwre.hw ? ",hw" : ""); break;
    case COFI_PT_PWRX: say(line, "(c%u,c%u,%u)", (p->pwrx.last + 1) & 15, (p->pwrx.deepest + 1) & 15, p->pwrx.wake); break;
    case COFI_PT_CFE: say(line, "%s(%x,%x)", p->cfe.ip ? "ip" : "", p->cfe.type, p->cfe.vector); break;
    case COFI_PT_EVD: say(line, "(%x,%" PRIx64 ")", p->evd.type, p->evd.payload); break;
    case COFI_PT_BBP: say(line, "(%u,%u)", p->bbp.type, p->bbp.sz ? 4 : 8); break;
    case COFI_PT_BIP: say(line, "(%u,%" PRIx64 ")", p->bip.id, p->bip.payload); break;
    case COFI_PT_BEP: say(line, "%s", p->bep.ip ? "ip" : ""); break;
    case COFI_PT_TRIG:
        say(line, "%s(%x,%s%u%s)", p->trig.ip ? "ip" : "", p->trig.trbv, p->trig.icntv ? "" : "-", p->trig.icnt,
            p->trig.mult ? ",mult" : "");
        break;
    case COFI_PT_PSB: rig->last_ip = 0; break;
    case COFI_PKT_NONE: case COFI_PT_PAD: case COFI_PT_TRACESTOP: case COFI_PT_OVF: case COFI_PT_PSBEND:
    case COFI_PT_MNT: case COFI_RTIT_TNT: case COFI_RTIT_PGE: case COFI_RTIT_PGD: case COFI_RTIT_BUFFOVF:
    case COFI_RTIT_PCC: case COFI_RTIT_TIP: case COFI_RTIT_FAR: case COFI_RTIT_PSB: case COFI_RTIT_TRACESTOP:
    case COFI_RTIT_PIP: case COFI_RTIT_MTC: case COFI_RTIT_STS: case COFI_PKT_KINDS: break;
    }
}

const char *rig_packets(struct pt_rig *rig)
{
    struct line line = {rig->text, sizeof rig->text};
    rig->text[0] = 0;
    cofi_unit_drain(rig->unit);
    while (rig->shown < rig->size) {
        struct cofi_packet packet;
        int n = cofi_packet_decode(&rig->codec, rig->bytes + rig->shown, rig->size - rig->shown, &packet);
        assert_true(n > 0);
        rig->shown += (size_t)n;
        if (line.at != rig->text)
            say(&line, " ");
        say(&line, "%s", cofi_packet_name(packet.kind));
        say_details(rig, &line, &packet);
    }
    return rig->text;
}

int rig_event(struct pt_rig *rig, const struct cofi_event *event)
{
    struct cofi_event copy = *event;
    if (copy.context_set)
        rig->context = copy.after;
    return cofi_unit_event(rig->unit, &copy);
}

void rig_jcc(struct pt_rig *rig, uint64_t ip, uint64_t target, bool taken)
{
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_JCC, .ip = ip, .next = ip + 2, .target = target,
                                        .taken = taken});
}

void rig_near(struct pt_rig *rig, enum cofi_event_kind kind, uint64_t ip, unsigned length, uint64_t target)
{
    rig_event(rig, &(struct cofi_event){.kind = (uint8_t)kind, .ip = ip, .next = ip + length, .target = target});
}

static void transfer(struct pt_rig *rig, struct cofi_event event, int cpl)
{
    event.after = rig->context;
    if (cpl >= 0)
        event.after.cpl = (uint8_t)cpl;
    event.context_set = true;
    rig_event(rig, &event);
}

void rig_far(struct pt_rig *rig, enum cofi_far far, uint64_t ip, uint64_t target, int cpl)
{
    transfer(rig, (struct cofi_event){.kind = COFI_EV_FAR, .cause = (uint8_t)far, .ip = ip, .next = ip + 2,
                                      .target = target, .vector = COFI_NO_VECTOR}, cpl);
}

void rig_interrupt(struct pt_rig *rig, enum cofi_cause cause, uint64_t ip, uint64_t target, int cpl)
{
    transfer(rig, (struct cofi_event){.kind = COFI_EV_EVENT, .cause = (uint8_t)cause, .ip = ip, .target = target,
                                      .vector = COFI_NO_VECTOR}, cpl);
}

void rig_mov_cr3(struct pt_rig *rig, uint64_t ip, uint64_t cr3)
{
    struct cofi_event event = {.kind = COFI_EV_MOV_CR3, .ip = ip, .next = ip + 3, .context_set = true};
    event.after = rig->context;
    event.after.cr3 = cr3;
    rig_event(rig, &event);
}

void rig_clock(struct pt_rig *rig, uint64_t tsc, uint64_t cycles)
{
    rig_event(rig, &(struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = tsc, .cycles = cycles});
}

uint64_t rig_msr(struct pt_rig *rig, uint32_t msr)
{
    uint64_t value = 0;
    assert_int_equal(cofi_unit_rdmsr(rig->unit, msr, &value), 0);
    return value;
}
