/* SPDX-License-Identifier: MIT
 * A PT recording, decoded by libipt: every instruction as a line "TID ADDRESS" (the form of the truth).
 * With --ptwrite first: the payloads of PTWRITE instead. The code comes from the recording's images as of the trace's
 * time. Errors go to standard error as libipt words them; exit status 1 if there were any. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <intel-pt.h>

#include <cofi/image.h>
#include <cofi/trace.h>

struct judge {
    struct cofi_recording *recording;
    struct cofi_view *view;
    int32_t tid;
    uint64_t insns, errors;
    bool ptwrites;
};

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip, void *context)
{
    (void)asid;
    struct judge *judge = context;
    size_t got = 0;
    while (got < size) {
        struct cofi_code code;
        if (cofi_view_find(judge->view, ip + got, &code) < 0)
            break;
        size_t here = (size_t)(code.end - (ip + got));
        if (here > size - got)
            here = size - got;
        memcpy(buffer + got, code.bytes + (ip + got - code.start), here);
        got += here;
    }
    return got ? (int)got : -pte_nomap;
}

/* Take pending events; each may carry a later time, from which on other code may be valid. */
static int take_events(struct judge *judge, struct pt_insn_decoder *decoder, int status)
{
    const struct cofi_time_conv *conv = &cofi_recording_info(judge->recording)->time.conv;
    while (status >= 0 && (status & pts_event_pending)) {
        struct pt_event event;
        status = pt_insn_event(decoder, &event, sizeof event);
        if (status >= 0 && judge->ptwrites && event.type == ptev_ptwrite)
            printf("%016" PRIx64 "\n", event.variant.ptwrite.payload);
        if (status >= 0 && event.has_tsc && conv->mult)
            cofi_view_advance(judge->view, cofi_time_ns(conv, event.tsc), NULL, NULL);
    }
    return status;
}

static void complain(struct judge *judge, struct pt_insn_decoder *decoder, uint64_t ip, int error)
{
    uint64_t offset = 0;
    pt_insn_get_offset(decoder, &offset);
    fprintf(stderr, "thread %d+0x%" PRIx64 " at %016" PRIx64 ": %s\n", judge->tid, offset, ip,
            pt_errstr(pt_errcode(error)));
    judge->errors++;
}

static void decode(struct judge *judge, struct pt_insn_decoder *decoder)
{
    int status = pt_insn_sync_forward(decoder);
    while (status >= 0) {
        struct pt_insn insn = {0};
        for (;;) {
            status = take_events(judge, decoder, status);
            if (status < 0 || (status & pts_eos))
                break;
            status = pt_insn_next(decoder, &insn, sizeof insn);
            if (insn.iclass != ptic_error) {
                if (!judge->ptwrites)
                    printf("%d %016" PRIx64 "\n", judge->tid, insn.ip);
                judge->insns++;
            }
            if (status < 0)
                break;
        }
        if (status >= 0)
            return;
        if (status == -pte_eos)
            return;
        complain(judge, decoder, insn.ip, status);
        status = pt_insn_sync_forward(decoder);
    }
    if (status != -pte_eos)
        complain(judge, decoder, 0, status);
}

static uint8_t *stream_bytes(const struct judge *judge, size_t stream, size_t n)
{
    uint8_t *bytes = malloc(n ? n : 1);
    for (size_t at = 0, here; bytes && at < n; at += here) {
        const uint8_t *piece = cofi_recording_bytes(judge->recording, stream, at, &here);
        if (!here)
            break;
        memcpy(bytes + at, piece, here);
    }
    return bytes;
}

static int judge_stream(struct judge *judge, size_t i)
{
    const struct cofi_recording_stream *stream = cofi_recording_stream(judge->recording, i);
    const struct cofi_recording_info *info = cofi_recording_info(judge->recording);
    uint8_t *bytes = stream_bytes(judge, i, stream->bytes);
    struct pt_config config;
    pt_config_init(&config);
    config.begin = bytes;
    config.end = bytes + stream->bytes;
    /* Times at branches, not only at events; but estimates must not decide which code is valid [decision 0604]. */
    config.flags.variant.insn.enable_tick_events = !info->time.mtc && !info->time.cyc;
    config.mtc_freq = info->time.mtc_freq;
    config.nom_freq = info->time.nominal_ratio;
    config.cpuid_0x15_ebx = info->time.tsc_num;
    config.cpuid_0x15_eax = info->time.tsc_den;
    judge->tid = stream->tid;
    if (!bytes || cofi_view_open(&judge->view, cofi_recording_image(judge->recording, stream->pid)) < 0)
        return -1;
    if (!(info->config >> 10 & 1)) /* TSCEn: a trace that never tells the time */
        cofi_view_advance(judge->view, UINT64_MAX, NULL, NULL);
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    if (!decoder)
        return -1;
    pt_image_set_callback(pt_insn_get_image(decoder), read_code, judge);
    decode(judge, decoder);
    pt_insn_free_decoder(decoder);
    cofi_view_close(judge->view);
    free(bytes);
    return 0;
}

int main(int argc, char **argv)
{
    struct judge judge = {0};
    struct cofi_error error = {0};
    judge.ptwrites = argc == 3 && strcmp(argv[1], "--ptwrite") == 0;
    if (argc != 2 + judge.ptwrites) {
        fprintf(stderr, "usage: judge-ipt [--ptwrite] RECORDING\n");
        return 2;
    }
    if (cofi_recording_open(&judge.recording, argv[argc - 1], &error) < 0) {
        fprintf(stderr, "judge-ipt: %s\n", error.text);
        return 2;
    }
    for (size_t i = 0; i < cofi_recording_streams(judge.recording); i++)
        if (judge_stream(&judge, i) < 0)
            return 2;
    cofi_recording_close(judge.recording);
    return judge.errors ? 1 : 0;
}
