/* SPDX-License-Identifier: MIT
 * A flow's blocks -> how often each ran, at its place in its module; transitions -> AFL's map. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"
#include "base/sized.h"
#include "flow/edge.h"

/* ---- opening ---- */

static int init(struct cofi_coverage *coverage)
{
    coverage->modules_n = coverage->places_n = coverage->age = 1;
    coverage->pid = -1;
    COFI_TRY(cofi__strings_init(&coverage->strings));
    COFI_TRY(cofi__index_init(&coverage->by_path));
    COFI_TRY(cofi__index_init(&coverage->by_place));
    COFI_TRY(cofi__array_grow(&coverage->places, &coverage->places_room, 0, sizeof *coverage->places));
    coverage->places[0] = (struct place_count){0};
    if (coverage->options.targets || coverage->options.ways)
        COFI_TRY(cofi__target_init(coverage));
    if (!coverage->options.edges)
        return 0;
    coverage->map = calloc(1, COFI_COVERAGE_MAP);
    return coverage->map ? 0 : COFI_ERR_NOMEM;
}

int cofi_coverage_open(struct cofi_coverage **out, const struct cofi_coverage_options *options)
{
    struct cofi_coverage_options known;
    COFI_TRY(cofi__sized(&known, sizeof known, options, offsetof(struct cofi_coverage_options, names), NULL));
    struct cofi_coverage *coverage = calloc(1, sizeof *coverage);
    if (!coverage)
        return COFI_ERR_NOMEM;
    coverage->options = known;
    int status = init(coverage);
    if (status < 0) {
        cofi_coverage_close(coverage);
        return status;
    }
    *out = coverage;
    return 0;
}

void cofi_coverage_close(struct cofi_coverage *coverage)
{
    if (!coverage)
        return;
    cofi__coverage_sources_free(coverage);
    cofi__coverage_modules_free(coverage);
    cofi__strings_fini(&coverage->strings);
    free((void *)(uintptr_t)coverage->results);
    free(coverage->places);
    cofi__index_free(&coverage->by_place);
    cofi__target_free(coverage);
    free(coverage->lengths);
    free(coverage->rows);
    free(coverage->map);
    free(coverage);
}

/* ---- places ---- */

static uint32_t place_hash(const struct place_count *place)
{
    return cofi__hash(place->addr, (uint64_t)place->module << 32 | (uint64_t)place->function << 8 | place->n);
}

static bool is_same(const struct cofi_coverage *coverage, const struct place_count *a, const struct place_count *b,
                    const uint8_t *lengths)
{
    return a->addr == b->addr && a->module == b->module && a->function == b->function && a->n == b->n &&
           a->size == b->size && a->cls == b->cls && !memcmp(coverage->lengths + a->lengths, lengths, a->n);
}

static int keep_lengths(struct cofi_coverage *coverage, const uint8_t *lengths, uint16_t n, uint32_t *at)
{
    if (coverage->lengths_n + n > UINT32_MAX)
        return COFI_ERR_NOMEM;
    for (*at = (uint32_t)coverage->lengths_n; n; n--) {
        COFI_TRY(cofi__array_grow(&coverage->lengths, &coverage->lengths_room, coverage->lengths_n, 1));
        coverage->lengths[coverage->lengths_n++] = *lengths++;
    }
    return 0;
}

/* The row of a place, new if need be; *place without lengths and count. 0: out of memory. */
static uint32_t put(struct cofi_coverage *coverage, const struct place_count *place, const uint8_t *lengths)
{
    uint32_t hash = place_hash(place), at = hash, row;
    do
        row = cofi__index_next(&coverage->by_place, hash, &at);
    while (row && !is_same(coverage, &coverage->places[row], place, lengths));
    if (row)
        return row;
    struct place_count made = *place;
    made.count = made.outcomes[0] = made.outcomes[1] = 0;
    if (cofi__array_grow(&coverage->places, &coverage->places_room, coverage->places_n, sizeof made) < 0 ||
        keep_lengths(coverage, lengths, place->n, &made.lengths) < 0 ||
        cofi__index_add(&coverage->by_place, hash, (uint32_t)coverage->places_n) < 0)
        return 0;
    coverage->places[coverage->places_n] = made;
    return (uint32_t)coverage->places_n++;
}

/* The function that a block of code without tables is in, + 1; 0: none is told. Negative: out of memory. */
static int64_t function_at(struct cofi_coverage *coverage, struct cofi_view *view, uint32_t module, uint64_t ip,
                           uint64_t base)
{
    struct cofi_symbol symbol;
    cofi_view_symbol(view, ip, false, &symbol);
    if (!symbol.name)
        return cofi_view_incomplete(view) ? COFI_ERR_NOMEM : 0;
    uint32_t function = cofi__coverage_function(coverage, &coverage->modules[module], ip - base - symbol.offset,
                                                symbol.name);
    return function ? (int64_t)function : COFI_ERR_NOMEM;
}

