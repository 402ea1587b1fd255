/* SPDX-License-Identifier: MIT
 * A thread's log -> PT packets: short TNTs, last-IP compression, PSB+ where the log asks for it and,
 * behind a target, as often as the recording is to have it. */
#ifndef COFI_HOST_FAST_ENCODE_H
#define COFI_HOST_FAST_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/fast/shared.h"

struct cofi__fast_memo;

struct cofi__fast_encoder {
    uint64_t last_ip;
    unsigned outstanding;  /* up to 5 outcomes below a marker bit, oldest highest; 0 before the first record */
    bool synced;           /* a PSB has been written, and nothing is missing since */
    bool begun;            /* a PSB has been written, ever, by this one or to the same stream before */
    bool lost;             /* records were, before what comes */
    bool enabled;          /* between PGE and PGD */
    struct cofi__fast_memo *memo; /* of what was encoded before, for any thread; the caller's; null: none */
    uint64_t branches;     /* outcomes and targets seen */
    uint64_t first_tsc, tsc; /* told first, and last */
    uint64_t psb_bytes;    /* the caller's: a PSB+ when so many bytes of packets lie behind the last one;
                            * 0: where the log asks only */
    bool usual;            /* the caller's: by the instructions that every processor has, whichever are here */
    uint64_t emptied;      /* bytes of packets before out[0] */
    uint64_t psb_at;       /* where the last PSB begins, of all packets */
    size_t controlled;     /* what out[0..) holds up to the end of the last control record in it */
    size_t tsc_at;         /* where the last TSC packet in it begins; SIZE_MAX: there is none */
    uint8_t *out;          /* what has been encoded; the caller empties it */
    size_t used, size;
};

/* The size of a record by its first byte, 0 if it is none. */
size_t cofi__fast_record_size(unsigned head);
/* Encode the records in log[0..n), up to a byte of 0 or an incomplete record. What comes before the first PSB or
 * PGE is skipped. Returns how many bytes were taken, or COFI_ERR_NOMEM. */
long cofi__fast_encode(struct cofi__fast_encoder *e, const uint8_t *log, size_t n);
/* Tell the time before the branch that was encoded last, or where tracing began if nothing came since
 * [encode_time.c]. There is room for 16 bytes. */
void cofi__fast_encode_time(struct cofi__fast_encoder *e, uint64_t tsc);
/* Records are missing here that nobody was to keep, as in a ring: what comes up to the next PSB or PGE
 * is skipped, and OVF written there if there were others before. */
void cofi__fast_encode_gap(struct cofi__fast_encoder *e);
/* … that were lost: OVF is written in any case. */
void cofi__fast_encode_lost(struct cofi__fast_encoder *e);
/* The caller has emptied out. */
void cofi__fast_encode_emptied(struct cofi__fast_encoder *e);
/* Write outcomes that do not fill a packet. */
int cofi__fast_encode_end(struct cofi__fast_encoder *e);
/* Behind that: no records follow, ever. Write OVF where the last ones are missing; tsc: now. */
void cofi__fast_encode_over(struct cofi__fast_encoder *e, uint64_t tsc);
void cofi__fast_encoder_fini(struct cofi__fast_encoder *e);

#endif
