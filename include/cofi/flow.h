/* SPDX-License-Identifier: MIT
 * Flow: a stream of packets and the code it ran on -> every block that ran, and what
 * happened between. */
#ifndef COFI_FLOW_H
#define COFI_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/error.h>
#include <cofi/image.h>
#include <cofi/packet.h>
#include <cofi/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One walker over one stream. A recording with several streams (a thread or a processor each)
 * uses one flow a stream: they share nothing but the image, so they may run in parallel, and
 * the caller merges them by time. Not thread safe; distinct flows are independent. */
struct cofi_flow;

/* One instruction that ran. */
struct cofi_flow_insn {
    uint64_t ip;
    uint8_t length; /* bytes */
    uint8_t cls;    /* enum cofi_class */
    uint8_t far;    /* enum cofi_far, for FAR_* and VMENTRY */
    uint8_t mode;   /* 16, 32 or 64 */
    uint32_t block; /* id of the block it was decoded in */
};

/* Instructions that follow each other in memory and ran in this order: decoded once, then shown
 * at each visit. Only the last one is a branch, if any is. Immutable; valid until the next call
 * that advances the flow (ids may then mean something else: see cofi_flow_generation). */
struct cofi_flow_block {
    uint64_t ip;     /* of the first instruction */
    uint64_t end;    /* address behind the last */
    uint64_t target; /* where a direct branch at the end leads, else 0 */
    const struct cofi_flow_insn *insns;
    uint32_t n;      /* how many, at least 1 */
    uint32_t id;     /* dense, from 0 */
    uint8_t cls;     /* class of the last; OTHER: execution went on behind it or left
                      * asynchronously */
    uint8_t far;
    uint8_t mode;
};

/* What happens between blocks. Addresses: `ip` where, `target` where to; UINT64_MAX
 * (COFI_NO_IP): the trace does not tell or it is in no traced place. */
#define COFI_NO_IP UINT64_MAX
#define COFI_FLOW_EVENTS(X)                                                                        \
    X(ENABLED, "enabled")       /* tracing starts at target (TIP.PGE, FUP.PGE; resumed: at the ip  \
                                 * where it was disabled last) */                                  \
    X(DISABLED, "disabled")     /* by the instruction that ran last, at ip; target if told */      \
    X(ASYNC, "async")           /* an interrupt, exception …: at ip (not run), to target */        \
    X(ASYNC_DISABLED, "async-disabled") /* same, and the trace stops there; target if told */      \
    X(OVERFLOW, "overflow")     /* packets were lost; goes on at target, or off if none */         \
    X(GAP, "gap")               /* see struct cofi_flow_gap */                                     \
    X(PAGING, "paging")         /* value: CR3; nr (PT) or pg (RTIT) in a */                        \
    X(VMCS, "vmcs")             /* value: VMCS address */                                          \
    X(MODE, "mode")             /* a: 16, 32, 64; b: RFLAGS.IF with c = 1, unknown with 0 */       \
    X(TSX, "tsx")               /* a: in a transaction, b: aborted */                              \
    X(PTWRITE, "ptwrite")       /* value, a: bytes (4, 8) */                                       \
    X(EXSTOP, "exstop")                                                                            \
    X(MWAIT, "mwait")           /* a: hints, b: extensions */                                      \
    X(PWRE, "pwre")             /* a: C-state as MWAIT encodes it (C1 is 0), b: sub-state, c: by hardware */ \
    X(PWRX, "pwrx")             /* a: last, b: deepest, encoded as that, c: wake reason bits */    \
    X(CBR, "cbr")               /* a: core to bus ratio; RTIT: b: the effective one */             \
    X(STOP, "tracestop")                                                                           \
    X(PSB, "psb")               /* a place to start from; ip: where, if tracing is on */           \
    X(CFE, "cfe")               /* a: type, b: vector, c: 1 if ip is told */                       \
    X(EVD, "evd")               /* a: type, value */                                               \
    X(BBP, "bbp")               /* a: type, b: 1 if items are 4 bytes */                           \
    X(BIP, "bip")               /* a: id, value */                                                 \
    X(BEP, "bep")                                                                                  \
    X(TRIG, "trig")             /* a: vector, b: 1 if value is valid (ICNT: where ip is not told,  \
                                 * so many instructions behind what told a place last), c: MULT */ \
    X(CODE, "code")             /* the image changed: value is how many ranges; a: 1: another      \
                                 * program runs (exec), all of it is new */

