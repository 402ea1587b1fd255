/* SPDX-License-Identifier: MIT
 * Coverage: what is counted at which place, how it adds up, and what the files that others read say. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/insn.h>
#include <cofi/present.h>

#include "analyze/coverage.h"

#include "../flow/prog.h"

enum { BASE = 0x1000 };

static uint8_t code[4096];

/* A view of bytes at BASE, of a label; from time 1 on of another. */
struct shown {
    struct cofi_image *image;
    struct cofi_view *view;
};

static struct shown show(const char *label, const char *later)
{
    struct shown shown;
    memset(code, 0xc3, sizeof code);
    assert_int_equal(cofi_image_open(&shown.image), 0);
    assert_int_equal(cofi_image_map_bytes(shown.image, 0, BASE, code, sizeof code, label), 0);
    if (later)
        assert_int_equal(cofi_image_map_bytes(shown.image, 1, BASE, code, sizeof code, later), 0);
    assert_int_equal(cofi_view_open(&shown.view, shown.image), 0);
    return shown;
}

static void hide(struct shown *shown)
{
    cofi_view_close(shown->view);
    cofi_image_close(shown->image);
}

/* A block of n instructions of `length` bytes each. */
static struct cofi_flow_block block_of(uint32_t id, uint64_t ip, uint32_t n, uint8_t length)
{
    static struct cofi_flow_insn insns[64][8];
    assert_true(n <= 8 && id < 64);
    for (uint32_t i = 0; i < n; i++)
        insns[id][i] = (struct cofi_flow_insn){.ip = ip + i * length, .length = length, .cls = COFI_CLASS_OTHER, .mode = 64, .block = id};
    return (struct cofi_flow_block){.ip = ip, .end = ip + n * length, .insns = insns[id], .n = n, .id = id, .mode = 64};
}

static void count(struct cofi_coverage *coverage, const struct shown *shown, const struct cofi_flow_block *block, unsigned times)
{
    while (times--)
        assert_int_equal(cofi_coverage_blocks(coverage, shown->view, &block, 1), 0);
}

static struct cofi_coverage *open_with(const struct cofi_coverage_options *options)
{
    struct cofi_coverage *coverage;
    assert_int_equal(cofi_coverage_open(&coverage, options), 0);
    return coverage;
}

static struct cofi_coverage *open_plain(void)
{
    return open_with(&(struct cofi_coverage_options){.size = sizeof(struct cofi_coverage_options), .names = true});
}

static const struct cofi_coverage_module *finish(struct cofi_coverage *coverage, size_t *n)
{
    size_t once;
    assert_int_equal(cofi_coverage_learn(coverage), 0);
    assert_int_equal(cofi_coverage_finish(coverage), 0);
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &once);
    assert_int_equal(cofi_coverage_finish(coverage), 0);
    assert_ptr_equal(cofi_coverage_modules(coverage, n), modules);
    assert_int_equal(*n, once);
    return modules;
}

static void assert_insn(const struct cofi_coverage_module *module, size_t i, uint64_t addr, unsigned length, uint64_t times)
{
    assert_true(i < module->insns_n);
    assert_int_equal(module->insns[i].addr, addr);
    assert_int_equal(module->insns[i].length, length);
    assert_int_equal(module->insns[i].count, times);
}

static void an_instruction_in_two_blocks_has_the_sum(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block all = block_of(0, BASE, 4, 2), tail = block_of(1, BASE + 4, 2, 2);
    size_t n;
    count(coverage, &shown, &all, 5);
    count(coverage, &shown, &tail, 3);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(n, 1);
    assert_string_equal(module->path, "bytes");
    assert_int_equal(module->insns_n, 4);
    assert_insn(module, 1, BASE + 2, 2, 5);
    assert_insn(module, 2, BASE + 4, 2, 8);
    assert_int_equal(module->executed, 26);
    assert_int_equal(module->bytes, 8);
    assert_int_equal(module->blocks_n, 2);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* Ids go on being the same where the flow has not noticed; what the view shows counts. */
static void behind_a_change_the_same_block_is_another_modules(void **state)
{
    (void)state;
    struct shown shown = show("old", "new");
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block block = block_of(0, BASE, 2, 1);
    size_t n;
    count(coverage, &shown, &block, 2);
    assert_int_equal(cofi_view_advance(shown.view, 1, NULL, NULL), 0); /* the bytes are the same */
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_CODE});
    count(coverage, &shown, &block, 3);
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    assert_int_equal(n, 2);
    assert_string_equal(modules[0].path, "new");
    assert_int_equal(modules[0].executed, 6);
    assert_string_equal(modules[1].path, "old");
    assert_int_equal(modules[1].executed, 4);
    cofi_coverage_close(coverage);
    hide(&shown);
}

