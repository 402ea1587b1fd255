/* SPDX-License-Identifier: MIT
 * A module's places and tables -> its instructions, blocks, branches, functions and lines, with their counts. */
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

/* What is being made of one module. */
struct making {
    struct cofi_coverage *coverage;
    struct covered_module *module;
    const struct place_count *const *places;
    size_t places_n;
    struct part *parts;
    size_t parts_n;
    struct cofi_coverage_insn *insns;
    size_t insns_n;
    struct cofi_coverage_block *blocks;
    size_t blocks_n;
    struct cofi_coverage_branch *branches;
    size_t branches_n;
    struct cofi_coverage_target *targets;
    size_t targets_n;
    struct cofi_coverage_function *functions; /* the last row: what is in none */
    size_t functions_n;
    bool *wanted;
    struct line_row *lines;
    size_t lines_n, lines_room;
};

struct line_row {
    const char *file;
    uint64_t count;
    uint32_t line;
    int32_t function;
};

/* The part that holds an address, which is not before the last one asked for; *at: where the search goes on. */
static int32_t function_from(const struct making *m, size_t *at, uint64_t addr)
{
    while (*at < m->parts_n && m->parts[*at].end <= addr)
        ++*at;
    bool inside = *at < m->parts_n && m->parts[*at].start <= addr;
    return inside ? m->parts[*at].function : (int32_t)m->functions_n - 1;
}

static int32_t function_of_place(const struct making *m, const struct place_count *place, size_t *at)
{
    return m->module->named && place->function ? (int32_t)place->function - 1 : function_from(m, at, place->addr);
}

/* ---- functions ---- */

/* With `sourced`: those that have a line of a source file that is wanted. */
static void want_sourced(struct making *m)
{
    size_t part = 0;
    for (size_t i = 0; i < m->module->lines_n; i++) {
        const struct known_line *line = &m->module->lines[i];
        if (line->start < line->end)
            m->wanted[function_from(m, &part, line->start)] = true;
    }
}

static int begin_functions(struct making *m)
{
    const struct covered_module *module = m->module;
    size_t functions_n = m->coverage->options.names ? module->functions_n + 1 : 0;
    m->functions = calloc(functions_n + 1, sizeof *m->functions);
    m->wanted = calloc(functions_n + 1, sizeof *m->wanted);
    if (!m->functions || !m->wanted)
        return COFI_ERR_NOMEM;
    m->functions_n = functions_n;
    for (size_t i = 0; i < m->functions_n; i++) {
        const struct known_function *known = i < module->functions_n ? &module->functions[i]
                                                                     : &(struct known_function){0};
        m->functions[i] = (struct cofi_coverage_function){.name = known->name, .addr = known->addr};
        m->wanted[i] = !m->coverage->options.sourced;
    }
    int64_t n = module->named ? 0 : cofi__coverage_parts(module->functions, module->functions_n, &m->parts);
    m->parts_n = n < 0 ? 0 : (size_t)n;
    for (size_t i = 0; i < m->parts_n && m->functions_n; i++) {
        int32_t function = m->parts[i].function;
        if (module->functions[function].size)
            m->functions[function].size += m->parts[i].end - m->parts[i].start;
    }
    if (m->functions_n && m->coverage->options.sourced)
        want_sourced(m);
    for (size_t i = 0; i < m->functions_n; i++)
        m->wanted[i] = m->wanted[i] && coverage_wants(m->coverage, COFI_COVERAGE_FUNCTION, m->functions[i].name);
    return n < 0 ? (int)n : 0;
}

static bool is_wanted(const struct making *m, int32_t function) { return function < 0 || m->wanted[function]; }

static void add_insn(struct making *m, const struct cofi_coverage_insn *insn)
{
    m->module->pub.executed += insn->count;
    m->module->pub.bytes += insn->length;
    if (insn->function < 0)
        return;
    struct cofi_coverage_function *function = &m->functions[insn->function];
    function->executed += insn->count;
    function->bytes += insn->length;
    function->insns++;
    if (insn->addr == function->addr && insn->function < (int32_t)m->functions_n - 1)
        function->entered += insn->count;
}

/* ---- blocks and instructions ---- */

