/* SPDX-License-Identifier: MIT
 * A module's coverage -> its functions in a sample profile: lines, calls, what was inlined. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "base/array.h"
#include "base/error.h"
#include "present/afdo.h"

/* Of the module that is being read, by scope. */
struct reading {
    struct afdo_profile *profile;
    const struct cofi_coverage_module *module;
    uint32_t *nodes; /* 0: not asked for yet */
    uint32_t *roots; /* the scope around it that is a function by itself */
    bool *ran;       /* of a root: some of it did */
};

/* As readers take it: lines of a function from where it is declared on, modulo 2^16. */
static uint32_t offset_of(const struct cofi_coverage_scope *scope, uint32_t line)
{
    return (line - scope->declared) & 0xffff;
}

/* ---- names ---- */

/* What readers do not take for something else. */
static bool is_name(const char *name)
{
    bool odd = !*name || strchr(" #![", *name) || (*name >= '0' && *name <= '9');
    for (const char *c = name; *c; c++)
        odd |= (unsigned char)*c < ' ';
    return !odd;
}

/* What a list of names and numbers can hold. */
static bool is_word(const char *name) { return is_name(name) && !strpbrk(name, " :"); }

/* How much of a symbol is the function's name: parts and copies of one, and stubs that lead to it, are
 * called something more. */
static size_t name_length(const char *symbol)
{
    static const char *const more[] = {".cold", ".part.", ".isra.", ".constprop.", ".llvm.", ".lto_priv.", "@"};
    size_t n = strlen(symbol);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *at = strstr(symbol, more[i]);
        if (at && at != symbol && (size_t)(at - symbol) < n)
            n = (size_t)(at - symbol);
    }
    return n;
}

/* A function's name of a symbol, which stays. Null: out of memory. */
static const char *keep_name(struct afdo_profile *profile, const char *symbol)
{
    char *name = strndup(symbol, name_length(symbol));
    const char *kept = name ? cofi__strings_keep(&profile->names, name) : NULL;
    free(name);
    return kept;
}

/* ---- what there is ---- */

static uint32_t node_hash(const struct afdo_node *node)
{
    const struct afdo_place *place = &node->place;
    return cofi__hash((uint64_t)(uintptr_t)node->function ^ (uint64_t)place->node << 32,
                      (uint64_t)place->offset << 32 | place->discriminator);
}

static bool is_same(const struct afdo_node *a, const struct afdo_node *b)
{
    return a->function == b->function && !cofi__afdo_compare(&a->place, &b->place);
}

/* *row: which one it is. */
static int put_node(struct afdo_profile *profile, const struct afdo_node *node, uint32_t *row)
{
    uint32_t hash = node_hash(node), at = hash;
    do
        *row = cofi__index_next(&profile->by_place, hash, &at);
    while (*row && !is_same(&profile->nodes[*row], node));
    if (*row)
        return 0;
    COFI_TRY(cofi__array_grow(&profile->nodes, &profile->nodes_room, profile->nodes_n, sizeof *profile->nodes));
    COFI_TRY(cofi__index_add(&profile->by_place, hash, (uint32_t)profile->nodes_n));
    *row = (uint32_t)profile->nodes_n;
    profile->nodes[profile->nodes_n++] = *node;
    return 0;
}

/* A scope's, and those that it is in before it. */
static int node_of(struct reading *reading, uint32_t number, uint32_t *row)
{
    const struct cofi_coverage_scope *scope = &reading->module->scopes[number];
    struct afdo_node node = {0};
    *row = reading->nodes[number];
    if (*row)
        return 0;
    node.function = keep_name(reading->profile, scope->function);
    if (!node.function)
        return COFI_ERR_NOMEM;
    if (scope->outer >= 0) {
        COFI_TRY(node_of(reading, (uint32_t)scope->outer, &node.place.node));
        node.place.offset = offset_of(&reading->module->scopes[scope->outer], scope->call_line);
        node.place.discriminator = scope->call_discriminator;
    }
    COFI_TRY(put_node(reading->profile, &node, row));
    reading->nodes[number] = *row;
    return 0;
}

/* Of a function that ran. What did not of one that ran is told, too: it is known. */
static bool is_told(const struct reading *reading, const struct cofi_coverage_code *code)
{
    return reading->ran[reading->roots[code->scope]] && is_name(reading->module->scopes[code->scope].function);
}

static int place_of(struct reading *reading, const struct cofi_coverage_code *code, struct afdo_place *place)
{
    place->offset = offset_of(&reading->module->scopes[code->scope], code->line);
    place->discriminator = code->discriminator;
    return node_of(reading, code->scope, &place->node);
}

static int add_rows(struct reading *reading)
{
    struct afdo_profile *profile = reading->profile;
    const struct cofi_coverage_module *module = reading->module;
    for (size_t i = 0; i < module->code_n; i++) {
        const struct cofi_coverage_code *code = &module->code[i];
        bool many = code->count > UINT64_MAX / code->copies;
        struct afdo_row row = {.copy = profile->copies + reading->roots[code->scope],
                               .count = many ? UINT64_MAX : code->count * code->copies};
        if (!is_told(reading, code))
            continue;
        COFI_TRY(place_of(reading, code, &row.place));
        COFI_TRY(cofi__array_grow(&profile->rows, &profile->rows_room, profile->rows_n, sizeof *profile->rows));
        profile->rows[profile->rows_n++] = row;
    }
    return 0;
}

/* ---- calls ---- */

_Static_assert(!offsetof(struct cofi_coverage_insn, addr) && !offsetof(struct cofi_coverage_code, start),
               "they begin with what they are ordered by");