enum cofi_flow_event_kind {
#define X(name, text) COFI_FLOW_##name,
    COFI_FLOW_EVENTS(X)
#undef X
    COFI_FLOW_EVENT_KINDS
};

/* The same for a block, in 8 bytes: what the trace had told when the block was
 * decoded. All 0: no time is known. */
struct cofi_flow_stamp {
    uint64_t ticks : 63;
    uint64_t interpolated : 1;
};

struct cofi_flow_event {
    size_t at;        /* happens before blocks[at] of its batch */
    uint64_t offset;  /* of the packet that tells it, bytes from the stream's start; GAP: of the one
                       * that does not fit; where outcomes do not, of the last one before them */
    uint64_t ip, target;
    uint64_t value;
    struct cofi_flow_time time;
    uint8_t kind;     /* enum cofi_flow_event_kind */
    uint8_t a, b, c;  /* see the kinds; RTIT, a of GAP: 8 where [ERR E8] may be why
                       * (so soon behind a PSB), of OVERFLOW: 4 where a TraceSTOP
                       * stands before it, which had no effect [ERR E4] */
    int16_t cause;    /* GAP: enum cofi_status */
    const char *text; /* GAP: which check failed, with its tag; static */
    uint64_t end;     /* GAP: offset where decoding went on; UINT64_MAX: not any more */
    uint64_t since;   /* GAP, OVERFLOW: ticks of a time before, with want_time the last one known */
};

struct cofi_flow_config {
    size_t size;           /* sizeof(struct cofi_flow_config) */
    enum cofi_gen gen;
    uint32_t family, model, stepping; /* of the traced processor: errata [PTREF 9.8];
                                       * 0: none assumed */
    bool ctl_known;        /* ctl below is what the trace was made with, else nothing
                            * is assumed but time.cyc */
    uint64_t ctl;          /* PT: IA32_RTIT_CTL; RTIT: RTIT_CTL */
    /* Filter ranges, if known. PT: IA32_RTIT_ADDRn_A/_B, meaning in ctl's ADDRn_CFG.
     * RTIT: RANGE0 and RANGE1 as base and limit (exclusive); events: RTIT_EVENTS. */
    bool ranges_known;
    uint64_t range_base[4], range_limit[4];
    uint32_t events;
    struct cofi_time_info time;
    uint64_t reference_tsc; /* a TSC at or before the first byte: supplies bits a
                             * packet lacks; 0: none */

    /* The bytes: [bytes, bytes + n); or, with pull set, pieces: each call returns
     * the next one (*n > 0) or sets *n = 0 at the end. A piece must stay valid until
     * the next call. pull may block (a pipe). n is then how many bytes come in all,
     * 0 if that is not known: memory for decoded code is laid out by it. */
    const uint8_t *bytes;
    size_t n;
    const uint8_t *(*pull)(void *opaque, size_t *n);
    uint64_t offset;        /* of the first byte in its stream: added to every offset told */
    uint64_t start;         /* RTIT: offset of the PSB to begin at; what lies before
                             * tells the time only. 0: the first byte */
    const uint8_t *tail;    /* RTIT: bytes of a last packet not written (TNT_BUFF as
                             * read back), or null */
    size_t tail_n;          /* at most COFI_PACKET_MAX */
    bool ends_in_overflow;  /* RTIT: Buffer_Overflow read as 1 when tracing had
                             * ended: shown as a last OVERFLOW */

    /* The code. The image is viewed as of the trace's time; where the configuration
     * (ctl) says that the trace tells no full time, as of that of `bounds`, or of its
     * end where there are none; with code_at_end as of its end. space, if set, is asked
     * at each change of CR3 or VMCS for the image that is then seen (null: keep). */
    const struct cofi_image *image; /* not null */
    const struct cofi_image *(*space)(void *opaque, uint64_t cr3, uint64_t vmcs, bool non_root);
    void *opaque;