/* Where a block of the flow belongs, as the view shows it now. */
static int resolve(struct cofi_coverage *coverage, struct cofi_view *view, const struct cofi_flow_block *block,
                   struct id_row *row)
{
    uint64_t base;
    uint8_t lengths[UINT8_MAX];
    int module = cofi__coverage_module_at(coverage, view, block->ip, &base);
    COFI_TRY(module);
    const struct covered_module *known = &coverage->modules[module];
    if (!known->wanted)
        return 0;
    row->edge = edge_hash(block->ip - base + known->edge_key);
    int64_t function = known->named ? function_at(coverage, view, (uint32_t)module, block->ip, base) : 0;
    if (function < 0)
        return COFI_ERR_NOMEM;
    assert(block->n && block->n <= sizeof lengths); /* a flow's are shorter */
    for (uint32_t i = 0; i < block->n; i++)
        lengths[i] = block->insns[i].length;
    const struct place_count place = {.addr = block->ip - base, .module = (uint32_t)module,
                                      .function = (uint32_t)function, .size = (uint16_t)(block->end - block->ip),
                                      .n = (uint16_t)block->n, .cls = block->cls};
    row->place = put(coverage, &place, lengths);
    return row->place ? 0 : COFI_ERR_NOMEM;
}

/* ---- counting ---- */

static void count_target(struct cofi_coverage *coverage, const struct id_row *row, uint64_t to)
{
    int status = cofi__target(coverage, row, to);
    if (status < 0)
        coverage->status = status;
}

enum { LED_AWAY = 1 }; /* no target: a branch that was taken to where nobody knows */

/* The last block's branch led there; COFI_NO_IP: nobody knows where. */
static void end_outcome(struct cofi_coverage *coverage, uint64_t to)
{
    if (!coverage->open)
        return;
    struct id_row *row = &coverage->rows[coverage->last];
    row->taken += to != COFI_NO_IP && to - row->ip != row->size;
    row->untold += to == COFI_NO_IP;
    if (row->targets && to != COFI_NO_IP && to != LED_AWAY)
        count_target(coverage, row, to);
    coverage->open = false;
}

static void let_go(struct cofi_coverage *coverage, struct id_row *row)
{
    struct place_count *place = &coverage->places[row->place];
    place->count += row->count;
    if (row->jcc) {
        place->outcomes[0] += row->count - row->taken - row->untold;
        place->outcomes[1] += row->taken;
    }
    *row = (struct id_row){0};
}

/* What rows have counted goes to their places; ids are other blocks' from now on. */
void cofi__coverage_settle(struct cofi_coverage *coverage)
{
    end_outcome(coverage, COFI_NO_IP);
    for (size_t i = 0; i < coverage->rows_n; i++)
        let_go(coverage, &coverage->rows[i]);
    coverage->view = NULL;
    coverage->edge = 0;
}

static int make_rows(struct cofi_coverage *coverage, uint32_t id)
{
    size_t n = coverage->rows_n ? coverage->rows_n : 1024;
    while (n <= id)
        n *= 2;
    struct id_row *rows = n > coverage->rows_n ? realloc(coverage->rows, n * sizeof *rows) : coverage->rows;
    if (!rows)
        return COFI_ERR_NOMEM;
    memset(rows + coverage->rows_n, 0, (n - coverage->rows_n) * sizeof *rows);
    coverage->rows = rows;
    coverage->rows_n = n;
    return 0;
}

static bool counts_targets(const struct cofi_coverage *coverage, uint8_t cls)
{
    bool indirect = cls == COFI_CLASS_JMP_IND || cls == COFI_CLASS_CALL_IND;
    bool near = indirect || cls == COFI_CLASS_JCC || cls == COFI_CLASS_JMP || cls == COFI_CLASS_CALL ||
                cls == COFI_CLASS_RET;
    return coverage->recent && (coverage->options.ways ? near : indirect);
}

/* The row of a block that was not seen before, or whose code may be another. */
static int renew(struct cofi_coverage *coverage, struct cofi_view *view, const struct cofi_flow_block *block)
{
    COFI_TRY(make_rows(coverage, block->id));
    struct id_row *row = &coverage->rows[block->id];
    if (row->count)
        let_go(coverage, row);
    *row = (struct id_row){.ip = block->ip, .n = (uint16_t)block->n,
                           .size = (uint16_t)(block->target == block->end ? 0 : block->end - block->ip),
                           .age = coverage->age, .jcc = block->cls == COFI_CLASS_JCC};
    COFI_TRY(resolve(coverage, view, block, row));
    if (row->place && counts_targets(coverage, block->cls))
        row->targets = block->cls;
    return 0;
}