/* The last of n rows, ordered by the address that they begin with, that begins there or before; null: none does. */
static const void *row_before(const void *rows, size_t n, size_t size, uint64_t addr)
{
    size_t after = cofi__array_upper_bound(rows, n, size, 0, addr);
    return after ? (const char *)rows + (after - 1) * size : NULL;
}

static const struct cofi_coverage_insn *insn_at(const struct cofi_coverage_module *module, uint64_t addr)
{
    const struct cofi_coverage_insn *insn = row_before(module->insns, module->insns_n, sizeof *insn, addr);
    return insn && insn->addr == addr ? insn : NULL;
}

static const struct cofi_coverage_code *code_at(const struct cofi_coverage_module *module, uint64_t addr)
{
    const struct cofi_coverage_code *code = row_before(module->code, module->code_n, sizeof *code, addr);
    return code && addr < code->end ? code : NULL;
}

/* A branch within the function that it stands in, which calls nothing. */
static bool is_inner_jump(const struct reading *reading, const struct cofi_coverage_target *target)
{
    const struct cofi_coverage_module *module = reading->module;
    if (target->cls == COFI_CLASS_CALL || target->cls == COFI_CLASS_CALL_IND || target->to_path != module->path ||
        target->to_pid != module->pid)
        return false;
    const struct cofi_coverage_code *from = code_at(module, target->addr), *to = code_at(module, target->to_addr);
    return from && to && reading->roots[from->scope] == reading->roots[to->scope];
}

/* It led to a function's start, other than by coming back. */
static bool is_call(const struct reading *reading, const struct cofi_coverage_target *target)
{
    return target->to_name && !target->to_offset && target->cls != COFI_CLASS_RET &&
           target->cls != COFI_CLASS_FAR_RET && !is_inner_jump(reading, target);
}

static int add_target(struct reading *reading, const struct cofi_coverage_target *target)
{
    struct afdo_profile *profile = reading->profile;
    const struct cofi_coverage_code *code = code_at(reading->module, target->addr);
    if (!code || !is_told(reading, code) || !is_word(target->to_name))
        return 0;
    struct afdo_target made = {.count = target->count, .function = keep_name(profile, target->to_name)};
    if (!made.function)
        return COFI_ERR_NOMEM;
    COFI_TRY(place_of(reading, code, &made.place));
    COFI_TRY(cofi__array_grow(&profile->targets, &profile->targets_room, profile->targets_n, sizeof *profile->targets));
    profile->targets[profile->targets_n++] = made;
    return 0;
}

static int add_targets(struct reading *reading)
{
    const struct cofi_coverage_module *module = reading->module;
    for (size_t i = 0; i < module->targets_n; i++)
        if (is_call(reading, &module->targets[i]))
            COFI_TRY(add_target(reading, &module->targets[i]));
    return 0;
}

/* ---- how often functions were entered ---- */

/* The node of the function by itself that is entered with an instruction; 0: none. */
struct entry {
    uint64_t addr;
    uint32_t node;
};

static int by_addr(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static void take_off(uint64_t *from, uint64_t count) { *from -= count < *from ? count : *from; }

/* Jumps back to the first instruction are the function's own loops. */
static void leave_out_loops(struct reading *reading, const struct entry *entries, size_t n)
{
    const struct cofi_coverage_module *module = reading->module;
    for (size_t i = 0; i < module->targets_n; i++) {
        const struct cofi_coverage_target *target = &module->targets[i];
        const struct entry *entry = row_before(entries, n, sizeof *entry, target->to_addr);
        if (entry && entry->addr == target->to_addr && target->cls != COFI_CLASS_RET && is_inner_jump(reading, target))
            take_off(&reading->profile->nodes[entry->node].head, target->count);
    }
}

static int count_entries(struct reading *reading)
{
    const struct cofi_coverage_module *module = reading->module;
    struct entry *entries = calloc(module->scopes_n + 1, sizeof *entries);
    size_t n = 0;
    if (!entries)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < module->scopes_n; i++) {
        const struct cofi_coverage_insn *first = module->scopes[i].outer < 0 && reading->nodes[i]
                                                     ? insn_at(module, module->scopes[i].entry)
                                                     : NULL;
        if (!first)
            continue;
        reading->profile->nodes[reading->nodes[i]].head += first->count;
        entries[n++] = (struct entry){first->addr, reading->nodes[i]};
    }
    qsort(entries, n, sizeof *entries, by_addr);
    leave_out_loops(reading, entries, n);
    free(entries);
    return 0;
}

/* ---- modules ---- */

static void find_roots(struct reading *reading)
{
    const struct cofi_coverage_module *module = reading->module;
    for (uint32_t i = 0; i < module->scopes_n; i++)
        reading->roots[i] = module->scopes[i].outer < 0 ? i : reading->roots[module->scopes[i].outer];
    for (size_t i = 0; i < module->code_n; i++)
        reading->ran[reading->roots[module->code[i].scope]] |= module->code[i].count > 0;
}

int cofi__afdo_read(struct afdo_profile *profile, const struct cofi_coverage_module *module)
{
    size_t n = module->scopes_n + 1;
    struct reading reading = {profile, module, calloc(n, sizeof *reading.nodes), calloc(n, sizeof *reading.roots),
                              calloc(n, sizeof *reading.ran)};
    int status = reading.nodes && reading.roots && reading.ran ? 0 : COFI_ERR_NOMEM;
    if (status >= 0) {
        find_roots(&reading);
        status = add_rows(&reading);
    }
    if (status >= 0)
        status = add_targets(&reading);
    if (status >= 0)
        status = count_entries(&reading);
    profile->copies += (uint32_t)module->scopes_n;
    free(reading.nodes);
    free(reading.roots);
    free(reading.ran);
    return status;
}