static int make_blocks(struct making *m)
{
    size_t part = 0;
    m->blocks = calloc(m->places_n + 1, sizeof *m->blocks);
    if (!m->blocks)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < m->places_n; i++) {
        const struct place_count *place = m->places[i];
        struct cofi_coverage_block *last = m->blocks_n ? &m->blocks[m->blocks_n - 1] : NULL;
        int32_t function = function_of_place(m, place, &part);
        if (!is_wanted(m, function))
            continue;
        if (!last || last->addr != place->addr)
            m->blocks[m->blocks_n++] = (struct cofi_coverage_block){place->addr, place->size, function};
        else if (last->size < place->size)
            last->size = place->size;
    }
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct cofi_coverage_insn *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->length - y->length;
}

/* Instructions of all blocks: one may be in several. */
static int spread(struct making *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->places_n; i++)
        n += m->places[i]->n;
    m->insns = calloc(n + 1, sizeof *m->insns);
    if (!m->insns)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < m->places_n; i++) {
        const struct place_count *place = m->places[i];
        const uint8_t *length = m->coverage->lengths + place->lengths;
        uint64_t at = place->addr;
        for (unsigned k = 0; k < place->n; at += length[k++])
            m->insns[m->insns_n++] = (struct cofi_coverage_insn){at, place->count, (int32_t)place->function - 1,
                                                                 length[k],
                                                                 k + 1 < place->n ? COFI_CLASS_OTHER : place->cls};
    }
    if (m->insns_n)
        qsort(m->insns, m->insns_n, sizeof *m->insns, by_address);
    return 0;
}

/* Each once, with its function, those of unwanted functions left out. */
static void join(struct making *m)
{
    size_t kept = 0, part = 0;
    for (size_t i = 0; i < m->insns_n; i++) {
        struct cofi_coverage_insn insn = m->insns[i], *last = kept ? &m->insns[kept - 1] : NULL;
        if (insn.function < 0)
            insn.function = function_from(m, &part, insn.addr);
        if (!is_wanted(m, insn.function))
            continue;
        if (last && last->addr == insn.addr && last->function == insn.function && last->length == insn.length)
            last->count += insn.count;
        else
            m->insns[kept++] = insn;
    }
    m->insns_n = kept;
    for (size_t i = 0; i < kept; i++)
        add_insn(m, &m->insns[i]);
}

/* ---- branches ---- */

static int by_branch(const void *a, const void *b)
{
    const struct cofi_coverage_branch *x = a, *y = b;
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->length != y->length)
        return x->length - y->length;
    return (x->function > y->function) - (x->function < y->function);
}

static struct cofi_coverage_branch branch_of_place(const struct making *m, const struct place_count *place)
{
    uint8_t length = m->coverage->lengths[place->lengths + place->n - 1];
    return (struct cofi_coverage_branch){.addr = place->addr + place->size - length, .taken = place->outcomes[1],
                                         .not_taken = place->outcomes[0], .function = (int32_t)place->function - 1,
                                         .length = length};
}

/* Those that ran, from each block that they end, and those of lines, from each table that has them. */
static int list_branches(struct making *m)
{
    const struct covered_module *module = m->module;
    m->branches = calloc(m->places_n + module->branches_n + 1, sizeof *m->branches);
    if (!m->branches)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < m->places_n; i++)
        if (m->places[i]->outcomes[0] || m->places[i]->outcomes[1])
            m->branches[m->branches_n++] = branch_of_place(m, m->places[i]);
    for (size_t i = 0; i < module->branches_n; i++) {
        const struct known_branch *known = &module->branches[i];
        m->branches[m->branches_n++] = (struct cofi_coverage_branch){.addr = known->addr, .file = known->file,
                                                                     .line = known->line,
                                                                     .function = COFI_COVERAGE_NONE,
                                                                     .length = known->length};
    }
    if (m->branches_n)
        qsort(m->branches, m->branches_n, sizeof *m->branches, by_branch);
    return 0;
}

static void add_outcomes(struct making *m, const struct cofi_coverage_branch *branch)
{
    unsigned seen = (branch->taken > 0) + (branch->not_taken > 0);
    m->module->pub.outcomes += 2;
    m->module->pub.outcomes_seen += seen;
    if (branch->function < 0)
        return;
    m->functions[branch->function].outcomes += 2;
    m->functions[branch->function].outcomes_seen += seen;
}

