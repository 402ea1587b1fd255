/* SPDX-License-Identifier: MIT
 * The first bytes of a raw stream -> the mode of its code, by decoding them in both
 * (docs/decisions/0622-the-mode-by-trial.md). */
#include "raw_mode.h"

#include "cli.h"

/* What came of a trial. */
struct tried {
    uint64_t errors, decided; /* gaps where code and packets do not fit each other; outcomes and targets
                               * that led through code */
    uint64_t low;             /* blocks below 4 GiB; above there is only 64-bit code */
};

/* Missing code, lost packets and damaged ones say nothing of the mode. */
static bool is_of_mode(const struct cofi_flow_event *event)
{
    return event->kind == COFI_FLOW_GAP && (event->cause == COFI_ERR_MISMATCH || event->cause == COFI_ERR_BAD_INSN ||
                                            event->cause == COFI_ERR_BAD_RETC);
}

static struct tried try_mode(struct cofi_flow_config config, unsigned mode)
{
    const struct cofi_flow_block *blocks[512];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 512, .events = events, .events_max = 64};
    struct cofi_flow_stats stats;
    struct tried tried = {0};
    struct cofi_flow *flow;
    config.mode = mode;
    if (cofi_flow_open(&flow, &config) < 0)
        return tried;
    while (cofi_flow_next(flow, &batch) > 0) {
        for (size_t i = 0; i < batch.events_n; i++)
            tried.errors += is_of_mode(&events[i]);
        for (size_t i = 0; i < batch.blocks_n; i++)
            tried.low += !(blocks[i]->ip >> 32);
    }
    cofi_flow_stats(flow, &stats);
    tried.decided = stats.tnt_bits + stats.tips;
    cofi_flow_close(flow);
    return tried;
}

unsigned raw_mode_try(const struct cofi_flow_config *config, const uint8_t *bytes, size_t n, const char *command,
                      const char *name)
{
    struct cofi_flow_config head = *config;
    head.bytes = bytes;
    head.n = n;
    head.pull = NULL;
    head.offset = head.start = head.pause_offset = 0;
    head.want_time = false;
    struct tried as64 = try_mode(head, 64), as32 = try_mode(head, 32);
    if (as32.errors || as32.decided < as64.decided || !as32.low)
        return 64;
    bool only32 = as64.errors;
    complain("%s: %s: nothing tells the mode of its code: taken for %s (--mode tells it)", command, name,
             only32 ? "32-bit code, for as 64-bit code it does not fit the trace"
                    : "64-bit code, though as 32-bit code it fits the trace, too");
    return only32 ? 32 : 64;
}