static void other_instructions_at_one_address_are_counted_apart(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block ones = block_of(0, BASE, 4, 1), twos = block_of(1, BASE, 3, 2);
    size_t n;
    count(coverage, &shown, &ones, 1);
    count(coverage, &shown, &twos, 10);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(module->insns_n, 7);
    assert_insn(module, 0, BASE, 1, 1);
    assert_insn(module, 1, BASE, 2, 10);
    assert_int_equal(module->blocks_n, 1); /* of the two that begin there the longer one */
    assert_int_equal(module->blocks[0].size, 6);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* An id that is another block's later, as behind a flush. */
static void an_id_that_is_used_again_loses_nothing(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block first = block_of(0, BASE, 2, 1), shorter = block_of(0, BASE, 1, 1), second = block_of(0, BASE + 8, 2, 1);
    size_t n;
    count(coverage, &shown, &first, 4);
    count(coverage, &shown, &shorter, 1);
    count(coverage, &shown, &second, 2);
    count(coverage, &shown, &first, 1);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_insn(module, 0, BASE, 1, 6);
    assert_insn(module, 1, BASE + 1, 1, 5);
    assert_insn(module, 2, BASE + 8, 1, 2);
    cofi_coverage_close(coverage);
    hide(&shown);
}

static void memory_is_its_process_own_and_adds_up(void **state)
{
    (void)state;
    struct shown shown = show("[code]", NULL);
    struct cofi_coverage *all = open_plain();
    struct cofi_flow_block block = block_of(0, BASE, 1, 1);
    const int32_t pids[] = {7, 8, 7};
    size_t n;
    for (size_t i = 0; i < 3; i++) {
        struct cofi_coverage *one = open_plain();
        cofi_coverage_process(one, pids[i]);
        count(one, &shown, &block, 10);
        assert_int_equal(cofi_coverage_add(all, one), 0);
        cofi_coverage_close(one);
    }
    const struct cofi_coverage_module *modules = finish(all, &n);
    assert_int_equal(n, 2);
    assert_int_equal(modules[0].pid, 7);
    assert_int_equal(modules[0].executed, 20);
    assert_int_equal(modules[1].pid, 8);
    assert_int_equal(modules[1].executed, 10);
    cofi_coverage_close(all);
    hide(&shown);
}

/* Images that are gone, in whose place others lie. */
static void one_coverage_takes_many_images(void **state)
{
    (void)state;
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block block = block_of(0, BASE, 1, 1);
    size_t n;
    for (unsigned i = 0; i < 40; i++) {
        struct shown shown = show(i & 1 ? "odd" : "even", NULL);
        count(coverage, &shown, &block, i & 1 ? 2 : 1);
        assert_int_equal(cofi_coverage_learn(coverage), 0);
        hide(&shown);
    }
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    assert_int_equal(n, 2);
    assert_string_equal(modules[0].path, "odd");
    assert_int_equal(modules[0].executed, 40);
    assert_int_equal(modules[1].executed, 20);
    cofi_coverage_close(coverage);
}

static void kernel_code_is_of_no_process(void **state)
{
    (void)state;
    const uint64_t kernel = UINT64_C(0xffffffff81000000);
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_view *view;
    size_t n;
    assert_int_equal(cofi_image_map_bytes(shown.image, 0, kernel, code, sizeof code, "[kernel]"), 0);
    assert_int_equal(cofi_view_open(&view, shown.image), 0);
    struct cofi_flow_block first = block_of(0, kernel, 2, 1), second = block_of(1, kernel, 2, 1);
    const struct shown both = {shown.image, view};
    cofi_coverage_process(coverage, 7);
    count(coverage, &both, &first, 1);
    cofi_coverage_process(coverage, 8);
    count(coverage, &both, &second, 1);
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    assert_int_equal(n, 1);
    assert_int_equal(modules->pid, -1);
    assert_insn(modules, 0, kernel, 1, 2);
    cofi_coverage_close(coverage);
    cofi_view_close(view);
    hide(&shown);
}

/* ---- functions in each other ---- */

static void the_inner_function_has_what_is_in_both(void **state)
{
    (void)state;
    struct known_function functions[] = {{0x100, 0x100, "outer"}, {0x120, 0x20, "inner"}, {0x130, 8, "innermost"}, {0x180, 0, "no size"},
                                         {0x1f0, 0x20, "beyond"}};
    const struct part expected[] = {{0x100, 0x120, 0}, {0x120, 0x130, 1}, {0x130, 0x138, 2}, {0x138, 0x140, 1}, {0x140, 0x180, 0},
                                    {0x180, 0x1f0, 3}, {0x1f0, 0x210, 4}};
    struct part *parts;
    assert_int_equal(cofi__coverage_parts(functions, 5, &parts), 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(parts[i].start, expected[i].start);
        assert_int_equal(parts[i].end, expected[i].end);
        assert_int_equal(parts[i].function, expected[i].function);
    }
    free(parts);
}

/* Lines and scopes cut each other; where a line begins with another one the longer one counts; what has no name is left out. */
static void code_is_of_one_line_in_the_innermost_scope(void **state)
{
    (void)state;
    struct cofi_coverage_scope scopes[] = {{.function = "outer", .outer = -1}, {.function = "inner", .outer = 0}, {.function = NULL, .outer = -1}};
    struct known_range ranges[] = {{0x100, 0x140, 0}, {0x110, 0x120, 1}, {0x138, 0x150, 2}};
    struct known_line lines[] = {{0x100, 0x100, "a.c", 1, 0, 1}, {0x100, 0x118, "a.c", 2, 0, 1}, {0x118, 0x130, "a.c", 3, 4, 5},
                                 {0x12c, 0x160, "a.c", 4, 0, 1}};
    const struct cofi_coverage_insn insns[] = {{0x100, 3, 0, 4, 0}, {0x104, 8, 0, 4, 0}, {0x114, 2, 0, 4, 0}, {0x11c, 9, 0, 8, 0},
                                               {0x128, 1, 0, 4, 0}, {0x140, 6, 0, 4, 0}, {0x158, 5, 0, 4, 0}};
    struct covered_module module = {.scopes = scopes, .scopes_n = 3, .ranges = ranges, .ranges_n = 3, .lines = lines, .lines_n = 4};
    const struct cofi_coverage_code expected[] = {{0x100, 0x110, 8, 0, 2, 0, 1}, {0x110, 0x118, 2, 1, 2, 0, 1}, {0x118, 0x120, 9, 1, 3, 4, 5},
                                                  {0x120, 0x12c, 1, 0, 3, 4, 5}, {0x12c, 0x138, 0, 0, 4, 0, 1}};
    assert_int_equal(cofi__coverage_code(&module, insns, 7), 0);
    assert_int_equal(module.pub.code_n, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct cofi_coverage_code *got = &module.pub.code[i];
        assert_int_equal(got->start, expected[i].start);
        assert_int_equal(got->end, expected[i].end);
        assert_int_equal(got->count, expected[i].count);
        assert_int_equal(got->scope, expected[i].scope);
        assert_int_equal(got->line, expected[i].line);
        assert_int_equal(got->discriminator, expected[i].discriminator);
        assert_int_equal(got->copies, expected[i].copies);
    }
    assert_int_equal(module.pub.placed, 3 + 8 + 2 + 9 + 1);
    free((void *)(uintptr_t)module.pub.code);
}

/* ---- lines ---- */

/* What tables would tell of the one module. */
static void tell(struct cofi_coverage *coverage, const struct known_function *functions, size_t functions_n, const struct known_line *lines,
                 size_t lines_n)
{
    struct covered_module *module = &coverage->modules[1];
    assert_int_equal(coverage->modules_n, 2);
    assert_int_equal(cofi_coverage_learn(coverage), 0);
    module->named = false;
    module->functions = malloc(functions_n * sizeof *functions);
    module->lines = malloc(lines_n * sizeof *lines);
    memcpy(module->functions, functions, functions_n * sizeof *functions);
    memcpy(module->lines, lines, lines_n * sizeof *lines);
    module->functions_n = functions_n;
    module->lines_n = lines_n;
    for (size_t i = 0; i < lines_n; i++) /* each name is kept once */
        assert_non_null(module->lines[i].file = cofi__strings_keep(&coverage->strings, lines[i].file));
}

static void assert_line(const struct cofi_coverage *coverage, const char *file, uint32_t line, uint64_t times)
{
    size_t n;
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sources[i].lines_n; k++)
            if (!strcmp(sources[i].file, file) && sources[i].lines[k].line == line) {
                assert_int_equal(sources[i].lines[k].count, times);
                return;
            }
    fail_msg("%s:%u is not there", file, line);
}