static void count_edge(struct cofi_coverage *coverage, const struct id_row *row)
{
    if (coverage->edge && row->edge) {
        uint8_t *at = &coverage->map[edge_index(coverage->edge, row->edge) % COFI_COVERAGE_MAP];
        *at += *at < UINT8_MAX;
    }
    coverage->edge = row->edge; /* 0 of a module that is not wanted */
}

int cofi_coverage_blocks(struct cofi_coverage *coverage, struct cofi_view *view,
                         const struct cofi_flow_block *const *blocks, size_t n)
{
    if (!n)
        return 0;
    if (view != coverage->view) {
        coverage->view = view;
        coverage->age++;
        end_outcome(coverage, COFI_NO_IP);
    }
    end_outcome(coverage, blocks[0]->ip);
    for (size_t i = 0; i < n; i++) {
        const struct cofi_flow_block *block = blocks[i];
        struct id_row *row = block->id < coverage->rows_n ? &coverage->rows[block->id] : NULL;
        if (!row || row->ip != block->ip || row->n != block->n || row->age != coverage->age) {
            COFI_TRY(renew(coverage, view, block));
            row = &coverage->rows[block->id];
        }
        row->count++;
        if (i + 1 < n)
            row->taken += blocks[i + 1]->ip - row->ip != row->size;
        if (i + 1 < n && row->targets)
            count_target(coverage, row, blocks[i + 1]->ip);
        if (coverage->map)
            count_edge(coverage, row);
    }
    coverage->open = true;
    coverage->last = blocks[n - 1]->id;
    return coverage->status;
}

/* Transitions that no branch made are no edges, as for cofi_flow_cover. */
static bool breaks_edges(uint8_t kind)
{
    return kind == COFI_FLOW_ENABLED || kind == COFI_FLOW_DISABLED || kind == COFI_FLOW_ASYNC ||
           kind == COFI_FLOW_ASYNC_DISABLED || kind == COFI_FLOW_OVERFLOW || kind == COFI_FLOW_GAP;
}

/* Where the block before an event led: to what was interrupted, or to code that is not there; or, of a
 * branch that left the traced region, to its target, as only taken ones do that have no outcome
 * [PTREF 6.2]. RTIT's have one; the event's address is that behind them. */
static uint64_t led_to(const struct cofi_coverage *coverage, const struct cofi_flow_event *event)
{
    const struct id_row *row = coverage->open ? &coverage->rows[coverage->last] : NULL;
    if (event->kind == COFI_FLOW_ASYNC || event->kind == COFI_FLOW_ASYNC_DISABLED)
        return event->ip;
    if (row && row->targets && !row->jcc)
        return event->kind == COFI_FLOW_DISABLED  ? event->target
               : event->cause == COFI_ERR_NO_CODE ? event->ip
                                                  : COFI_NO_IP;
    bool left = event->kind == COFI_FLOW_DISABLED && row && event->ip - row->ip < row->size;
    return left ? LED_AWAY : COFI_NO_IP;
}

void cofi_coverage_event(struct cofi_coverage *coverage, const struct cofi_flow_event *event)
{
    if (event->kind == COFI_FLOW_CODE)
        coverage->age++;
    if (!breaks_edges(event->kind))
        return;
    end_outcome(coverage, led_to(coverage, event));
    coverage->edge = 0;
}

void cofi_coverage_process(struct cofi_coverage *coverage, int32_t pid)
{
    if (pid != coverage->pid)
        coverage->age++;
    coverage->pid = pid;
    coverage->edge = 0;
    end_outcome(coverage, COFI_NO_IP);
}

/* ---- a whole flow at once ---- */

/* See `decoded` of struct cofi_flow_coverage. */
static void on_decoded(void *opaque, const struct cofi_flow_block *block)
{
    struct cofi_coverage *coverage = opaque;
    if (coverage->status >= 0)
        coverage->status = renew(coverage, cofi_flow_view(coverage->cover->flow), block);
}

static struct place_count *place_of(struct cofi_coverage *coverage, const struct cofi_flow_block *block)
{
    if (coverage->status >= 0 && (block->id >= coverage->rows_n || coverage->rows[block->id].ip != block->ip))
        on_decoded(coverage, block); /* before this call */
    return &coverage->places[coverage->status >= 0 ? coverage->rows[block->id].place : 0];
}

static void on_block(void *opaque, const struct cofi_flow_block *block, uint64_t count)
{
    place_of(opaque, block)->count += count;
}

static void on_outcome(void *opaque, const struct cofi_flow_block *block, bool taken, uint64_t count)
{
    place_of(opaque, block)->outcomes[taken] += count;
}

