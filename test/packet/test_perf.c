/* SPDX-License-Identifier: MIT
 * perf's packet decoder (6.1) as one more opinion: `perf script -D` over a recording of random packets of every kind
 * that it knows, Event Trace and blocks included, line by line in its own words. It does not know TRIG, and takes PADs
 * after a short packet for part of it [PTREF 9.9]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <cofi/trace.h>

#include "random.h"

enum { ROOM = 400000 };

static void branches(const struct cofi_packet *p, char *out)
{
    out += sprintf(out, "TNT ");
    for (unsigned i = p->tnt.count; i-- > 0;)
        *out++ = p->tnt.bits >> i & 1 ? 'T' : 'N';
    sprintf(out, " (%u)", p->tnt.count);
}

static void address(const char *name, const struct cofi_packet *p, char *out)
{
    if (p->ip.code)
        sprintf(out, "%s 0x%" PRIx64, name, p->ip.payload);
    else
        sprintf(out, "%s no ip", name);
}

/* A packet as perf prints it; false: it does not know it. */
static bool in_perf_words(const struct cofi_packet *p, char *out)
{
    unsigned wire;
    switch ((enum cofi_packet_kind)p->kind) {
    case COFI_PT_TNT:
    case COFI_PT_TNT64: branches(p, out); return true;
    case COFI_PT_TIP: address("TIP", p, out); return true;
    case COFI_PT_TIP_PGE: address("TIP.PGE", p, out); return true;
    case COFI_PT_TIP_PGD: address("TIP.PGD", p, out); return true;
    case COFI_PT_FUP: address("FUP", p, out); return true;
    case COFI_PT_PIP: sprintf(out, "PIP 0x%" PRIx64 " (NR=%u)", p->pip.cr3 >> 5, p->pip.nr); return true;
    case COFI_PT_MODE_EXEC:
        sprintf(out, "MODE.Exec IF:%u %d", p->mode_exec.iflag, p->mode_exec.csl ? 64 : p->mode_exec.csd ? 32 : 16);
        return true;
    case COFI_PT_MODE_TSX:
        sprintf(out, "MODE.TSX TXAbort:%u InTX:%u", p->mode_tsx.abort, p->mode_tsx.intx);
        return true;
    case COFI_PT_TRACESTOP: strcpy(out, "TraceSTOP"); return true;
    case COFI_PT_CBR: sprintf(out, "CBR 0x%x", p->cbr.ratio); return true;
    case COFI_PT_TSC: sprintf(out, "TSC 0x%" PRIx64, p->tsc.tsc); return true;
    case COFI_PT_MTC: sprintf(out, "MTC 0x%x", p->mtc.ctc); return true;
    case COFI_PT_TMA: sprintf(out, "TMA CTC 0x%x FC 0x%x", p->tma.ctc, p->tma.fc); return true;
    case COFI_PT_CYC: sprintf(out, "CYC 0x%" PRIx64, p->cyc.count); return true;
    case COFI_PT_VMCS: sprintf(out, "VMCS 0x%" PRIx64, p->vmcs.base >> 12); return true;
    case COFI_PT_OVF: strcpy(out, "OVF"); return true;
    case COFI_PT_PSB: strcpy(out, "PSB"); return true;
    case COFI_PT_PSBEND: strcpy(out, "PSBEND"); return true;
    case COFI_PT_MNT: sprintf(out, "MNT 0x%" PRIx64, p->mnt.payload); return true;
    case COFI_PT_PTW: sprintf(out, "PTWRITE 0x%" PRIx64 " IP:%u", p->ptw.payload, p->ptw.ip); return true;
    case COFI_PT_EXSTOP: sprintf(out, "EXSTOP IP:%u", p->exstop.ip); return true;
    case COFI_PT_MWAIT:
        sprintf(out, "MWAIT 0x%" PRIx64 " Hints 0x%x Extensions 0x%x",
                p->mwait.hints | (uint64_t)p->mwait.ext << 32, p->mwait.hints, p->mwait.ext);
        return true;
    case COFI_PT_PWRE:
        wire = (unsigned)(p->pwre.hw << 7 | p->pwre.state << 12 | p->pwre.sub << 8);
        sprintf(out, "PWRE 0x%x HW:%u CState:%u Sub-CState:%u", wire, p->pwre.hw, p->pwre.state, p->pwre.sub);
        return true;
    case COFI_PT_PWRX:
        wire = (unsigned)(p->pwrx.last << 4 | p->pwrx.deepest | p->pwrx.wake << 8);
        sprintf(out, "PWRX 0x%x Last CState:%u Deepest CState:%u Wake Reason 0x%x", wire, p->pwrx.last,
                p->pwrx.deepest, p->pwrx.wake);
        return true;
    case COFI_PT_CFE:
        sprintf(out, "CFE IP:%u Type 0x%02x Vector 0x%x", p->cfe.ip, p->cfe.type, p->cfe.vector);
        return true;
    case COFI_PT_EVD: sprintf(out, "EVD Type 0x%02x Payload 0x%" PRIx64, p->evd.type, p->evd.payload); return true;
    case COFI_PT_BBP: sprintf(out, "BBP SZ %s-byte Type 0x%x", p->bbp.sz ? "4" : "8", p->bbp.type); return true;
    case COFI_PT_BIP: sprintf(out, "BIP ID 0x%02x Value 0x%" PRIx64, p->bip.id, p->bip.payload); return true;
    case COFI_PT_BEP: sprintf(out, "BEP IP:%u", p->bep.ip); return true;
    case COFI_PT_PAD: case COFI_PT_TRIG:
    case COFI_RTIT_TNT: case COFI_RTIT_PGE: case COFI_RTIT_PGD: case COFI_RTIT_BUFFOVF: case COFI_RTIT_PCC:
    case COFI_RTIT_TIP: case COFI_RTIT_FAR: case COFI_RTIT_PSB: case COFI_RTIT_TRACESTOP: case COFI_RTIT_PIP:
    case COFI_RTIT_MTC: case COFI_RTIT_STS: case COFI_PKT_NONE: case COFI_PKT_KINDS: break;
    }
    return false;
}

