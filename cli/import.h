/* SPDX-License-Identifier: MIT
 * A trace that another tool saved -> a recording. */
#ifndef COFI_CLI_IMPORT_H
#define COFI_CLI_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/trace.h>

#include "file.h"

struct import {
    const char *command;
    struct cofi_writer *writer;
    unsigned streams, modules;
    uint64_t bytes;  /* of trace */
    uint64_t code;   /* bytes of code that no ELF file has */
    bool lacks;      /* something is not there, which was said */
    int status;      /* of the writer's */
};

void import_tell(struct import *import, const struct cofi_sideband *sideband);
/* Say what is not there, and note that. */
void import_lack(struct import *import, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct import_module {
    const char *path;
    bool by_address;  /* its first segment lies at `address`; else all lie `slide` behind their own addresses */
    uint64_t address, slide;
    uint8_t build_id[20], build_id_size; /* as in struct cofi_sideband */
};
/* Its segments of code, as mapped before all that ran. */
void import_elf(struct import *import, struct import_module *module, int32_t pid);
/* A thread's stream, or (pid -1) that of processor tid, from its first PSB on. Without one the recording
 * has not begun. */
void import_stream(struct import *import, const char *path, enum cofi_gen gen, const struct file *trace, int32_t pid,
                   int32_t tid);

struct bundle;
/* What the recording is to say of itself; then all that the bundle has. 0, or the writer's error. */
void import_bundle_info(const struct bundle *bundle, struct cofi_recording_info *info);
int import_bundle(struct import *import, const struct bundle *bundle);

struct session;
struct session_options;
/* Of a raw stream, with the code that ran of what its images have; those that are ELF files are named
 * instead. As above; *trace, the session's bytes, is told by the first for the second. */
void import_raw_info(struct session *session, const struct session_options *options, struct file *trace,
                     struct cofi_recording_info *info);
int import_raw(struct import *import, struct session *session, const struct session_options *options,
               const struct file *trace);

#endif
