/* SPDX-License-Identifier: MIT
 * A flow's blocks -> steps: where each is, by numbers that both runs share, and how deep. */
#include <stdlib.h>
#include <string.h>

#include "analyze/diff.h"
#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/strings.h"

/* ---- names ---- */

static int add_name(struct cofi_diff *diff, const struct diff_name *name, uint32_t hash)
{
    char *copy = strdup(name->text);
    if (!copy || cofi__array_grow(&diff->names, &diff->names_room, diff->names_n, sizeof *diff->names) < 0 ||
        cofi__index_add(&diff->by_name, hash, (uint32_t)diff->names_n) < 0) {
        free(copy);
        return COFI_ERR_NOMEM;
    }
    diff->names[diff->names_n] = (struct diff_name){copy, name->of, name->nth};
    return (int)diff->names_n++;
}

/* The number of a name, known or new, or COFI_ERR_NOMEM. */
static int name_number(struct cofi_diff *diff, const struct diff_name *name)
{
    uint32_t hash = cofi__hash(cofi__text_hash(name->text), (uint64_t)name->nth << 32 | name->of), at = hash, row;
    while ((row = cofi__index_next(&diff->by_name, hash, &at)))
        if (diff->names[row].of == name->of && diff->names[row].nth == name->nth &&
            !strcmp(diff->names[row].text, name->text))
            return (int)row;
    return add_name(diff, name, hash);
}

/* ---- modules ---- */

/* Files of one name, and what a JIT has called the same, are told from each other by which of them ran first. */
static int next_namesake(struct diff_run *run, char *text)
{
    int first = name_number(run->diff, &(struct diff_name){.text = text});
    const uint32_t *known = first > 0 ? cofi__map_get(&run->namesakes, (uint64_t)first, 0) : NULL;
    uint32_t nth = known ? *known : 0;
    if (first < 0 || cofi__map_put(&run->namesakes, (uint64_t)first, 0, nth + 1) < 0)
        return COFI_ERR_NOMEM;
    return nth ? name_number(run->diff, &(struct diff_name){.text = text, .nth = nth}) : first;
}

/* Of memory of no file there is one piece or another: its functions have their own names. function: what
 * is asked for; null: it has none. */
static int module_number(struct diff_run *run, const struct cofi_module_info *info, const char *function)
{
    bool jit = function && !info->of_file && !strcmp(info->path, "[jit]");
    char *text = (char *)(uintptr_t)(jit ? function : cofi__file_name(info->path));
    return jit || info->of_file ? next_namesake(run, text) : name_number(run->diff, &(struct diff_name){.text = text});
}

static const struct diff_module *add_module(struct diff_run *run, const struct cofi_module *module,
                                            const char *function)
{
    const struct cofi_diff_options *options = &run->diff->options;
    struct cofi_module_info info;
    cofi_module_info(module, &info);
    int number = module_number(run, &info, function);
    if (number < 0 || cofi__array_grow(&run->modules, &run->modules_room, run->modules_n, sizeof *run->modules) < 0 ||
        cofi__map_put(&run->by_module, (uintptr_t)module, 0, (uint32_t)run->modules_n) < 0)
        return NULL;
    bool by_function = !info.of_file || (options->rebuilt && options->rebuilt(options->opaque, info.path));
    run->modules[run->modules_n] = (struct diff_module){(uint32_t)number, info.of_file, by_function};
    return &run->modules[run->modules_n++];
}

/* Null: out of memory. */
static const struct diff_module *find_module(struct diff_run *run, const struct cofi_module *module,
                                             const char *function)
{
    const uint32_t *known = cofi__map_get(&run->by_module, (uintptr_t)module, 0);
    return known ? &run->modules[*known] : add_module(run, module, function);
}

/* ---- places ---- */

/* Where something is in what has a number; no address of user or kernel is like that. */
static uint64_t place_in(uint32_t number, uint64_t offset)
{
    return UINT64_C(1) << 63 | (uint64_t)number << 32 | (uint32_t)offset;
}

static int place_in_function(struct cofi_diff *diff, const struct diff_module *module, const struct cofi_symbol *symbol,
                             uint64_t *place)
{
    int number = name_number(diff, &(struct diff_name){.text = (char *)(uintptr_t)symbol->name, .of = module->number});
    if (number < 0)
        return number;
    *place = place_in((uint32_t)number, symbol->offset);
    return 0;
}

