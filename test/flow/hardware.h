/* SPDX-License-Identifier: MIT
 * A decode of a trace that a model of a processor made, and what it said. */
#ifndef COFI_TEST_FLOW_HARDWARE_H
#define COFI_TEST_FLOW_HARDWARE_H

#include <cofi/flow.h>

#include "log.h"
#include "reference/hw.h"

/* The trace in hand, and its seed. */
extern struct hw hw;
extern uint64_t seed_now;

/* Conditional branches, found by their addresses: how often each ran, was not taken, taken; or no outcome was in the trace. */
enum { JCC_ROWS = 1 << 10 };
struct jcc {
    uint64_t ip, end, target;
    uint32_t ran, led[2], untold;
};

struct said {
    uint64_t *ips;
    size_t n, max;
    struct hw_event *events; /* value of a gap: its end */
    size_t events_n, events_max;
    uint64_t last_ticks;
    bool damaged;         /* the bytes are: time may go back */
    uint8_t map[1 << 12]; /* of edges, block by block */
    uint64_t last_block;  /* 0: no edge leads on */
    uint64_t sum;         /* of all instructions, in any order */
    struct jcc jccs[JCC_ROWS];
    struct jcc *open;     /* of the block that ran last, null: none; it leads to what comes next */
    char gap[200];        /* the first one */
};

void hear(struct said *said, const struct cofi_flow_batch *batch);
void forget(struct said *said);
/* The last few instructions before a place, as text. */
const char *way_to(const uint64_t *ips, size_t n);

/* All of the program. */
struct cofi_image *image_of_code(void);
/* Without the segments of a mask, by their numbers. */
struct cofi_image *image_without(unsigned segments);
struct cofi_flow_config configuration(const struct cofi_image *image);
struct cofi_flow_batch batch_of(bool times);
struct cofi_flow *flow_of(const struct cofi_flow_config *config);
/* Decode to the end; said and log may be null. */
void all(struct cofi_flow *flow, bool times, struct said *said, struct log *log);
/* The same trace in other ways must be told in the same words: in pieces of many sizes, by threads from a few PSBs or from each, with all code known. */
void assert_same_in_pieces(struct cofi_flow_config config, const struct log *whole);
void assert_same_by_threads(const struct cofi_flow_config *config, const struct log *serial);
void assert_same_again(struct cofi_flow *flow, const struct cofi_flow_config *config, const struct log *cold);
/* Whether time is asked for or not, the same ran, and but for their times there were the same events. */
void assert_same_at_other_times(struct cofi_flow_config config, const struct said *said);
/* Where cycles do not estimate it, time is what the last packet about it has told. */
void assert_true_times(const struct said *said);
/* Counted is what was said, with code that is new and with code that is known. */
void assert_same_coverage(const struct cofi_flow_config *config, const struct said *said);
/* COFI_SAVE=FILE: the trace. */
void save(void);
/* COFI_COUNT seeds from COFI_SEED on. */
void each_seed(void (*judge)(uint64_t seed));

#endif
