/* SPDX-License-Identifier: MIT
 * What a view shows -> the module it is of, once for all processes and recordings; and the module's tables. */
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

/* ---- by path ---- */

static uint32_t key_hash(const char *path, int32_t pid) { return cofi__hash(cofi__text_hash(path), (uint32_t)pid); }

static bool is_same(const struct covered_module *a, const struct covered_module *b)
{
    return a->pub.path == b->pub.path && a->pub.pid == b->pub.pid && a->build_id_size == b->build_id_size &&
           !memcmp(a->build_id, b->build_id, a->build_id_size);
}

/* The row that is the same module; its path is kept already. 0: there is none. */
static uint32_t find(const struct cofi_coverage *coverage, const struct covered_module *like, uint32_t hash)
{
    uint32_t at = hash, row;
    do
        row = cofi__index_next(&coverage->by_path, hash, &at);
    while (row && !is_same(&coverage->modules[row], like));
    return row;
}

/* Its row, new if need be, by what names it in *like. */
static int put(struct cofi_coverage *coverage, const struct covered_module *like)
{
    uint32_t hash = key_hash(like->pub.path, like->pub.pid), row = find(coverage, like, hash);
    if (row)
        return (int)row;
    COFI_TRY(
        cofi__array_grow(&coverage->modules, &coverage->modules_room, coverage->modules_n, sizeof *coverage->modules));
    COFI_TRY(cofi__index_add(&coverage->by_path, hash, (uint32_t)coverage->modules_n));
    struct covered_module *made = &coverage->modules[coverage->modules_n];
    *made = (struct covered_module){.pub = like->pub, .build_id_size = like->build_id_size, .handle = like->handle,
                                    .named = like->named};
    memcpy(made->build_id, like->build_id, sizeof made->build_id);
    made->wanted = coverage_wants(coverage, COFI_COVERAGE_MODULE, made->pub.path);
    made->edge_key = made->pub.base ? cofi__text_hash(basename(made->pub.path)) : 0;
    return (int)coverage->modules_n++;
}

int cofi__coverage_module_like(struct cofi_coverage *coverage, const struct covered_module *module)
{
    struct covered_module like = *module;
    like.pub.path = cofi__strings_keep(&coverage->strings, module->pub.path);
    if (!like.pub.path)
        return COFI_ERR_NOMEM;
    return put(coverage, &like);
}

/* ---- by view ---- */

static int stop_at_one(void *opaque, const struct cofi_module_function *function)
{
    (void)opaque;
    (void)function;
    return 1;
}

/* What a view shows, described. */
static int describe(const struct cofi_coverage *coverage, const struct cofi_module *handle, uint64_t ip, uint64_t base,
                    struct covered_module *module)
{
    struct cofi_module_info info = {.path = "[unknown]"};
    if (handle)
        cofi_module_info(handle, &info);
    *module = (struct covered_module){.handle = handle, .build_id_size = info.build_id_size};
    memcpy(module->build_id, info.build_id ? info.build_id : (const uint8_t *)"", info.build_id_size);
    module->pub = (struct cofi_coverage_module){.path = info.path, .of_file = info.of_file, .base = base,
                                                .start = info.start, .end = info.end,
                                                .pid = info.of_file || ip >> 63 ? -1 : coverage->pid};
    if (!coverage->options.names || !handle)
        return 0;
    int any = info.of_file ? cofi_module_functions(handle, stop_at_one, NULL) : 0;
    module->named = !any;
    return any < 0 ? any : 0;
}

int cofi__coverage_module_at(struct cofi_coverage *coverage, struct cofi_view *view, uint64_t ip, uint64_t *base)
{
    const struct cofi_module *handle = cofi_view_module(view, ip, base);
    uint64_t key = (uint64_t)(uintptr_t)handle, process = ip >> 63 ? UINT64_MAX : (uint32_t)coverage->pid;
    const uint32_t *known = cofi__map_get(&coverage->by_handle, key, process);
    if (known)
        return (int)*known;
    struct covered_module module;
    COFI_TRY(describe(coverage, handle, ip, *base, &module));
    int row = cofi__coverage_module_like(coverage, &module);
    COFI_TRY(row);
    COFI_TRY(cofi__map_put(&coverage->by_handle, key, process, (uint32_t)row));
    return row;
}

