/* SPDX-License-Identifier: MIT
 * Runs that are kept, by the address and the outcomes that they are looked up with. */
#include "flow/run.h"

#include <string.h>

static uint64_t slot_tag(uint64_t key) { return key >> TAG_SHIFT << TAG_SHIFT; }

/* Where a key is, or would be. */
static uint64_t *slot_at(struct cofi_flow *flow, uint64_t key)
{
    size_t s = slot_first(flow, key);
    while (flow->cache.runs[s].word && (flow->cache.runs[s].word ^ key) >> TAG_SHIFT)
        s = (s + 1) & (flow->cache.runs_size - 1);
    return &flow->cache.runs[s].word;
}

/* Put a run under a key, in the place of one that was there if it is younger. */
static void insert(struct cofi_flow *flow, uint64_t key, const struct run *run, bool younger)
{
    uint64_t *word = slot_at(flow, key);
    flow->cache.runs_n += !*word;
    if (!*word || younger)
        *word = slot_tag(key) | (uint64_t)(uintptr_t)run;
}

static const struct run stub = {.kind = RUN_STUB};

/* Behind a stub for each of its guards. */
static void insert_run(struct cofi_flow *flow, const struct run *run, bool younger)
{
    uint64_t key = run_key(run->entry->pub.ip, run->entry->space, run->asked);
    for (unsigned i = 0; i < run->guards; i++) {
        insert(flow, key, &stub, younger);
        key = run_key_with(key, run->list[run->blocks + run->calls + i]);
    }
    insert(flow, key, run, younger);
}

/* Slots for one more run. A run that is not found is made again, so what does not lie in them is no error. */
static bool runs_grow(struct cofi_flow *flow)
{
    if ((flow->cache.runs_n + RUN_POPS) * 2 < flow->cache.runs_size)
        return true;
    size_t size = flow->cache.runs_size ? flow->cache.runs_size * 4 : 1 << 14;
    struct run_slot *slots = cofi__table_take(&flow->cache.chunks, size * sizeof *slots);
    if (!slots)
        return false;
    cofi__table_free(&flow->cache.chunks, flow->cache.runs, flow->cache.runs_size * sizeof *slots);
    flow->cache.runs = slots;
    flow->cache.runs_size = size;
    flow->cache.runs_n = 0;
    for (const struct run *run = flow->cache.youngest; run; run = run->older)
        if (!run->entry->dead)
            insert_run(flow, run, false);
    return true;
}

struct run *cofi__run_keep(struct cofi_flow *flow)
{
    const struct run *made = flow->build;
    size_t size = sizeof *made + (made->blocks + made->calls + made->guards) * sizeof made->list[0];
    struct run *run = cofi__arena_take(&flow->cache.chunks, &flow->cache.runs_arena, (size + 63) & ~(size_t)63);
    if (!run)
        return NULL;
    memcpy(run, made, size);
    run->older = flow->cache.youngest;
    flow->cache.youngest = run;
    if (runs_grow(flow))
        insert_run(flow, run, true);
    return run;
}