static void a_line_counts_its_busiest_instruction_in_each_function(void **state)
{
    (void)state;
    const struct known_function functions[] = {{BASE, 8, "f"}, {BASE + 8, 8, "g"}, {BASE + 16, 8, "h"}};
    const struct known_line lines[] = {
        {BASE, BASE, "f.c", 1},              /* where f is declared */
        {BASE, BASE + 2, "f.c", 2},          /* runs 1 and 5 times */
        {BASE, BASE + 4, "both.h", 9},       /* of the same code, too, and of what runs 3 times behind it */
        {BASE + 4, BASE + 20, "f.c", 3},     /* of a table that is bad: ends where the next one begins */
        {BASE + 6, BASE + 8, "f.c", 2},
        {BASE + 8, BASE + 9, "both.h", 9},
        {BASE + 16, BASE + 20, "h.c", 4}};
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    const unsigned times[] = {1, 5, 3, 0, 2, 0, 7, 4, 6};
    size_t n;
    for (uint32_t i = 0; i < 9; i++) {
        struct cofi_flow_block block = block_of(i, BASE + i, 1, 1);
        count(coverage, &shown, &block, times[i]);
    }
    tell(coverage, functions, 3, lines, 7);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_line(coverage, "f.c", 2, 7);
    assert_line(coverage, "f.c", 3, 2);
    assert_line(coverage, "both.h", 9, 5 + 6);
    assert_line(coverage, "h.c", 4, 0);
    assert_int_equal(module->functions_n, 3);
    assert_string_equal(module->functions[0].name, "f");
    assert_int_equal(module->functions[0].line, 1);
    assert_int_equal(module->functions[0].lines, 3);
    assert_int_equal(module->functions[0].lines_ran, 3);
    assert_int_equal(module->functions[0].entered, 1);
    assert_int_equal(module->functions[1].entered, 6);
    assert_int_equal(module->functions[2].lines, 1);
    assert_int_equal(module->functions[2].lines_ran, 0);
    assert_int_equal(module->functions[2].insns, 0);
    assert_int_equal(module->size, 24);
    assert_int_equal(module->lines, 4); /* one of them in f and g */
    assert_int_equal(module->lines_ran, 3);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* ---- edges ---- */

static unsigned sum(const uint8_t *map)
{
    unsigned n = 0;
    for (size_t i = 0; i < COFI_COVERAGE_MAP; i++)
        n += map[i];
    return n;
}

static const struct cofi_coverage_options with_edges = {.size = sizeof with_edges, .edges = true};

static void counters_of_a_map_stop_at_255(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *one = open_with(&with_edges), *two = open_with(&with_edges);
    struct cofi_flow_block block = block_of(0, BASE, 1, 1);
    size_t at = cofi_flow_edge(BASE, BASE) % COFI_COVERAGE_MAP;
    count(one, &shown, &block, 201);
    assert_int_equal(cofi_coverage_map(one)[at], 200);
    assert_int_equal(cofi_coverage_add(two, one), 0);
    count(two, &shown, &block, 51);
    assert_int_equal(cofi_coverage_map(two)[at], 250);
    assert_int_equal(cofi_coverage_add(two, one), 0);
    assert_int_equal(cofi_coverage_map(two)[at], 255);
    count(two, &shown, &block, 3);
    assert_int_equal(cofi_coverage_map(two)[at], 255);
    assert_int_equal(sum(cofi_coverage_map(two)), 255);
    cofi_coverage_close(one);
    cofi_coverage_close(two);
    hide(&shown);
}

static void what_no_branch_made_is_no_edge(void **state)
{
    (void)state;
    const uint8_t breaks[] = {COFI_FLOW_ENABLED, COFI_FLOW_DISABLED, COFI_FLOW_ASYNC, COFI_FLOW_ASYNC_DISABLED, COFI_FLOW_OVERFLOW,
                              COFI_FLOW_GAP};
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_with(&with_edges);
    struct cofi_flow_block block = block_of(0, BASE, 1, 1);
    for (size_t i = 0; i < sizeof breaks; i++) {
        count(coverage, &shown, &block, 1);
        cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = breaks[i]});
    }
    assert_int_equal(sum(cofi_coverage_map(coverage)), 0);
    count(coverage, &shown, &block, 1);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_PSB});
    count(coverage, &shown, &block, 1);
    assert_int_equal(sum(cofi_coverage_map(coverage)), 1);
    cofi_coverage_process(coverage, 5); /* another's turn */
    count(coverage, &shown, &block, 1);
    assert_int_equal(sum(cofi_coverage_map(coverage)), 1);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* A block that a JCC ends, which leads to BASE + 64. */
static struct cofi_flow_block jcc_of(uint32_t id, uint64_t ip)
{
    struct cofi_flow_block block = block_of(id, ip, 2, 2);
    block.cls = COFI_CLASS_JCC;
    block.target = BASE + 64;
    return block;
}

static void an_outcome_is_where_execution_goes_on(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block jcc = jcc_of(0, BASE), tail = jcc_of(3, BASE + 2), behind = block_of(1, BASE + 4, 1, 1), there = block_of(2, BASE + 64, 1, 1);
    size_t n;
    tail.n = 1;
    tail.end = BASE + 4;
    count(coverage, &shown, &jcc, 1);
    count(coverage, &shown, &behind, 1); /* not taken */
    count(coverage, &shown, &jcc, 1);
    count(coverage, &shown, &there, 1); /* taken */
    count(coverage, &shown, &tail, 1);  /* the same branch, in another block */
    count(coverage, &shown, &there, 1);
    count(coverage, &shown, &jcc, 1);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_PSB});
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_ASYNC, .ip = BASE + 4}); /* not taken, and interrupted */
    count(coverage, &shown, &there, 1);
    count(coverage, &shown, &jcc, 1);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_DISABLED, .ip = BASE + 2, .target = COFI_NO_IP}); /* taken, out of a range */
    count(coverage, &shown, &behind, 1);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(module->branches_n, 1);
    assert_int_equal(module->branches[0].addr, BASE + 2);
    assert_int_equal(module->branches[0].length, 2);
    assert_int_equal(module->branches[0].taken, 3);
    assert_int_equal(module->branches[0].not_taken, 2);
    assert_null(module->branches[0].file);
    assert_int_equal(module->outcomes, 2);
    assert_int_equal(module->outcomes_seen, 2);
    cofi_coverage_close(coverage);
    hide(&shown);
}