    unsigned mode;          /* 16, 32, 64: until the trace tells; 0: that of the ELF
                             * file where tracing begins (RTIT: always), else 64;
                             * COFI_MODE_LATER: the same, but before a PSB code below
                             * 4 GiB of no such file waits until it is told */
    size_t cache_bytes;     /* bound of what is kept of decoded code; 0: 48 MiB */
    bool want_time;         /* fill batch.times: a time for each block, not only for events */
    /* A batch ends with each event behind these (bytes of the stream; ns as in the
     * event's time; 0: none), so that who stops there has decoded nothing beyond it;
     * RTIT's DISABLED may have the ENABLED behind it with it. */
    uint64_t pause_offset, pause_ns;
    bool no_blocks;         /* cofi_flow_parallel: batches come without blocks, and
                             * times, see there */
    /* What is known of the time besides packets, by offset (those of bytes); must outlive
     * the flow. Where the kernel returns to user code, or tracing is enabled, that is as
     * of `least`; code that is not there yet, but is before `most`, is as of when it
     * comes. RTIT: only where the configuration says that the trace tells no full time. */
    const struct cofi_time_bound *bounds;
    size_t bounds_n;
    /* PT: the first byte begins a packet, so that decoding need not wait for a PSB. Before
     * one, it begins at a TIP.PGE that is the first packet of the flow, or else at the first
     * address that does not rest on others. Says nothing of bytes that begin with a PSB. */
    bool synced;
    bool pull_stays; /* what pull returns stays valid for good, not until the next
                      * call only: cofi_flow_parallel need not copy it */
    bool code_at_end; /* all images are viewed as of their ends, so that cofi_flow_bytes
                       * and seeking back keep what was decoded: for programs that map
                       * each address once (a fuzzer's, whose libraries come at a time) */
    /* PT: offsets at which the trace unit's output was full, ascending (those of bytes);
     * must outlive the flow. Up to there a packet may be cut; behind it tracing has begun
     * anew, with a packet, and what ran in between is a GAP of the cause COFI_ERR_FULL. */
    const uint64_t *breaks;
    size_t breaks_n;
};

/* All zero but size, gen and mode 64. The caller sets image, and bytes or pull. */
void cofi_flow_config_init(struct cofi_flow_config *config, enum cofi_gen gen);

/* Copies *config; bytes, image and opaque must outlive the flow. Errors:
 * COFI_ERR_NOMEM, COFI_ERR_RANGE (mode, gen or time.mtc_freq is none, no image, an
 * offset of 2^63 or more, a tail that is longer than a packet, breaks that descend,
 * impossible size), COFI_ERR_UNSUPPORTED (a member that only a newer library knows is
 * set). Inverse: cofi_flow_close. */
int cofi_flow_open(struct cofi_flow **flow, const struct cofi_flow_config *config);
void cofi_flow_close(struct cofi_flow *flow);

/* Blocks and events in the order they happened. Arrays belong to the caller. */
struct cofi_flow_batch {
    const struct cofi_flow_block **blocks; /* null: they are counted, not told; costs less */
    size_t blocks_max;      /* at least COFI_FLOW_BATCH_MIN */
    size_t blocks_n;        /* out */
    struct cofi_flow_stamp *times; /* null (as it must be without blocks), or
                                    * blocks_max of them; filled with want_time */
    struct cofi_flow_event *events;
    size_t events_max;      /* at least 16 */
    size_t events_n;        /* out */
};
enum { COFI_FLOW_BATCH_MIN = 512 };

/* The next batch. A last byte COFI_PT_END_MARK is passed over. Returns 1 if it holds anything,
 * 0 at the stream's end (then and later), or an error that ends the flow: COFI_ERR_NOMEM; bad
 * data is no error but a GAP event, after which it goes on where that is safe: at the next
 * packet with a full address after which the trace can be followed, or the next PSB. Items of a
 * batch are valid until the next call. Cost: 1-5 ns a TNT bit when the code was seen before. */
