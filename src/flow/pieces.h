/* SPDX-License-Identifier: MIT
 * A stream in pieces that begin at its PSBs, for threads to decode and one of them to show in order. */
#ifndef COFI_FLOW_PIECES_H
#define COFI_FLOW_PIECES_H

#include <pthread.h>

#include "flow/skim.h"

/* What was decoded, batch after batch. */
struct mark {
    const struct cofi_flow_block **blocks;
    const uint64_t *lists;     /* or where they are, packed: see lists.h */
    size_t lists_n;
    struct cofi_flow_stamp *times;
    size_t blocks_n;
    size_t events_n;           /* up to the batch's end */
    const struct cofi_image *image;
    uint64_t view_ns;          /* the code as of then */
    uint64_t offset;
};
struct output {
    struct arena room;              /* of blocks or lists, and times */
    struct cofi_flow_event *events; /* `at` counts from the batch's start */
    struct mark *marks;
    size_t events_n, events_max, marks_n, marks_max;
    bool live;                      /* one batch, shown at once: its blocks, not lists */
};

/* Of what was written down to be counted: hashes of the first block, if an edge leads to it (else 0),
 * and of the last one, as in prev_hash. */
struct ends {
    uint32_t first, last;
};

/* Where tracing was disabled before the piece, until somebody knows. */
#define PIECE_UNKNOWN_IP (COFI_NO_IP - 1)

/* All that decoding behind a PSB+ depends on. */
struct seam {
    uint64_t psb, ip, last_ip, cr3, vmcs, disabled_ip, next_change, overflow_ticks, ovf_ip, sleep_ip;
    uint64_t ret_ip, last_end, seen_ns, used_ticks; /* RTIT, as all of the next line: its PSB resets nothing */
    bool has_ret, last_ip_valid, stop_was_last;
    struct cofi__clock clock;
    const struct cofi_image *image;
    unsigned mode;
    uint8_t cbr, ecbr, pg;
    struct doubt doubt;
    bool enabled, non_root, in_tx, tentative, code_missed, overflow, stopped, asleep, ended, odd;
    uint8_t events_seen;
};

struct seam cofi__seam_of(const struct cofi_flow *flow);
/* Whether a piece that began like `right` is what follows one that ended like `left`. */
bool cofi__seam_fits(const struct seam *left, const struct seam *right);

/* Bytes of a stream. */
struct buffer {
    uint8_t *bytes;
    size_t n, max;
};

enum piece_state { PIECE_CUT, PIECE_TAKEN, PIECE_DONE };

struct piece {
    uint64_t index, begin, end;    /* offsets; end UINT64_MAX: the stream's end */
    const uint8_t *bytes;          /* where the stream comes by pull */
    size_t n;
    struct buffer copy;            /* that they lie in, or none: pull's own, which stay */
    struct skimmed from_psb;       /* RTIT: the PSB before it, where decoding begins so that it knows its way here */
    bool in_order;                 /* too long to be kept decoded, or nothing known where it begins:
                                    * decoded when its turn has come */
    bool code_missed;              /* RTIT: so far, when the piece was begun */
    uint8_t events_seen;           /* so far, too */
    bool asked;                    /* flow->waits.asked */
    enum piece_state state;
    struct worker *worker;
    struct output out;
    struct seam from, to;
    struct ends ends;
    bool right;                    /* it was shown as it was decoded ahead */
    uint64_t least;                /* exact time in it, see struct cofi__clock */
    struct cofi_flow_stats stats;  /* what it added */
    uint64_t tips_that_wait;       /* and to this */
    int status;
};

enum {
    PIECE_LONG = 1 << 20,          /* bytes: in_order from here on; by pull: without a PSB for so long it
                                    * is cut where it is */
    PIECE_BEHIND = 2,              /* so many pieces behind its own a worker may look at, by pull */
    OUTPUTS_MOST = 16 << 20,       /* bytes of decoded pieces that wait for their turn */
};

struct pieces {
    const struct cofi_flow_config *config;
    size_t piece_bytes;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct piece *ring;            /* piece i at i % room, from the two before `shown` on */
    uint64_t room, cut, next, shown; /* the next one to be cut, taken, shown */
    bool ended, stop;              /* the stream is cut up; all is over */
    bool code_missed;              /* RTIT: in what was shown */
    uint8_t events_seen;           /* there, too */
    uint64_t redone;               /* of those shown */
    size_t out_bytes;              /* of outputs that wait */
    struct chunk_pool chunks;      /* of outputs: few are in use, and those are warm */
    /* Reading, by one thread at a time and with the lock open: pull may block. */
    bool reading, pull_ended;
    int status;
    const uint8_t *rest;           /* of what pull gave last */
    size_t rest_n, rest_past;      /* so many bytes before it were pull's, too */
    const uint8_t *after;          /* what it gave behind that, if it was asked already */
    size_t after_n;
    struct buffer ahead;           /* read behind the last piece */
    struct buffer spare[4];        /* to be used again: fresh ones cost a page fault for each 4 KiB */
    unsigned spare_n;
    struct cofi_flow *skimmer;     /* RTIT: has read all before `skimmed`, which counts from where the
                                    * next piece begins */
    size_t skimmed;
    struct skim skims[4];          /* of what follows, looked at together */
    unsigned skims_at, skims_n;
    struct skimmed from_psb, next_psb; /* of the next piece, and of the one behind it */
};

int cofi__pieces_open(struct pieces *pieces, const struct cofi_flow_config *config, size_t piece_bytes, uint64_t room);
void cofi__pieces_close(struct pieces *pieces);
/* All below with the lock held. */
static inline struct piece *piece_at(struct pieces *pieces, uint64_t i) { return &pieces->ring[i % pieces->room]; }
/* There is room for one more, and the stream has not ended. */
static inline bool pieces_may_cut(const struct pieces *pieces)
{
    return !pieces->ended && pieces->cut + 2 < pieces->shown + pieces->room;
}
/* Have piece i cut, waiting for whoever reads. False: the stream ends before it, there is no room, or it is over. */
bool cofi__pieces_get(struct pieces *pieces, uint64_t i);
/* The first one is done with; its bytes stay until the next two are, too. */
void cofi__pieces_drop(struct pieces *pieces);

/* Its room goes back to the chunks; with the lock held. */
void cofi__output_clear(struct pieces *pieces, struct output *out);
void cofi__output_drop(struct pieces *pieces, struct output *out); /* the same, and takes the lock */
void cofi__output_free(struct output *out); /* the rest */
static inline size_t output_bytes(const struct output *out)
{
    return out->room.bytes + out->events_n * sizeof *out->events;
}

#endif