/* "x.cold" and "x.cold.0" have it, Go's "x.coldest" has not. */
static bool is_added(const char *at, const char *added)
{
    size_t n = strlen(added);
    bool whole = added[n - 1] == '.' || added[n - 1] == ' ';
    return whole || !at[n] || at[n] == '.' || at[n] == ']';
}

size_t cofi_diff_plain_name(const char *name)
{
    static const char *const added[] = {".cold",  ".part.",     ".isra.",      ".constprop.",
                                        ".llvm.", ".lto_priv.", ".localalias", " [clone "};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        const char *at = strstr(name, added[i]);
        while (at && (at == name || !is_added(at, added[i])))
            at = strstr(at + 1, added[i]);
        if (at && (size_t)(at - name) < n)
            n = (size_t)(at - name);
    }
    return n;
}

/* By the function alone. */
static int place_of_function(struct cofi_diff *diff, const struct diff_module *module, const struct cofi_symbol *symbol,
                             uint64_t *place)
{
    struct cofi_symbol function = *symbol;
    char *plain = strndup(symbol->name, cofi_diff_plain_name(symbol->name));
    if (!plain)
        return COFI_ERR_NOMEM;
    function.name = plain;
    function.offset = 0;
    int status = place_in_function(diff, module, &function, place);
    free(plain);
    return status;
}

/* By the function where that is what stays the same; else by the module's own addresses, or as it is. */
static int find_place(struct diff_run *run, uint64_t ip, const struct cofi_symbol *symbol, uint64_t *place)
{
    uint64_t base = 0;
    const struct cofi_module *shown = cofi_view_module(run->view, ip, &base);
    *place = ip;
    if (!shown)
        return 0;
    const struct diff_module *module = find_module(run, shown, symbol->name);
    if (!module)
        return COFI_ERR_NOMEM;
    if (run->diff->options.calls && symbol->name)
        return place_of_function(run->diff, module, symbol, place);
    if (module->by_function && symbol->name)
        return place_in_function(run->diff, module, symbol, place);
    if (module->of_file)
        *place = place_in(module->number, ip - base);
    return 0;
}

static int ask(struct diff_run *run, struct diff_place *row, uint64_t ip)
{
    const struct cofi_diff_options *options = &run->diff->options;
    struct cofi_symbol symbol;
    cofi_view_symbol(run->view, ip, false, &symbol);
    if (cofi_view_incomplete(run->view))
        return COFI_ERR_NOMEM;
    COFI_TRY(find_place(run, ip, &symbol, &row->place));
    row->wanted = !options->wanted || options->wanted(options->opaque, symbol.module ? symbol.module : "", symbol.name);
    row->unlikely = symbol.name && strstr(symbol.name + cofi_diff_plain_name(symbol.name), ".cold");
    row->ip = ip;
    row->asked = run->generation;
    return 0;
}

static int place_of(struct diff_run *run, uint64_t ip, const struct diff_place **place)
{
    struct diff_place *row = &run->places[cofi__hash(ip, 0) % DIFF_PLACES];
    *place = row;
    return row->ip == ip && row->asked == run->generation ? 0 : ask(run, row, ip);
}

static void function_at(void *opaque, uint64_t address, struct cofi_function *function)
{
    struct diff_run *run = opaque;
    cofi_view_function(run->view, run->diff->options.names, address, function);
}

/* ---- steps ---- */

/* Whether the step that comes last is the next one of a step that is open. */
static bool is_next_of(const struct diff_run *run, uint64_t opened, const struct cofi_diff_step *step)
{
    return opened < run->gone || cofi__diff_is_gap(step) || run->steps[opened - run->gone].depth >= step->depth;
}

/* Tell those that it is the next one of; its own has yet to come. */
static int link_step(struct diff_run *run, const struct cofi_diff_step *step)
{
    uint64_t number = run->gone + run->n;
    while (run->open_n && is_next_of(run, run->open[run->open_n - 1], step)) {
        uint64_t opened = run->open[--run->open_n];
        if (opened >= run->gone)
            run->nexts[opened - run->gone] = (uint32_t)(number - opened);
    }
    if (cofi__diff_is_gap(step))
        return 0;
    COFI_TRY(cofi__array_grow(&run->open, &run->open_room, run->open_n, sizeof *run->open));
    run->open[run->open_n++] = number;
    return 0;
}