static void what_the_trace_does_not_tell_is_no_outcome(void **state)
{
    (void)state;
    const uint8_t breaks[] = {COFI_FLOW_ENABLED, COFI_FLOW_OVERFLOW, COFI_FLOW_GAP};
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_plain();
    struct cofi_flow_block jcc = jcc_of(0, BASE), there = block_of(2, BASE + 64, 1, 1);
    size_t n;
    for (size_t i = 0; i < sizeof breaks; i++) {
        count(coverage, &shown, &jcc, 1);
        cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = breaks[i], .ip = BASE + 64, .target = BASE + 64});
        count(coverage, &shown, &there, 1);
    }
    count(coverage, &shown, &jcc, 1);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_DISABLED, .ip = BASE + 4, .target = COFI_NO_IP}); /* RTIT: behind it */
    count(coverage, &shown, &there, 1);
    count(coverage, &shown, &jcc, 1);
    cofi_coverage_process(coverage, 5); /* another's turn */
    count(coverage, &shown, &there, 1);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(module->branches_n, 0);
    assert_int_equal(module->outcomes, 0);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* ---- targets ---- */

static const struct cofi_coverage_options with_targets = {.size = sizeof with_targets, .names = true, .targets = true};

static struct cofi_flow_block indirect_of(uint32_t id, uint64_t ip, enum cofi_class cls)
{
    struct cofi_flow_block block = block_of(id, ip, 2, 2);
    block.cls = (uint8_t)cls;
    return block;
}

static void assert_target(const struct cofi_coverage_module *module, size_t i, uint64_t addr, uint64_t to, uint64_t times)
{
    assert_true(i < module->targets_n);
    assert_int_equal(module->targets[i].addr, addr);
    assert_int_equal(module->targets[i].length, 2);
    assert_int_equal(module->targets[i].to_addr, to);
    assert_int_equal(module->targets[i].count, times);
    assert_string_equal(module->targets[i].to_path, module->path);
}

static void an_indirect_branch_has_its_targets_most_often_come_to_first(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_with(&with_targets), *other = open_with(&with_targets);
    struct cofi_flow_block call = indirect_of(0, BASE, COFI_CLASS_CALL_IND), tail = indirect_of(3, BASE + 2, COFI_CLASS_CALL_IND),
                           jump = indirect_of(4, BASE + 64, COFI_CLASS_JMP_IND), near = block_of(1, BASE + 4, 1, 1), ret = block_of(2, BASE + 96, 1, 1);
    const struct cofi_flow_block *list[] = {&call, &jump, &near, &call, &near, &tail, &jump, &near, &tail, &jump};
    size_t n;
    tail.n = 1;
    tail.end = BASE + 4;
    ret.cls = COFI_CLASS_RET;
    assert_int_equal(cofi_coverage_blocks(coverage, shown.view, list, 10), 0);
    count(coverage, &shown, &near, 1); /* the jump's, in another batch */
    count(coverage, &shown, &ret, 1);
    count(coverage, &shown, &call, 1); /* a RET's targets are not counted */
    count(coverage, &shown, &near, 1);
    count(other, &shown, &call, 1);
    count(other, &shown, &jump, 1);
    assert_int_equal(cofi_coverage_add(coverage, other), 0);
    cofi_coverage_close(other);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(module->targets_n, 3);
    assert_target(module, 0, BASE + 2, BASE + 64, 4); /* from two blocks that it ends */
    assert_target(module, 1, BASE + 2, BASE + 4, 2);
    assert_target(module, 2, BASE + 66, BASE + 4, 3);
    assert_int_equal(module->targets[0].cls, COFI_CLASS_CALL_IND);
    assert_int_equal(module->targets[2].cls, COFI_CLASS_JMP_IND);
    assert_null(module->targets[0].file);
    assert_null(module->targets[0].to_file);
    cofi_coverage_close(coverage);
    hide(&shown);
}

