/* SPDX-License-Identifier: MIT
 * What the parts of a session share: session_open.c, session.c, session_flow.c. */
#ifndef COFI_CLI_SESSION_INSIDE_H
#define COFI_CLI_SESSION_INSIDE_H

#include "file.h"
#include "pipe.h"
#include "session.h"

struct session {
    struct session_options options;
    struct cofi_recording *recording;
    struct cofi_recording_info info;
    struct file raw;
    struct pipe pipe;  /* raw as it comes, if it is read but once; else closed */
    bool pipe_failed;  /* and it was said */
    uint8_t *unrolled; /* raw's bytes, oldest first, where it was circular */
    struct cofi_image *image; /* of raw */
    bool elf;          /* there is an ELF file in it, whose class tells the mode of its code */
    unsigned tried;    /* the mode of raw's code by trial, 0: not tried yet */
    struct cofi_demangler *names;
    size_t *selected, selected_n;
    bool per_processor; /* one of these is a processor's, not a thread's */
    _Atomic bool chose; /* and somebody that was to be shown ran there */
    struct {
        uint64_t start, skip;
        _Atomic bool none; /* no PSB where --from begins, which was said */
    } *starts; /* of the selected ones */
};

static inline const uint8_t *session_raw_bytes(const struct session *session)
{
    return session->unrolled ? session->unrolled : session->raw.bytes;
}

/* By --tid, --pid and --comm; and whether any of them is told. */
bool session_chooses(const struct session_options *options, int32_t pid, int32_t tid, const char *comm);
bool session_is_choosy(const struct session_options *options);

enum { PSB_BYTES = 16 };
/* What a raw stream begins with. Of a pipe the first packet alone if that is a PSB: what follows need
 * not have come yet. */
const uint8_t *session_beginning(struct session *session, size_t *n);

#endif