static void drop_passed(struct diff_run *run)
{
    size_t left = run->n - run->first;
    memmove(run->steps, run->steps + run->first, left * sizeof *run->steps);
    memmove(run->nexts, run->nexts + run->first, left * sizeof *run->nexts);
    run->gone += run->first;
    run->n = left;
    run->first = 0;
}

static int add_step(struct diff_run *run, const struct cofi_diff_step *step)
{
    if (run->n == run->room && run->first > run->room / 2)
        drop_passed(run);
    COFI_TRY(cofi__array_grow(&run->steps, &run->room, run->n, sizeof *run->steps));
    COFI_TRY(cofi__array_grow(&run->nexts, &run->nexts_room, run->n, sizeof *run->nexts));
    COFI_TRY(link_step(run, step));
    run->nexts[run->n] = 0;
    run->steps[run->n++] = *step;
    return 0;
}

static uint32_t node_now(const struct diff_run *run)
{
    return run->calls->depth ? cofi__calls_top(run->calls)->node : 0;
}

static int note_entered(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next, uint64_t insns)
{
    (void)function, (void)depth, (void)next, (void)insns;
    ((struct diff_run *)opaque)->entered = true;
    return 0;
}

/* A block is what a function begins with. */
static int add_call(struct diff_run *run, uint64_t ip)
{
    const struct diff_place *place;
    run->entered = false;
    if (cofi__calls_top(run->calls)->stub)
        return 0;
    COFI_TRY(place_of(run, ip, &place));
    if (!place->wanted || place->unlikely)
        return 0;
    return add_step(run, &(struct cofi_diff_step){.place = place->place, .ip = ip, .node = node_now(run), .insns = 1,
                                                  .depth = (uint32_t)run->calls->depth});
}

static int add_block(struct diff_run *run, const struct cofi_flow_block *block)
{
    const struct diff_place *place;
    COFI_TRY(cofi_calls_blocks(run->calls, &block, 1));
    if (run->diff->options.calls)
        return run->entered ? add_call(run, block->ip) : 0;
    COFI_TRY(place_of(run, block->ip, &place));
    if (!place->wanted)
        return 0;
    return add_step(run, &(struct cofi_diff_step){.place = place->place, .ip = block->ip, .node = node_now(run),
                                                  .insns = block->n, .depth = (uint32_t)run->calls->depth,
                                                  .bytes = (uint32_t)(block->end - block->ip)});
}

int cofi_diff_blocks(struct cofi_diff *diff, unsigned of, struct cofi_view *view,
                     const struct cofi_flow_block *const *blocks, size_t n)
{
    struct diff_run *run = &diff->runs[of];
    run->view = view;
    for (size_t i = 0; i < n; i++)
        COFI_TRY(add_block(run, blocks[i]));
    return 0;
}

int cofi_diff_event(struct cofi_diff *diff, unsigned of, struct cofi_view *view, const struct cofi_flow_event *event)
{
    struct diff_run *run = &diff->runs[of];
    run->view = view;
    run->generation += event->kind == COFI_FLOW_CODE;
    COFI_TRY(cofi_calls_event(run->calls, event));
    if (event->kind != COFI_FLOW_GAP && event->kind != COFI_FLOW_OVERFLOW)
        return 0;
    return add_step(run, &(struct cofi_diff_step){.ip = event->ip, .node = node_now(run),
                                                  .depth = (uint32_t)run->calls->depth});
}

int cofi__diff_fetch(struct cofi_diff *diff, struct diff_run *run, size_t i)
{
    while (!run->ended && i >= run->n - run->first) {
        int status = diff->visitor->more(diff->visitor->opaque, (unsigned)(run - diff->runs));
        if (status < 0)
            return status;
        run->ended = !status;
    }
    return i < run->n - run->first;
}

int cofi__diff_run_init(struct cofi_diff *diff, struct diff_run *run)
{
    run->diff = diff;
    run->generation = 1;
    run->places = calloc(DIFF_PLACES, sizeof *run->places);
    if (!run->places || cofi_calls_open(&run->calls, function_at, run) < 0)
        return COFI_ERR_NOMEM;
    if (diff->options.calls)
        cofi_calls_watch(run->calls, &(struct cofi_calls_watcher){.enter = note_entered, .opaque = run});
    return 0;
}

void cofi__diff_run_fini(struct diff_run *run)
{
    cofi_calls_close(run->calls);
    cofi__map_free(&run->by_module);
    cofi__map_free(&run->namesakes);
    free(run->modules);
    free(run->places);
    free(run->steps);
    free(run->nexts);
    free(run->open);
}