/* Each once, with its function, those of unwanted functions left out. */
static int make_branches(struct making *m)
{
    COFI_TRY(list_branches(m));
    size_t kept = 0, part = 0;
    for (size_t i = 0; i < m->branches_n; i++) {
        struct cofi_coverage_branch branch = m->branches[i], *last = kept ? &m->branches[kept - 1] : NULL;
        if (branch.function < 0)
            branch.function = function_from(m, &part, branch.addr);
        if (!is_wanted(m, branch.function))
            continue;
        if (!last || by_branch(last, &branch) != 0) {
            m->branches[kept++] = branch;
            continue;
        }
        last->taken += branch.taken;
        last->not_taken += branch.not_taken;
        if (!last->file) {
            last->file = branch.file;
            last->line = branch.line;
        }
    }
    m->branches_n = kept;
    for (size_t i = 0; i < kept; i++)
        add_outcomes(m, &m->branches[i]);
    return 0;
}

/* With their functions, those of unwanted functions left out. */
static int make_targets(struct making *m)
{
    size_t kept = 0, part = 0;
    COFI_TRY(cofi__targets_of(m->coverage, (uint32_t)(m->module - m->coverage->modules), &m->targets, &m->targets_n));
    for (size_t i = 0; i < m->targets_n; i++) {
        struct cofi_coverage_target target = m->targets[i];
        if (target.function < 0)
            target.function = function_from(m, &part, target.addr);
        if (is_wanted(m, target.function))
            m->targets[kept++] = target;
    }
    m->targets_n = kept;
    return 0;
}

/* ---- lines ---- */

/* A walk along lines and instructions, both by address. Lines that begin at one address are a group, the
 * shortest first: each takes what the one before has found. A line that reaches beyond where the next
 * group begins ends there, so that each instruction is looked at once, whatever a line table says. */
struct line_walk {
    size_t insn, part;
    uint64_t start, limit, most;
};

static void next_group(const struct making *m, struct line_walk *walk, size_t line)
{
    const struct known_line *lines = m->module->lines;
    size_t next = line + 1;
    while (next < m->module->lines_n && lines[next].start == lines[line].start)
        next++;
    walk->start = lines[line].start;
    walk->limit = next < m->module->lines_n ? lines[next].start : UINT64_MAX;
    walk->most = 0;
    while (walk->insn < m->insns_n && m->insns[walk->insn].addr < walk->start)
        walk->insn++;
}

/* The most that an instruction of a line ran. */
static uint64_t most_of(const struct making *m, struct line_walk *walk, size_t line)
{
    const struct known_line *known = &m->module->lines[line];
    if (!line || known->start != walk->start)
        next_group(m, walk, line);
    uint64_t end = known->end < walk->limit ? known->end : walk->limit;
    for (; walk->insn < m->insns_n && m->insns[walk->insn].addr < end; walk->insn++)
        if (m->insns[walk->insn].count > walk->most)
            walk->most = m->insns[walk->insn].count;
    return walk->most;
}

static int by_file(const void *a, const void *b)
{
    const struct line_row *x = a, *y = b;
    if (x->file != y->file)
        return (uintptr_t)x->file < (uintptr_t)y->file ? -1 : 1; /* each file's name is kept once */
    return (x->line > y->line) - (x->line < y->line);
}

static int by_function(const void *a, const void *b)
{
    const struct line_row *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return by_file(x, y);
}

static int find_lines(struct making *m)
{
    struct line_walk walk = {0};
    for (size_t i = 0; i < m->module->lines_n; i++) {
        const struct known_line *line = &m->module->lines[i];
        int32_t function = function_from(m, &walk.part, line->start);
        uint64_t most = most_of(m, &walk, i);
        if (function >= 0 && m->functions[function].addr == line->start && !m->functions[function].file) {
            m->functions[function].file = line->file;
            m->functions[function].line = (int)line->line;
        }
        if (!is_wanted(m, function) || line->start == line->end)
            continue;
        COFI_TRY(cofi__array_grow(&m->lines, &m->lines_room, m->lines_n, sizeof *m->lines));
        m->lines[m->lines_n++] = (struct line_row){line->file, most, line->line, function};
    }
    return 0;
}

/* Lines of the module: each once, though several functions have code of it. */
static void count_lines(struct making *m)
{
    struct cofi_coverage_module *pub = &m->module->pub;
    if (m->lines_n)
        qsort(m->lines, m->lines_n, sizeof *m->lines, by_file);
    for (size_t i = 0, next; i < m->lines_n; i = next) {
        bool ran = false;
        for (next = i; next < m->lines_n && !by_file(&m->lines[next], &m->lines[i]); next++)
            ran |= m->lines[next].count > 0;
        pub->lines++;
        pub->lines_ran += ran;
    }
}