static void a_target_is_known_without_a_block_at_it(void **state)
{
    (void)state;
    struct shown shown = show("bytes", NULL);
    struct cofi_coverage *coverage = open_with(&with_targets);
    struct cofi_flow_block call = indirect_of(0, BASE, COFI_CLASS_CALL_IND), there = block_of(2, BASE + 200, 1, 1);
    const struct cofi_flow_event tell[] = {
        {.kind = COFI_FLOW_ASYNC, .ip = BASE + 8}, /* interrupted there */
        {.kind = COFI_FLOW_ASYNC_DISABLED, .ip = BASE + 8},
        {.kind = COFI_FLOW_DISABLED, .ip = BASE + 2, .target = BASE + 16}, /* out of a filter's range */
        {.kind = COFI_FLOW_GAP, .ip = BASE + 32, .cause = COFI_ERR_NO_CODE},
    }, tell_not[] = {
        {.kind = COFI_FLOW_DISABLED, .ip = BASE + 2, .target = COFI_NO_IP},
        {.kind = COFI_FLOW_GAP, .ip = BASE + 64, .cause = COFI_ERR_MISMATCH},
        {.kind = COFI_FLOW_OVERFLOW, .ip = BASE + 64},
        {.kind = COFI_FLOW_ENABLED, .ip = BASE + 64},
    };
    size_t n;
    for (size_t i = 0; i < 4; i++) {
        count(coverage, &shown, &call, 1);
        cofi_coverage_event(coverage, &tell[i]);
        count(coverage, &shown, &there, 1);
        count(coverage, &shown, &call, 1);
        cofi_coverage_event(coverage, &tell_not[i]);
        count(coverage, &shown, &there, 1);
    }
    count(coverage, &shown, &call, 1);
    cofi_coverage_process(coverage, 5); /* another's turn */
    count(coverage, &shown, &there, 1);
    const struct cofi_coverage_module *module = finish(coverage, &n);
    assert_int_equal(module->targets_n, 3);
    assert_target(module, 0, BASE + 2, BASE + 8, 2);
    assert_target(module, 1, BASE + 2, BASE + 16, 1);
    assert_target(module, 2, BASE + 2, BASE + 32, 1);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* A library goes, and another one comes to where it was. */
static void a_target_is_of_the_module_that_lies_there(void **state)
{
    (void)state;
    enum { LIBRARY = 0x100000 };
    struct shown shown = {0};
    struct cofi_coverage *coverage = open_with(&with_targets);
    struct cofi_flow_block call = indirect_of(0, BASE, COFI_CLASS_CALL_IND), there = block_of(2, LIBRARY, 1, 1);
    size_t n;
    assert_int_equal(cofi_image_open(&shown.image), 0);
    assert_int_equal(cofi_image_map_bytes(shown.image, 0, BASE, code, sizeof code, "program"), 0);
    assert_int_equal(cofi_image_map_bytes(shown.image, 0, LIBRARY, code, sizeof code, "old"), 0);
    assert_int_equal(cofi_image_map_bytes(shown.image, 1, LIBRARY, code, sizeof code, "new"), 0);
    assert_int_equal(cofi_view_open(&shown.view, shown.image), 0);
    count(coverage, &shown, &call, 1);
    count(coverage, &shown, &there, 1);
    assert_int_equal(cofi_view_advance(shown.view, 1, NULL, NULL), 0);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_CODE});
    for (unsigned i = 0; i < 2; i++) {
        count(coverage, &shown, &call, 1);
        count(coverage, &shown, &there, 1);
    }
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    assert_int_equal(n, 3);
    assert_string_equal(modules[0].path, "program");
    assert_int_equal(modules[0].targets_n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(modules[0].targets[i].to_addr, LIBRARY);
        assert_int_equal(modules[0].targets[i].count, 2 - i);
        assert_string_equal(modules[0].targets[i].to_path, i ? "old" : "new");
    }
    cofi_coverage_close(coverage);
    hide(&shown);
}

static bool not_old(void *opaque, enum cofi_coverage_kind kind, const char *name)
{
    (void)opaque;
    return kind != COFI_COVERAGE_MODULE || strcmp(name, "old") != 0;
}

static void a_module_that_is_not_wanted_counts_nothing(void **state)
{
    (void)state;
    struct cofi_coverage_options options = with_edges;
    options.wanted = not_old;
    struct shown shown = show("old", "new");
    struct cofi_coverage *coverage = open_with(&options);
    struct cofi_flow_block block = block_of(0, BASE, 1, 1);
    size_t n;
    count(coverage, &shown, &block, 4);
    assert_int_equal(sum(cofi_coverage_map(coverage)), 0);
    assert_int_equal(cofi_view_advance(shown.view, 1, NULL, NULL), 0);
    cofi_coverage_event(coverage, &(struct cofi_flow_event){.kind = COFI_FLOW_CODE});
    count(coverage, &shown, &block, 2);
    assert_int_equal(sum(cofi_coverage_map(coverage)), 1);
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    assert_int_equal(n, 1);
    assert_string_equal(modules->path, "new");
    assert_int_equal(modules->executed, 2);
    cofi_coverage_close(coverage);
    hide(&shown);
}

/* ---- flows ---- */

static struct prog prog;
static uint32_t expected[PROG_BYTES], found[PROG_BYTES];
static uint32_t outcomes[PROG_BYTES][2], found_outcomes[PROG_BYTES][2]; /* not taken, taken */
static uint32_t untold[PROG_BYTES]; /* what ran last, or left a filter's range: the truth does not tell where it led */

/* Where branches led: from and to, both from PROG_BASE on, each time; of the last instruction only the trace may tell. */
static uint64_t led[1 << 16];
static size_t led_n;
static uint64_t last_ran;

static void expect_target(const struct prog_run *run, size_t i, enum cofi_class cls)
{
    bool direct = cls == COFI_CLASS_JCC || cls == COFI_CLASS_JMP || cls == COFI_CLASS_CALL;
    if ((!direct && cls != COFI_CLASS_JMP_IND && cls != COFI_CLASS_CALL_IND && cls != COFI_CLASS_RET) || i + 1 == run->truth_n)
        return;
    assert_true(led_n < sizeof led / sizeof led[0]);
    led[led_n++] = (run->truth[i] - PROG_BASE) << 32 | (uint32_t)(run->truth[i + 1] - PROG_BASE);
}

static uint64_t times_led(uint64_t from, uint64_t to)
{
    uint64_t times = 0;
    for (size_t i = 0; i < led_n; i++)
        times += led[i] == ((from - PROG_BASE) << 32 | (uint32_t)(to - PROG_BASE));
    return times;
}

static void expect(const struct prog_run *run)
{
    led_n = 0;
    last_ran = run->truth[run->truth_n - 1];
    memset(expected, 0, sizeof expected);
    memset(outcomes, 0, sizeof outcomes);
    memset(untold, 0, sizeof untold);
    for (size_t i = 0; i < run->truth_n; i++) {
        size_t at = run->truth[i] - PROG_BASE;
        struct cofi_insn insn;
        if (at >= PROG_BYTES)
            continue;
        expected[at]++;
        assert_true(cofi_insn_decode(&insn, 64, run->truth[i], prog.code + at, PROG_BYTES - at) > 0);
        expect_target(run, i, insn.cls);
        if (insn.cls != COFI_CLASS_JCC)
            continue;
        uint64_t end = run->truth[i] + insn.length, next = i + 1 < run->truth_n ? run->truth[i + 1] : 0;
        if (next == end || next == insn.target)
            outcomes[at][next == insn.target]++; /* some lead there either way, which passes for taken */
        else
            untold[at]++;
    }
}

static void find_counts(struct cofi_coverage *coverage)
{
    size_t n;
    const struct cofi_coverage_module *modules = finish(coverage, &n);
    memset(found, 0, sizeof found);
    memset(found_outcomes, 0, sizeof found_outcomes);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < modules[i].insns_n; k++)
            if (modules[i].insns[k].addr - PROG_BASE < PROG_BYTES)
                found[modules[i].insns[k].addr - PROG_BASE] += (uint32_t)modules[i].insns[k].count;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < modules[i].branches_n; k++) {
            const struct cofi_coverage_branch *branch = &modules[i].branches[k];
            assert_true(branch->addr - PROG_BASE < PROG_BYTES);
            found_outcomes[branch->addr - PROG_BASE][0] += (uint32_t)branch->not_taken;
            found_outcomes[branch->addr - PROG_BASE][1] += (uint32_t)branch->taken;
        }
}