static void begin_flow(struct cofi_coverage *coverage, struct cofi_flow_coverage *cover)
{
    *cover = (struct cofi_flow_coverage){.block = on_block, .decoded = on_decoded, .outcome = on_outcome,
                                         .opaque = coverage};
    cofi__coverage_settle(coverage);
    coverage->cover = cover;
    coverage->status = 0;
}

int cofi_coverage_flow(struct cofi_coverage *coverage, struct cofi_flow *flow)
{
    struct cofi_flow_coverage cover;
    begin_flow(coverage, &cover);
    COFI_TRY(cofi_flow_cover(flow, &cover));
    cofi__coverage_settle(coverage);
    return coverage->status;
}

/* Others that count the same, each for a thread; the first is there. */
static int open_others(struct cofi_coverage **all, struct cofi_flow_coverage *covers, unsigned n)
{
    for (unsigned i = 1; i < n; i++) {
        COFI_TRY(cofi_coverage_open(&all[i], &all[0]->options));
        all[i]->pid = all[0]->pid;
    }
    for (unsigned i = 0; i < n; i++)
        begin_flow(all[i], &covers[i]);
    return 0;
}

/* What they counted is added to the first. */
static int add_others(struct cofi_coverage **all, unsigned n)
{
    cofi__coverage_settle(all[0]);
    COFI_TRY(all[0]->status);
    for (unsigned i = 1; i < n; i++)
        COFI_TRY(cofi_coverage_add(all[0], all[i]));
    return 0;
}

int cofi_coverage_parallel(struct cofi_coverage *coverage, const struct cofi_flow_config *config, unsigned threads,
                           struct cofi_flow_stats *stats)
{
    unsigned n = threads ? threads : 1;
    struct cofi_coverage **all = calloc(n, sizeof *all);
    struct cofi_flow_coverage *covers = calloc(n, sizeof *covers);
    int status = COFI_ERR_NOMEM;
    if (all && covers) {
        all[0] = coverage;
        status = open_others(all, covers, n);
    }
    if (status >= 0)
        status = cofi_flow_cover_parallel(config, n, 0, covers, stats, NULL);
    if (status >= 0)
        status = add_others(all, n);
    for (unsigned i = 1; all && i < n; i++)
        cofi_coverage_close(all[i]);
    free(covers);
    free(all);
    return status;
}

/* ---- adding ---- */

/* Module and function of a place, as the other coverage numbers them. */
static int translate(struct cofi_coverage *to, const struct cofi_coverage *from, struct place_count *place,
                     const int *modules)
{
    const struct covered_module *module = &from->modules[place->module];
    place->module = (uint32_t)modules[place->module];
    if (!place->function || !to->modules[place->module].named) {
        place->function = 0;
        return 0;
    }
    const struct known_function *function = &module->functions[place->function - 1];
    place->function = cofi__coverage_function(to, &to->modules[place->module], function->addr, function->name);
    return place->function ? 0 : COFI_ERR_NOMEM;
}

/* rows: which they have become. */
static int add_places(struct cofi_coverage *to, const struct cofi_coverage *from, const int *modules, uint32_t *rows)
{
    for (size_t i = 1; i < from->places_n; i++) {
        struct place_count place = from->places[i];
        COFI_TRY(translate(to, from, &place, modules));
        uint32_t row = put(to, &place, from->lengths + from->places[i].lengths);
        if (!row)
            return COFI_ERR_NOMEM;
        to->places[row].count += place.count;
        to->places[row].outcomes[0] += place.outcomes[0];
        to->places[row].outcomes[1] += place.outcomes[1];
        rows[i] = row;
    }
    return 0;
}

static void add_map(uint8_t *to, const uint8_t *from)
{
    for (size_t i = 0; i < COFI_COVERAGE_MAP; i++)
        to[i] = from[i] > UINT8_MAX - to[i] ? UINT8_MAX : (uint8_t)(to[i] + from[i]);
}

int cofi_coverage_add(struct cofi_coverage *to, struct cofi_coverage *from)
{
    cofi__coverage_settle(from);
    if (to->map && from->map)
        add_map(to->map, from->map);
    int *modules = calloc(from->modules_n, sizeof *modules);
    uint32_t *places = calloc(from->places_n, sizeof *places);
    int status = modules && places ? from->status : COFI_ERR_NOMEM;
    for (size_t i = 1; i < from->modules_n && status >= 0; i++)
        status = modules[i] = cofi__coverage_module_like(to, &from->modules[i]);
    if (status >= 0)
        status = add_places(to, from, modules, places);
    if (status >= 0)
        status = cofi__target_add(to, from, places, modules);
    free(places);
    free(modules);
    return status < 0 ? status : 0;
}

const uint8_t *cofi_coverage_map(const struct cofi_coverage *coverage) { return coverage->map; }