/* Each line of a function once. */
static int make_lines(struct making *m)
{
    COFI_TRY(find_lines(m));
    if (m->lines_n)
        qsort(m->lines, m->lines_n, sizeof *m->lines, by_function);
    size_t kept = 0;
    for (size_t i = 0, next; i < m->lines_n; i = next) {
        struct line_row line = m->lines[i];
        for (next = i + 1; next < m->lines_n && !by_function(&m->lines[next], &line); next++)
            line.count = m->lines[next].count > line.count ? m->lines[next].count : line.count;
        if (line.function >= 0) {
            m->functions[line.function].lines++;
            m->functions[line.function].lines_ran += line.count > 0;
        }
        COFI_TRY(cofi__coverage_line(m->coverage, line.file, line.line, line.count));
        m->lines[kept++] = line;
    }
    m->lines_n = kept;
    count_lines(m);
    return 0;
}

/* ---- all of it ---- */

static int32_t number_of(const int32_t *numbers, int32_t function)
{
    return function < 0 ? COFI_COVERAGE_NONE : numbers[function];
}

/* Functions that are wanted, and the last row if it has anything; what lies in them goes by their new numbers. */
static int keep_wanted(struct making *m)
{
    size_t kept = 0;
    int32_t *numbers = calloc(m->functions_n + 1, sizeof *numbers);
    if (!numbers)
        return COFI_ERR_NOMEM;
    for (size_t i = 0; i < m->functions_n; i++) {
        bool some = i + 1 < m->functions_n || m->functions[i].insns || m->functions[i].lines ||
                    m->functions[i].outcomes;
        numbers[i] = (int32_t)kept;
        if (m->wanted[i] && some)
            m->functions[kept++] = m->functions[i];
    }
    m->functions_n = kept;
    for (size_t i = 0; i < m->insns_n; i++)
        m->insns[i].function = number_of(numbers, m->insns[i].function);
    for (size_t i = 0; i < m->blocks_n; i++)
        m->blocks[i].function = number_of(numbers, m->blocks[i].function);
    for (size_t i = 0; i < m->branches_n; i++)
        m->branches[i].function = number_of(numbers, m->branches[i].function);
    for (size_t i = 0; i < m->targets_n; i++)
        m->targets[i].function = number_of(numbers, m->targets[i].function);
    free(numbers);
    return 0;
}

static void publish(struct making *m)
{
    struct cofi_coverage_module *pub = &m->module->pub;
    pub->functions = m->functions;
    pub->insns = m->insns;
    pub->blocks = m->blocks;
    pub->branches = m->branches;
    pub->targets = m->targets;
    pub->functions_n = m->functions_n;
    pub->insns_n = m->insns_n;
    pub->blocks_n = m->blocks_n;
    pub->branches_n = m->branches_n;
    pub->targets_n = m->targets_n;
    for (size_t i = 0; i < m->functions_n; i++)
        pub->size += m->functions[i].size;
    if (pub->end || !m->blocks_n)
        return;
    const struct cofi_coverage_block *last = &m->blocks[m->blocks_n - 1];
    pub->start = m->blocks[0].addr & ~UINT64_C(4095);
    pub->end = ((last->addr + last->size - 1) | 4095) + 1;
}

int cofi__covered(struct cofi_coverage *coverage, struct covered_module *module,
                  const struct place_count *const *places, size_t n)
{
    struct making m = {.coverage = coverage, .module = module, .places = places, .places_n = n};
    int status = begin_functions(&m);
    if (status >= 0)
        status = make_blocks(&m);
    if (status >= 0)
        status = spread(&m);
    if (status >= 0) {
        join(&m);
        status = make_branches(&m);
    }
    if (status >= 0)
        status = make_targets(&m);
    if (status >= 0)
        status = make_lines(&m);
    if (status >= 0 && coverage->options.scopes)
        status = cofi__coverage_code(module, m.insns, m.insns_n);
    if (status >= 0)
        status = keep_wanted(&m);
    publish(&m);
    free(m.parts);
    free(m.wanted);
    free(m.lines);
    return status;
}
