/* SPDX-License-Identifier: MIT
 * A recording -> its streams and its sideband, one line each. Usage: recording FILE */
#include <inttypes.h>
#include <stdio.h>

#include <cofi/trace.h>

static const char *const kinds[] = {"comm", "mmap", "fork", "exit", "itrace-start", "switch", "switch-cpu",
                                    "aux", "lost", "code", "text-poke"};

static void print_streams(const struct cofi_recording *recording)
{
    for (size_t i = 0; i < cofi_recording_streams(recording); i++) {
        const struct cofi_recording_stream *s = cofi_recording_stream(recording, i);
        const char *comm = cofi_recording_comm(recording, s->tid, 0);
        printf("stream %zu: pid %d tid %d cpu %d (%s): %" PRIu64 " bytes in %zu pieces\n", i, s->pid, s->tid,
               s->cpu, comm ? comm : "?", s->bytes, s->pieces);
    }
}

static void print_sideband(const struct cofi_sideband *s)
{
    printf("%12" PRIu64 " %-12s pid %d tid %d", s->time_ns, kinds[s->kind], s->pid, s->tid);
    if (s->kind == COFI_SB_MMAP || s->kind == COFI_SB_CODE)
        printf(" %#" PRIx64 "+%#" PRIx64 " @ %#" PRIx64, s->addr, s->len, s->pgoff);
    if (s->kind == COFI_SB_FORK || s->kind == COFI_SB_EXIT)
        printf(" parent %d/%d", s->ppid, s->ptid);
    if (s->kind == COFI_SB_SWITCH || s->kind == COFI_SB_SWITCH_CPU)
        printf(" %s", s->out ? "out" : "in");
    if (s->kind == COFI_SB_AUX)
        printf(" [%#" PRIx64 ", +%#" PRIx64 ")", s->aux_offset, s->aux_size);
    printf(" %s\n", s->name ? s->name : "");
}

int main(int argc, char **argv)
{
    struct cofi_recording *recording;
    struct cofi_error error;
    const struct cofi_sideband *sideband;
    if (argc != 2) {
        fprintf(stderr, "usage: recording FILE\n");
        return 2;
    }
    if (cofi_recording_open(&recording, argv[1], &error) < 0) {
        fprintf(stderr, "recording: %s: %s\n", argv[1], error.text);
        return 1;
    }
    for (size_t i = 0; cofi_recording_warning(recording, i); i++)
        fprintf(stderr, "recording: %s\n", cofi_recording_warning(recording, i));
    print_streams(recording);
    for (size_t i = 0; (sideband = cofi_recording_sideband(recording, i)); i++)
        print_sideband(sideband);
    cofi_recording_close(recording);
    return 0;
}