/* Random packets, in blocks half of the time; returns the bytes. */
static size_t make_trace(uint8_t *out)
{
    struct random r = {21};
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet packet = {.kind = COFI_PT_PSB};
    size_t n = (size_t)cofi_packet_encode(&context, &packet, out, ROOM);
    while (n + COFI_PACKET_MAX < ROOM) {
        uint8_t some[24];
        char words[256];
        struct cofi_packet_context c = context;
        random_packet_bytes(&r, some, sizeof some);
        if (!context.block && random_below(&r, 16) == 0)
            memcpy(some, random_below(&r, 2) ? "\x02\x63\x04" : "\x02\x63\x84", 3);
        if (cofi_packet_decode(&c, some, sizeof some, &packet) > 0 && in_perf_words(&packet, words))
            n += (size_t)cofi_packet_encode(&context, &packet, out + n, ROOM - n);
    }
    return n;
}

static void write_recording(const char *path, const uint8_t *bytes, size_t n)
{
    struct cofi_recording_info info = {.size = sizeof info, .gen = COFI_PT, .config = 0x300e601,
                                       .vendor = "GenuineIntel", .family = 6, .model = 0x4e};
    struct cofi_sideband comm = {.kind = COFI_SB_COMM, .exec = true, .pid = 7, .tid = 7, .cpu = UINT32_MAX, .name = "x"};
    struct cofi_writer *writer;
    struct cofi_error error;
    assert_int_equal(cofi_writer_open(&writer, path, &info, &error), 0);
    cofi_writer_sideband(writer, &comm);
    assert_int_equal(cofi_writer_trace(writer, 7, 7, bytes, n, 1), 0);
    assert_int_equal(cofi_writer_close(writer, &error), 0);
}

static void perf_prints_the_packets_that_we_decode(void **state)
{
    (void)state;
    static uint8_t bytes[ROOM];
    size_t n = make_trace(bytes), at = 0;
    char path[64], command[256], line[512];
    unsigned count[COFI_PKT_KINDS] = {0};
    struct cofi_packet_context context = {.gen = COFI_PT};
    snprintf(path, sizeof path, "/tmp/cofi-test-perf-%d.data", (int)getpid());
    write_recording(path, bytes, n);
    snprintf(command, sizeof command, "perf script -D -i %s 2>/dev/null", path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    while (at < n && fgets(line, sizeof line, in)) {
        uint64_t offset;
        char words[256] = "";
        struct cofi_packet packet;
        /* ".  0000001b:  02 a3 ...   TNT ..." with an offset of 8 digits; records' hex has 4. */
        if (strncmp(line, ".  ", 3) || line[11] != ':' || strlen(line) < 64)
            continue;
        offset = strtoull(line + 3, 0, 16);
        line[strcspn(line, "\n")] = 0;
        int size = cofi_packet_decode(&context, bytes + at, n - at, &packet);
        assert_true(size > 0);
        in_perf_words(&packet, words);
        if (offset != at || strcmp(line + 62, words))
            fail_msg("at %zx: ours '%s', perf '%s'", at, words, line);
        count[packet.kind]++;
        at += (size_t)size;
    }
    pclose(in);
    unlink(path);
    assert_int_equal(at, n);
    for (int kind = 1; kind < COFI_PKT_KINDS; kind++)
        if (cofi_packet_gen((enum cofi_packet_kind)kind) == COFI_PT && kind != COFI_PT_PAD && kind != COFI_PT_TRIG)
            assert_true(count[kind]);
}

int main(void)
{
    if (system("perf --version >/dev/null 2>&1")) {
        puts("1..1\nok 1 - perf_prints_the_packets_that_we_decode # SKIP perf is not here");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perf_prints_the_packets_that_we_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