static void assert_counts(unsigned times)
{
    for (size_t i = 0; i < PROG_BYTES; i++)
        if (found[i] != expected[i] * times)
            fail_msg("%#zx ran %u times, not %u", PROG_BASE + i, found[i], expected[i] * times);
    for (size_t i = 0; i < PROG_BYTES; i++) {
        uint32_t not_taken = found_outcomes[i][0] - outcomes[i][0] * times, taken = found_outcomes[i][1] - outcomes[i][1] * times;
        if (not_taken > untold[i] * times || taken > untold[i] * times || not_taken + taken + times < untold[i] * times)
            fail_msg("%#zx was not taken %u times, taken %u times, not %u and %u, and %u times that nobody knows", PROG_BASE + i, found_outcomes[i][0],
                     found_outcomes[i][1], outcomes[i][0] * times, outcomes[i][1] * times, untold[i] * times);
    }
}

/* With filters the truth does not tell where one led that left a range. *any: adds up how many targets there were. */
static void assert_targets(const struct cofi_coverage *coverage, bool filtered, uint64_t *any)
{
    size_t n;
    uint64_t sum = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < modules[i].targets_n; k++) {
            const struct cofi_coverage_target *target = &modules[i].targets[k];
            uint64_t times = times_led(target->addr, target->to_addr);
            if (!filtered && target->count - times > (target->addr == last_ran))
                fail_msg("%#" PRIx64 " led to %#" PRIx64 " %" PRIu64 " times, not %" PRIu64, target->addr, target->to_addr, target->count, times);
            sum += target->count;
            ++*any;
        }
    if (sum > led_n + 1 || (!filtered && sum < led_n))
        fail_msg("branches led somewhere %" PRIu64 " times, not %zu", sum, led_n);
}

static void flow_config(struct cofi_flow_config *config, const struct prog_run *run, const struct cofi_image *image, bool small)
{
    cofi_flow_config_init(config, run->gen);
    config->bytes = run->trace;
    config->n = run->n;
    config->ctl_known = true;
    config->ctl = run->ctl | 1;
    config->image = image;
    config->cache_bytes = small ? 700000 : 0; /* so that it is emptied meanwhile */
}

static void by_blocks(struct cofi_coverage *coverage, struct cofi_flow *flow)
{
    static const struct cofi_flow_block *blocks[1024];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    while (cofi_flow_next(flow, &batch) > 0) {
        size_t at = 0;
        for (size_t i = 0; i < batch.events_n; i++) {
            assert_int_equal(cofi_coverage_blocks(coverage, cofi_flow_view(flow), blocks + at, events[i].at - at), 0);
            cofi_coverage_event(coverage, &events[i]);
            at = events[i].at;
        }
        assert_int_equal(cofi_coverage_blocks(coverage, cofi_flow_view(flow), blocks + at, batch.blocks_n - at), 0);
    }
}

static void counts_are_those_of_the_truth_at_once_and_block_by_block(void **state)
{
    (void)state;
    uint64_t any = 0;
    for (uint64_t seed = 1; seed < 13; seed++) {
        struct prog_run run = {.gen = seed & 1 ? COFI_PT : COFI_RTIT, .insns = 30000, .interrupt = 50, .seed = seed};
        run.ctl = seed & 1 ? 1 << 3 | 1 << 13 : 1 << 3 | 1 << 11; /* User, BranchEn; USER, Cmprs_Ret */
        if (seed >= 9 && seed & 1) {
            run.base = PROG_BASE + 0x101;
            run.limit = PROG_BASE + 0x400;
            run.ctl |= UINT64_C(1) << 32; /* ADDR0_CFG */
        }
        prog_make(&prog, seed, 20);
        prog_go(&prog, &run);
        expect(&run);
        struct cofi_image *image = prog_image(&prog);
        struct cofi_flow_config config;
        struct cofi_flow *flow;
        static uint8_t map[COFI_COVERAGE_MAP];
        flow_config(&config, &run, image, seed & 2);

        struct cofi_coverage *coverage = open_plain();
        assert_int_equal(cofi_flow_open(&flow, &config), 0);
        assert_int_equal(cofi_coverage_flow(coverage, flow), 0);
        assert_int_equal(cofi_flow_bytes(flow, run.trace, run.n), 0); /* over code that it knows */
        assert_int_equal(cofi_coverage_flow(coverage, flow), 0);
        find_counts(coverage);
        assert_counts(2);
        cofi_coverage_close(coverage);

        coverage = open_plain();
        for (unsigned threads = 1; threads <= 3; threads += 2)
            assert_int_equal(cofi_coverage_parallel(coverage, &config, threads, NULL), 0);
        find_counts(coverage);
        assert_counts(2);
        cofi_coverage_close(coverage);

        struct cofi_coverage_options options = with_edges;
        options.names = options.ways = true;
        coverage = open_with(&options);
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
        by_blocks(coverage, flow);
        find_counts(coverage);
        assert_counts(1);
        assert_targets(coverage, run.limit, &any);
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
        memset(map, 0, sizeof map);
        struct cofi_flow_coverage cover = {.map = map, .map_size = sizeof map, .saturate = true};
        assert_int_equal(cofi_flow_cover(flow, &cover), 0);
        assert_memory_equal(cofi_coverage_map(coverage), map, sizeof map); /* memory: by addresses, as the flow's own */
        cofi_coverage_close(coverage);
        cofi_flow_close(flow);
        cofi_image_close(image);
        prog_free(&run);
    }
    assert_true(any > 1000);
}

/* ---- the files that others read ---- */

struct text {
    char bytes[4096];
    size_t n, stop;
};

static int put(void *opaque, const char *bytes, size_t n)
{
    struct text *text = opaque;
    if (text->stop && text->n + n > text->stop)
        return COFI_ERR_FULL;
    assert_true(text->n + n < sizeof text->bytes);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    return 0;
}

/* What lcov 2 calls inconsistent, and ends at: a name twice, a function without its line, one not entered of which lines ran (it was inlined), a line
 * that ran and none of its branches. */