uint32_t cofi__coverage_function(struct cofi_coverage *coverage, struct covered_module *module, uint64_t addr,
                                 const char *name)
{
    const char *kept = cofi__strings_keep(&coverage->strings, name);
    const uint32_t *known = kept ? cofi__map_get(&module->by_name, (uint64_t)(uintptr_t)kept, addr) : NULL;
    if (known)
        return *known;
    if (!kept ||
        cofi__array_grow(&module->functions, &module->functions_room, module->functions_n, sizeof *module->functions) <
            0 ||
        cofi__map_put(&module->by_name, (uint64_t)(uintptr_t)kept, addr, (uint32_t)module->functions_n + 1) < 0)
        return 0;
    module->functions[module->functions_n++] = (struct known_function){addr, 0, kept};
    return (uint32_t)module->functions_n;
}

static int by_addr_and_name(const void *a, const void *b, void *opaque)
{
    const struct known_function *functions = opaque, *x = &functions[*(const uint32_t *)a],
                                *y = &functions[*(const uint32_t *)b];
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* numbers: the new number of each. */
static int order(struct covered_module *module, uint32_t *numbers)
{
    size_t n = module->functions_n;
    uint32_t *rows = calloc(n, sizeof *rows);
    struct known_function *ordered = calloc(n, sizeof *ordered);
    for (uint32_t i = 0; rows && i < n; i++)
        rows[i] = i;
    if (rows && ordered) {
        qsort_r(rows, n, sizeof *rows, by_addr_and_name, module->functions);
        for (uint32_t i = 0; i < n; i++) {
            ordered[i] = module->functions[rows[i]];
            numbers[rows[i]] = i;
        }
        memcpy(module->functions, ordered, n * sizeof *ordered);
    }
    int status = rows && ordered ? 0 : COFI_ERR_NOMEM;
    free(rows);
    free(ordered);
    return status;
}

int cofi__coverage_order(struct cofi_coverage *coverage)
{
    int status = 0;
    uint32_t **numbers = calloc(coverage->modules_n, sizeof *numbers);
    for (size_t i = 1; numbers && i < coverage->modules_n && status >= 0; i++) {
        struct covered_module *module = &coverage->modules[i];
        if (!module->named || !module->functions_n)
            continue;
        numbers[i] = calloc(module->functions_n, sizeof *numbers[i]);
        status = numbers[i] ? order(module, numbers[i]) : COFI_ERR_NOMEM;
    }
    for (size_t i = 1; numbers && i < coverage->places_n && status >= 0; i++) {
        struct place_count *place = &coverage->places[i];
        if (place->function)
            place->function = numbers[place->module][place->function - 1] + 1;
    }
    for (size_t i = 1; numbers && i < coverage->modules_n; i++)
        free(numbers[i]);
    free(numbers);
    return numbers ? status : COFI_ERR_NOMEM;
}

/* ---- tables ---- */

struct learning {
    struct cofi_coverage *coverage;
    struct covered_module *module;
    const char *asked; /* the source file of the row before */
    bool wanted;       /* it is */
};

static int learn_function(void *opaque, const struct cofi_module_function *function)
{
    struct learning *learning = opaque;
    struct covered_module *module = learning->module;
    const char *name = function->name ? cofi__strings_keep(&learning->coverage->strings, function->name) : NULL;
    if (function->name && !name)
        return COFI_ERR_NOMEM;
    COFI_TRY(
        cofi__array_grow(&module->functions, &module->functions_room, module->functions_n, sizeof *module->functions));
    module->functions[module->functions_n++] = (struct known_function){function->addr, function->size, name};
    return 0;
}

/* Rows of one file follow each other. */
static int learn_file(struct learning *learning, const char *file)
{
    if (learning->asked && !strcmp(file, learning->asked))
        return 0;
    learning->asked = cofi__strings_keep(&learning->coverage->strings, file);
    learning->wanted = learning->asked && coverage_wants(learning->coverage, COFI_COVERAGE_SOURCE, file);
    return learning->asked ? 0 : COFI_ERR_NOMEM;
}

static int learn_line(void *opaque, const struct cofi_module_line *line)
{
    struct learning *learning = opaque;
    struct covered_module *module = learning->module;
    COFI_TRY(learn_file(learning, line->file));
    if (!learning->wanted)
        return 0;
    COFI_TRY(cofi__array_grow(&module->lines, &module->lines_room, module->lines_n, sizeof *module->lines));
    module->lines[module->lines_n++] = (struct known_line){line->start,          line->end,           learning->asked,
                                                           (uint32_t)line->line, line->discriminator, line->copies};
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct known_line *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* ---- branches ---- */

static int add_branch(struct covered_module *module, const struct known_line *line, uint64_t addr, uint8_t length)
{
    COFI_TRY(cofi__array_grow(&module->branches, &module->branches_room, module->branches_n, sizeof *module->branches));
    module->branches[module->branches_n++] = (struct known_branch){addr, line->file, line->line, length};
    return 0;
}

/* Those of a line from *at, where an instruction begins, up to `end`; *at: then behind the last instruction. */
static int sweep(struct covered_module *module, const struct known_line *line, uint64_t *at, uint64_t end,
                 struct cofi_code *code)
{
    enum { LONGEST = 15 };
    struct cofi_insn insn;
    for (; *at < end; *at += insn.length) {
        bool whole = *at >= code->start && *at < code->end && code->end - *at >= LONGEST;
        if (!whole && cofi_module_code(module->handle, *at, code) < 0)
            return 0;
        if (cofi_insn_decode(&insn, code->mode ? code->mode : 64, *at, code->bytes + (*at - code->start),
                             code->end - *at) < 0)
            return 0;
        if (insn.cls == COFI_CLASS_JCC)
            COFI_TRY(add_branch(module, line, *at, insn.length));
    }
    return 0;
}

/* The conditional branches of all lines, whether they ran or not: each row begins with an instruction.
 * Of lines that begin at one address the shortest comes first, and each ends where the next ones begin,
 * so that nothing is looked at twice, whatever a line table says. */
static int learn_branches(struct covered_module *module)
{
    struct cofi_code code = {0};
    uint64_t at = 0;
    for (size_t i = 0, next = 0; i < module->lines_n; i++) {
        const struct known_line *line = &module->lines[i];
        for (; next < module->lines_n && module->lines[next].start <= line->start; next++)
            at = line->start;
        uint64_t limit = next < module->lines_n ? module->lines[next].start : UINT64_MAX;
        COFI_TRY(sweep(module, line, &at, line->end < limit ? line->end : limit, &code));
    }
    return 0;
}

static int learn(struct cofi_coverage *coverage, struct covered_module *module)
{
    struct learning learning = {.coverage = coverage, .module = module};
    if (coverage->options.names && !module->named)
        COFI_TRY(cofi_module_functions(module->handle, learn_function, &learning));
    if (coverage->options.lines)
        COFI_TRY(cofi_module_lines(module->handle, learn_line, &learning));
    if (coverage->options.scopes)
        COFI_TRY(cofi__coverage_scopes(coverage, module));
    if (module->lines_n)
        qsort(module->lines, module->lines_n, sizeof *module->lines, by_start);
    return learn_branches(module);
}

int cofi_coverage_learn(struct cofi_coverage *coverage)
{
    for (size_t i = 1; i < coverage->modules_n; i++) {
        struct covered_module *module = &coverage->modules[i];
        if (module->handle && module->wanted)
            COFI_TRY(learn(coverage, module));
        module->handle = NULL;
    }
    cofi__map_clear(&coverage->by_handle); /* other images' modules may come to lie there, and views */
    cofi__coverage_settle(coverage);
    return 0;
}

void cofi__coverage_modules_free(struct cofi_coverage *coverage)
{
    for (size_t i = 1; i < coverage->modules_n; i++) {
        struct covered_module *module = &coverage->modules[i];
        free((void *)(uintptr_t)module->pub.functions);
        free((void *)(uintptr_t)module->pub.insns);
        free((void *)(uintptr_t)module->pub.blocks);
        free((void *)(uintptr_t)module->pub.branches);
        free((void *)(uintptr_t)module->pub.targets);
        free((void *)(uintptr_t)module->pub.code);
        free(module->functions);
        free(module->lines);
        free(module->branches);
        free(module->ranges);
        free(module->scopes);
        cofi__map_free(&module->by_name);
    }
    free(coverage->modules);
    cofi__map_free(&coverage->by_handle);
    cofi__index_free(&coverage->by_path);
}