int cofi_flow_next(struct cofi_flow *flow, struct cofi_flow_batch *batch);

/* Go to the first PSB at or after offset and start afresh there (bytes only, not
 * pull). Code is seen as of the time there; if it changed since, the cache is emptied,
 * and a view asked for before is no more. What follows is what a decode from the start
 * shows; RTIT: behind gaps, until the trace has told an address and the CALLs of
 * compressed RETs. Errors: COFI_ERR_UNSUPPORTED with pull, COFI_ERR_NO_SYNC: no PSB
 * from there (then there is nothing until it is sought again), COFI_ERR_NOMEM. */
int cofi_flow_seek(struct cofi_flow *flow, uint64_t offset);
/* Same, to the last PSB whose time is at or before ticks (RTIT: to the one before it,
 * so that the way is known there), or the first PSB. With config.time.cyc: 65,536 ticks
 * before, for so far may estimates run ahead of the time of a PSB, and what follows it
 * has their time until it is as late. Cost: a search over the PSBs. */
int cofi_flow_seek_time(struct cofi_flow *flow, uint64_t ticks);
/* Start afresh with other bytes over the same code: what was decoded of it stays warm (a fuzzer's
 * next run), unless the image changed in the time of those before: see code_at_end. Stats go on.
 * bytes must stay until the next call. Errors: COFI_ERR_UNSUPPORTED with pull, COFI_ERR_NOMEM. */
int cofi_flow_bytes(struct cofi_flow *flow, const uint8_t *bytes, size_t n);
/* Offset behind the last packet that was read. */
uint64_t cofi_flow_offset(const struct cofi_flow *flow);
/* The code as the batch saw it (symbols, bytes): the flow never changes it within a batch. */
struct cofi_view *cofi_flow_view(struct cofi_flow *flow);
/* Counts up when block ids and pointers of earlier batches stop being valid (the
 * cache was emptied). */
uint32_t cofi_flow_generation(const struct cofi_flow *flow);

/* How complete the decode is, so far. */
struct cofi_flow_stats {
    uint64_t insns, blocks, events, gaps, overflows;
    uint64_t tnt_bits, tips;
    uint64_t bytes;         /* read, since it was opened or sought in last */
    uint64_t lost_bytes;    /* in gaps */
    uint64_t last_ticks, lost_ticks;
    uint64_t cache_bytes;   /* held now, beyond trace and code */
    uint64_t runs, run_misses, blocks_decoded;
    uint64_t span_bytes;    /* of outcomes and targets that were met before and not decoded again */
};
void cofi_flow_stats(const struct cofi_flow *flow, struct cofi_flow_stats *stats);

/* ---- several threads over one stream ---- */

/* Called with each batch, in the stream's order, on the calling thread, and with an
 * empty one at the stream's end. flow may be asked for its view and offset, nothing
 * else, and at the end for its stats (cache_bytes and runs are 0). It, the batch and
 * its blocks are valid until this returns. Not 0: stop, and return that. */
typedef int (*cofi_flow_visit)(void *opaque, struct cofi_flow *flow,
                               const struct cofi_flow_batch *batch);
/* Decode the whole stream with so many threads (0: one), the calling one among them, split at
 * PSBs about every piece_bytes (0: 16 to 128 KiB, by pull 64; by pull whose bytes stay, and RTIT,
 * 256). Batches, put together, are those of cofi_flow_next: what a piece took for granted at its
 * PSB is compared with what the piece before came to, and where that differs (after damage, say)
 * it is decoded again; *redone (may be null) tells how many were. config->space and config->pull,
 * if set, are called from any of the threads, pull by one at a time; bytes that come by pull are
 * copied, unless they stay, and piece_bytes is 64 MiB then at most. With config->no_blocks batches
 * hold events only, as without want_time, and blocks_n tells how many blocks ran: less work, above
 * all for the calling thread, through whose hands the blocks of all threads go. Where PSBs are
 * 1 MiB apart or more the calling thread decodes alone. Memory: 16 MiB of decoded pieces; by pull
 * 4 * threads + 4 pieces with at most 1 MiB more each than piece_bytes. Errors: those of
 * cofi_flow_open. */