static void a_tracefile_adds_up_to_what_readers_take(void **state)
{
    (void)state;
    const struct cofi_coverage_function functions[] = {
        {.name = "one", .line = 3, .entered = 2}, {.name = "one", .line = 3, .entered = 5}, {.name = "one.cold", .line = 3, .entered = 9},
        {.name = "t\nw\ro", .line = 7}, {.name = "inlined", .line = 9}, {.name = "two.colder", .line = 13, .entered = 1},
        {.name = "one", .line = 15, .entered = 1}};
    enum { FUNCTIONS = sizeof functions / sizeof *functions };
    const struct cofi_coverage_function *list[FUNCTIONS];
    for (size_t i = 0; i < FUNCTIONS; i++)
        list[i] = &functions[i];
    const struct cofi_coverage_line lines[] = {{2, 1}, {3, 7}, {4, 0}, {5, 4}, {10, 0}, {11, UINT64_MAX}};
    const struct cofi_coverage_branch branches[] = {{.line = 3, .taken = 5, .not_taken = 2}, {.line = 3}, {.line = 4}, {.line = 5},
                                                    {.line = 11, .not_taken = 7}};
    enum { BRANCHES = sizeof branches / sizeof *branches };
    const struct cofi_coverage_branch *branch_list[BRANCHES];
    for (size_t i = 0; i < BRANCHES; i++)
        branch_list[i] = &branches[i];
    struct cofi_coverage_source source = {"/a.c", lines, list, branch_list, 6, FUNCTIONS, BRANCHES};
    const struct cofi_coverage coverage = {.sources = &source, .sources_n = 1};
    static const char wanted[] = "TN:\nSF:/a.c\nFN:3,one\nFN:7,t?w?o\nFN:9,inlined\nFN:13,two.colder\n"
                                 "FNDA:8,one\nFNDA:0,t?w?o\nFNDA:18446744073709551615,inlined\nFNDA:1,two.colder\nFNF:4\nFNH:3\n"
                                 "BRDA:3,0,0,5\nBRDA:3,0,1,2\nBRDA:3,1,0,-\nBRDA:3,1,1,-\nBRDA:4,0,0,-\nBRDA:4,0,1,-\nBRDA:11,0,0,0\nBRDA:11,0,1,7\n"
                                 "BRF:8\nBRH:3\n"
                                 "DA:2,1\nDA:3,8\nDA:4,0\nDA:5,4\nDA:7,0\nDA:9,18446744073709551615\nDA:10,0\nDA:11,18446744073709551615\nDA:13,1\n"
                                 "LF:9\nLH:6\nend_of_record\n";
    struct text text = {.n = 0};
    assert_int_equal(cofi_coverage_lcov(&coverage, put, &text), 0);
    assert_int_equal(text.n, sizeof wanted - 1);
    assert_memory_equal(text.bytes, wanted, text.n);
    for (size_t stop = 1; stop < sizeof wanted - 1; stop += 7) { /* who cannot take more says so once */
        struct text part = {.stop = stop};
        assert_int_equal(cofi_coverage_lcov(&coverage, put, &part), COFI_ERR_FULL);
    }
}

/* Two copies of `one`, of which the second is partly cut off; `two` inlined into it twice at one place, `three` into that; functions that did not
 * run, and names that readers would take for something else. */
static void a_sample_profile_has_the_most_of_a_copy_and_the_sum_of_copies(void **state)
{
    (void)state;
    enum { CALL = COFI_CLASS_CALL, IND = COFI_CLASS_CALL_IND, JMP = COFI_CLASS_JMP, JCC = COFI_CLASS_JCC, RET = COFI_CLASS_RET };
    static const char path[] = "program";
    const struct cofi_coverage_scope scopes[] = {
        {.function = "one", .declared = 10, .outer = -1, .entry = 0x100}, {.function = "one.isra.0", .declared = 10, .outer = -1, .entry = 0x200},
        {.function = "two", .declared = 70000, .outer = 0, .call_line = 12, .call_discriminator = 3},
        {.function = "two", .declared = 70000, .outer = 0, .call_line = 12, .call_discriminator = 3},
        {.function = "three", .declared = 5, .outer = 2, .call_line = 70001}, {.function = "idle", .declared = 1, .outer = -1, .entry = 0x300},
        {.function = "8ball", .declared = 1, .outer = -1, .entry = 0x400}, {.function = "a b:c", .declared = 1, .outer = -1, .entry = 0x500}};
    const struct cofi_coverage_code lines[] = {
        {0x100, 0x104, 7, 0, 11, 0, 1}, {0x104, 0x108, 9, 0, 11, 0, 1}, {0x108, 0x10c, 2, 0, 11, 2, 4}, {0x10c, 0x110, 5, 2, 70002, 0, 1},
        {0x110, 0x114, 6, 3, 70002, 0, 1}, {0x114, 0x118, 0, 4, 4, 0, 1}, {0x200, 0x204, 1, 1, 11, 0, 1}, {0x300, 0x304, 0, 5, 2, 0, 1},
        {0x310, 0x314, 1, 0, 13, 0, 1}, {0x400, 0x404, 1, 6, 2, 0, 1}, {0x500, 0x504, UINT64_MAX / 2, 7, 2, 0, 3}};
    const struct cofi_coverage_insn insns[] = {{0x100, 7, 0, 4, COFI_CLASS_OTHER}, {0x200, 1, 1, 4, COFI_CLASS_OTHER}, {0x500, 4, 2, 4, JMP}};
    const struct cofi_coverage_target targets[] = {
        {.addr = 0x104, .count = 3, .cls = CALL, .function = 0, .to_path = path, .to_addr = 0x200, .to_name = "one.isra.0"},
        {.addr = 0x106, .count = 4, .cls = CALL, .function = 0, .to_path = "libc", .to_addr = 0x100, .to_name = "puts@plt"},
        {.addr = 0x107, .count = 1, .cls = JMP, .function = 0, .to_path = "libc", .to_addr = 0x100, .to_name = "puts"},
        {.addr = 0x107, .count = 1, .cls = JMP, .function = 0, .to_path = path, .to_addr = 0x310, .to_name = "one.cold"},
        {.addr = 0x107, .count = 1, .cls = IND, .function = 0, .to_path = path, .to_addr = 0x902, .to_name = "six", .to_offset = 2},
        {.addr = 0x107, .count = 1, .cls = IND, .function = 0, .to_path = path, .to_addr = 0x500, .to_name = "a b:c"},
        {.addr = 0x107, .count = 9, .cls = RET, .function = 0, .to_path = path, .to_addr = 0x200, .to_name = "one.isra.0"},
        {.addr = 0x107, .count = 2, .cls = JCC, .function = 0, .to_path = path, .to_addr = 0x100, .to_name = "one"},
        {.addr = 0x120, .count = 2, .cls = CALL, .function = 0, .to_path = path, .to_addr = 0x100, .to_name = "one"}};
    const struct cofi_coverage_module module = {.path = path, .scopes = scopes, .scopes_n = 8, .code = lines, .code_n = 11, .insns = insns,
                                                .insns_n = 3, .targets = targets, .targets_n = 9};
    const struct cofi_coverage coverage = {.results = &module, .results_n = 1};
    static const char wanted[] = "a b:c:18446744073709551615:4\n 1: 18446744073709551615\n"
                                 "one:25:6\n 1: 10 puts:5 one:3\n 1.2: 8\n 3: 1\n 2.3: two:6\n  2: 6\n  1: three:0\n   65535: 0\n";
    struct text text = {.n = 0};
    assert_int_equal(cofi_coverage_afdo(&coverage, put, &text), 0);
    assert_int_equal(text.n, sizeof wanted - 1);
    assert_memory_equal(text.bytes, wanted, text.n);
    for (size_t stop = 1; stop < sizeof wanted - 1; stop += 7) {
        struct text part = {.stop = stop};
        assert_int_equal(cofi_coverage_afdo(&coverage, put, &part), COFI_ERR_FULL);
    }
    /* What GCC reads begins with how many names there are, and what they are, in order, an empty one first. */
    static const char names[] = "adcg\2\0\0\0\0\0\0\0\0\0\0\xaa\0\0\0\0\6\0\0\0\1\0\0\0\0\6\0\0\0a b:c\0\4\0\0\0one\0\5\0\0\0puts\0\6\0\0\0three\0"
                                "\4\0\0\0two\0\0\0\0\xac\0\0\0\0\2\0\0\0\4\0\0\0\0\0\0\0";
    text.n = 0;
    assert_int_equal(cofi_coverage_afdo_gcc(&coverage, put, &text), 0);
    assert_memory_equal(text.bytes, names, sizeof names - 1);
    for (size_t stop = 1; stop < text.n; stop += 7) {
        struct text part = {.stop = stop};
        assert_int_equal(cofi_coverage_afdo_gcc(&coverage, put, &part), COFI_ERR_FULL);
    }
}

