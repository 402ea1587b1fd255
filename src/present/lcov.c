/* SPDX-License-Identifier: MIT
 * Coverage by source -> a tracefile as lcov's geninfo writes it, for genhtml and whatever else reads these. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "present/put.h"

/* Text up to the line's end; lines are not names' to make. */
static void line(struct out *out, const char *text)
{
    for (size_t n; n = strcspn(text, "\r\n"), text[n]; text += n + 1) {
        put_bytes(out, text, n);
        put_text(out, "?");
    }
    put_text(out, text);
    put_text(out, "\n");
}

static void number(struct out *out, const char *key, uint64_t n)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%" PRIu64, key, n);
    line(out, text);
}

/* "key:n,name" */
static void named(struct out *out, const char *key, uint64_t n, const char *name)
{
    char text[64];
    int length = snprintf(text, sizeof text, "%s:%" PRIu64 ",", key, n);
    put_bytes(out, text, (size_t)length);
    line(out, name);
}

/* What the compiler has cut off a function is no function to people. */
static bool is_piece(const char *name)
{
    const char *cold = strstr(name, ".cold");
    return cold && (!cold[5] || cold[5] == '.');
}

/* Functions of one line and name, from several modules, are one. Returns the row behind them; *entered: the sum. */
static size_t same(const struct cofi_coverage_source *source, size_t i, uint64_t *entered)
{
    const struct cofi_coverage_function *first = source->functions[i];
    *entered = 0;
    for (; i < source->functions_n; i++) {
        const struct cofi_coverage_function *f = source->functions[i];
        if (f->line != first->line || strcmp(f->name, first->name) != 0)
            break;
        *entered += f->entered;
    }
    return i;
}

static void functions(struct out *out, const struct cofi_coverage_source *source)
{
    uint64_t entered, found = 0, hit = 0;
    for (size_t i = 0; i < source->functions_n; i = same(source, i, &entered))
        if (!is_piece(source->functions[i]->name))
            named(out, "FN", (uint64_t)source->functions[i]->line, source->functions[i]->name);
    for (size_t i = 0, next; i < source->functions_n; i = next) {
        next = same(source, i, &entered);
        if (is_piece(source->functions[i]->name))
            continue;
        named(out, "FNDA", entered, source->functions[i]->name);
        found++;
        hit += entered > 0;
    }
    number(out, "FNF", found);
    number(out, "FNH", hit);
}

/* "BRDA:line,block,branch,count": a block is one branch of the line, of which branch 0 is that it was taken, 1 that it was not. */
static void outcome(struct out *out, const struct cofi_coverage_branch *branch, unsigned block, unsigned which, uint64_t count)
{
    char text[96], times[24] = "-";
    if (branch->taken || branch->not_taken)
        snprintf(times, sizeof times, "%" PRIu64, count);
    snprintf(text, sizeof text, "BRDA:%" PRIu32 ",%u,%u,%s", branch->line, block, which, times);
    line(out, text);
}

static void branches(struct out *out, const struct cofi_coverage_source *source)
{
    uint64_t hit = 0;
    for (size_t i = 0, first = 0; i < source->branches_n; i++) {
        const struct cofi_coverage_branch *branch = source->branches[i];
        first = branch->line == source->branches[first]->line ? first : i;
        outcome(out, branch, (unsigned)(i - first), 0, branch->taken);
        outcome(out, branch, (unsigned)(i - first), 1, branch->not_taken);
        hit += (branch->taken > 0) + (branch->not_taken > 0);
    }
    if (!source->branches_n)
        return;
    number(out, "BRF", 2 * source->branches_n);
    number(out, "BRH", hit);
}

static void lines(struct out *out, const struct cofi_coverage_source *source)
{
    uint64_t hit = 0;
    for (size_t i = 0; i < source->lines_n; i++) {
        char text[64];
        snprintf(text, sizeof text, "DA:%" PRIu32 ",%" PRIu64, source->lines[i].line, source->lines[i].count);
        line(out, text);
        hit += source->lines[i].count > 0;
    }
    number(out, "LF", source->lines_n);
    number(out, "LH", hit);
}

int cofi_coverage_lcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    struct out out = {put, opaque, 0};
    size_t n;
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &n);
    for (size_t i = 0; i < n && out.status >= 0; i++) {
        line(&out, "TN:");
        put_bytes(&out, "SF:", 3);
        line(&out, sources[i].file);
        functions(&out, &sources[i]);
        branches(&out, &sources[i]);
        lines(&out, &sources[i]);
        line(&out, "end_of_record");
    }
    return out.status < 0 ? out.status : 0;
}
