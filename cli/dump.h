/* SPDX-License-Identifier: MIT
 * cofi dump: the printing of one stream. */
#ifndef COFI_CLI_DUMP_H
#define COFI_CLI_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cofi/packet.h>
#include <cofi/time.h>

struct cofi_recording;
struct file;

struct dump_options {
    const char *path;
    int named;    /* how many files the arguments name */
    bool raw, json, no_pad, no_timing, no_cyc, no_offset, bytes, lastip, no_sync, quiet;
    bool time, time_delta; /* when; since the time before */
    int gen, cyc; /* 0 and -1: find out */
    long tid;     /* -1: all */
    int32_t pid;  /* 0: all */
    const char *comm; /* threads whose name matches; null: all */
    uint64_t from, to;
    uint32_t family, model; /* 0: as the recording has them */
    FILE *talk;   /* where complaints go; null: nowhere */
};

/* Where a stream's bytes are: in a file, or in a recording. */
struct dump_source {
    const struct file *file;         /* null: in the recording */
    struct cofi_recording *recording;
    size_t stream;
    uint64_t n;
    long tid;                        /* -1: none */
    uint32_t family, model;          /* of the processor; 0: not known */
    struct cofi_time_info time;
    uint64_t reference_tsc;
};

/* Print a stream to out. cyc: RTIT: 0, 1, or -1 if not known. Returns whether all bytes were
 * packets. */
bool dump_stream(const struct dump_options *options, const struct dump_source *source,
                 enum cofi_gen gen, int cyc, FILE *out);

#endif