static void memory_far_apart_takes_several_rows_of_drcov(void **state)
{
    (void)state;
    const struct cofi_coverage_block blocks[] = {{0x401008, 5, 0}, {0x401ffe, 4, 0}, {UINT64_C(0x7f0000000010), 3, 0}};
    const struct cofi_coverage_module module = {.path = "line\nline", .pid = 12, .start = 0x401000, .end = UINT64_C(0x7f0000001000),
                                                .insns_n = 3, .blocks = blocks, .blocks_n = 3};
    const struct cofi_coverage coverage = {.results = &module, .results_n = 1};
    static const char wanted[] = "DRCOV VERSION: 2\nDRCOV FLAVOR: cofi\nModule Table: version 2, count 2\nColumns: id, base, end, entry, path\n"
                                 "  0, 0x0000000000401000, 0x0000000000403000, 0x0000000000000000, line?line (process 12)\n"
                                 "  1, 0x00007f0000000000, 0x00007f0000001000, 0x0000000000000000, line?line (process 12)\n"
                                 "BB Table: 3 bbs\n"
                                 "\x08\0\0\0\x05\0\0\0" "\xfe\x0f\0\0\x04\0\0\0" "\x10\0\0\0\x03\0\x01\0";
    struct text text = {.n = 0};
    assert_int_equal(cofi_coverage_drcov(&coverage, put, &text), 0);
    assert_int_equal(text.n, sizeof wanted - 1);
    assert_memory_equal(text.bytes, wanted, text.n);
    struct text part = {.stop = 300};
    assert_int_equal(cofi_coverage_drcov(&coverage, put, &part), COFI_ERR_FULL);
}

static void options_of_another_version_are_checked(void **state)
{
    (void)state;
    struct {
        struct cofi_coverage_options known;
        uint64_t newer;
    } options = {{.size = sizeof options}, 0};
    struct cofi_coverage *coverage;
    assert_int_equal(cofi_coverage_open(&coverage, &options.known), 0);
    cofi_coverage_close(coverage);
    options.newer = 1;
    assert_int_equal(cofi_coverage_open(&coverage, &options.known), COFI_ERR_UNSUPPORTED);
    options.known.size = 4;
    assert_int_equal(cofi_coverage_open(&coverage, &options.known), COFI_ERR_RANGE);
    cofi_coverage_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_instruction_in_two_blocks_has_the_sum),
        cmocka_unit_test(behind_a_change_the_same_block_is_another_modules),
        cmocka_unit_test(other_instructions_at_one_address_are_counted_apart),
        cmocka_unit_test(an_id_that_is_used_again_loses_nothing),
        cmocka_unit_test(memory_is_its_process_own_and_adds_up),
        cmocka_unit_test(one_coverage_takes_many_images),
        cmocka_unit_test(kernel_code_is_of_no_process),
        cmocka_unit_test(the_inner_function_has_what_is_in_both),
        cmocka_unit_test(code_is_of_one_line_in_the_innermost_scope),
        cmocka_unit_test(a_line_counts_its_busiest_instruction_in_each_function),
        cmocka_unit_test(counters_of_a_map_stop_at_255),
        cmocka_unit_test(what_no_branch_made_is_no_edge),
        cmocka_unit_test(an_outcome_is_where_execution_goes_on),
        cmocka_unit_test(what_the_trace_does_not_tell_is_no_outcome),
        cmocka_unit_test(an_indirect_branch_has_its_targets_most_often_come_to_first),
        cmocka_unit_test(a_target_is_known_without_a_block_at_it),
        cmocka_unit_test(a_target_is_of_the_module_that_lies_there),
        cmocka_unit_test(a_module_that_is_not_wanted_counts_nothing),
        cmocka_unit_test(counts_are_those_of_the_truth_at_once_and_block_by_block),
        cmocka_unit_test(a_tracefile_adds_up_to_what_readers_take),
        cmocka_unit_test(a_sample_profile_has_the_most_of_a_copy_and_the_sum_of_copies),
        cmocka_unit_test(memory_far_apart_takes_several_rows_of_drcov),
        cmocka_unit_test(options_of_another_version_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