int cofi_flow_parallel(const struct cofi_flow_config *config, unsigned threads, size_t piece_bytes,
                       cofi_flow_visit visit, void *opaque, uint64_t *redone);

/* ---- views of a batch: instructions, branches ---- */

/* A place in a batch; all zero at its start. */
struct cofi_flow_cursor {
    size_t block, insn;
};
/* Write up to max instructions of the batch from the cursor on, stopping before the
 * block at `until` (pass events[i].at to stop where an event happens, batch.blocks_n
 * for all). Returns how many; fewer than max: until is reached. */
size_t cofi_flow_insns(const struct cofi_flow_batch *batch, struct cofi_flow_cursor *cursor,
                       size_t until, struct cofi_flow_insn *out, size_t max);

/* A branch that was taken or not, from the last instruction of a block. */
struct cofi_flow_branch {
    uint64_t from, to;  /* to: COFI_NO_IP where the batch ends or the trace leaves */
    uint8_t cls;        /* enum cofi_class */
    bool taken;
};
size_t cofi_flow_branches(const struct cofi_flow_batch *batch, struct cofi_flow_cursor *cursor,
                          size_t until, struct cofi_flow_branch *out, size_t max);

/* ---- view: coverage ---- */

/* What to count. Counting adds up over calls and flows; the result does not depend
 * on how a stream was cut. Any may be null. */
struct cofi_flow_coverage {
    /* AFL's map: map[(edge hash) & (map_size - 1)]++ saturating at 255 if saturate,
     * else modulo 256; for each transition between blocks. map_size: with a map a
     * power of 2. The hash is cofi_flow_edge. */
    uint8_t *map;
    size_t map_size;
    bool saturate;
    /* Called at the end of each cofi_flow_cover with every block that ran since the
     * last, and how often. */
    void (*block)(void *opaque, const struct cofi_flow_block *block, uint64_t count);
    void *opaque;
    uint64_t insns;         /* added to */
    uint64_t edges;
    /* Called with each block when it is decoded, while cofi_flow_view shows the code that it
     * is: it may show other code there when `block` is called. Not with those that an
     * earlier call has decoded. An id is another block's after it was told by `block`. */
    void (*decoded)(void *opaque, const struct cofi_flow_block *block);
    /* Called, in no order and at the end at the latest, with blocks that a
     * conditional branch ends: how often it was taken, or not. What the trace does
     * not tell (packets were lost behind it, say) is not counted. */
    void (*outcome)(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count);
    struct cofi_flow *flow; /* out: the one that counts, while it does; `decoded` may
                             * ask cofi_flow_view of it */
};
/* Decode the rest of the stream and count, without materialising blocks. Events
 * other than GAP and OVERFLOW are not shown; these are counted in the stats. Returns
 * 0, COFI_ERR_RANGE (map_size; nothing was decoded) or COFI_ERR_NOMEM. Cost: 0.3 to
 * 4 ns a TNT bit when the code was seen before, see docs/performance.md. */
int cofi_flow_cover(struct cofi_flow *flow, struct cofi_flow_coverage *coverage);
/* The same by several threads, the calling one among them (0: one), as cofi_flow_parallel splits a
 * stream. coverage: one for each (at least one), distinct maps, whose callbacks that thread calls;
 * their sums (saturated, where they saturate) are what cofi_flow_cover counts. stats: filled, or
 * null. Other parameters, memory and errors: those of cofi_flow_parallel; and COFI_ERR_RANGE. */
int cofi_flow_cover_parallel(const struct cofi_flow_config *config, unsigned threads,
                             size_t piece_bytes, struct cofi_flow_coverage *coverage,
                             struct cofi_flow_stats *stats, uint64_t *redone);
/* The index of an edge before the mask. */
uint64_t cofi_flow_edge(uint64_t from_block_ip, uint64_t to_block_ip);

const char *cofi_flow_event_name(enum cofi_flow_event_kind kind);

#ifdef __cplusplus
}
#endif
#endif
