/* SPDX-License-Identifier: MIT
 * Coverage -> source files as they are written, with how often each line ran and which way its branches
 * went beside them. */
#include "coverage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { CONTEXT = 3 /* lines around code, where not all is asked for */, OUTCOMES_WIDTH = 15 };

/* A file on its way out: the next of its lines that has code, and the next branch. */
struct listing {
    const struct coverage_table *table;
    const struct cofi_coverage_source *source;
    struct writer *out;
    size_t line, branch;
    uint32_t shown; /* the last line that was, 0: none */
};

/* ---- beside a line ---- */

/* "taken/not taken" of each branch of the line, or where that is too long, how many outcomes there were;
 * empty: no branch. */
static void outcomes_text(const struct cofi_coverage_branch *const *branches, size_t n, char out[64])
{
    size_t seen = 0, at = 0;
    *out = '\0';
    for (size_t i = 0; i < n; i++) {
        const struct cofi_coverage_branch *b = branches[i];
        seen += (b->taken > 0) + (b->not_taken > 0);
        if (at <= OUTCOMES_WIDTH)
            at += (size_t)snprintf(out + at, 64 - at, "%s%" PRIu64 "/%" PRIu64, i ? " " : "", b->taken, b->not_taken);
    }
    if (at > OUTCOMES_WIDTH)
        snprintf(out, 64, "%zu of %zu", seen, 2 * n);
}

/* The branches of a line; they come in the order of lines. */
static size_t take_branches(struct listing *listing, uint32_t line)
{
    const struct cofi_coverage_source *source = listing->source;
    while (listing->branch < source->branches_n && source->branches[listing->branch]->line < line)
        listing->branch++;
    size_t end = listing->branch;
    while (end < source->branches_n && source->branches[end]->line == line)
        end++;
    return end - listing->branch;
}

static void write_margin(struct listing *listing, uint32_t line)
{
    const struct cofi_coverage_source *source = listing->source;
    char outcomes[64], count[24] = "";
    size_t n = take_branches(listing, line);
    outcomes_text(source->branches + listing->branch, n, outcomes);
    if (listing->line < source->lines_n && source->lines[listing->line].line == line) {
        uint64_t times = source->lines[listing->line++].count;
        snprintf(count, sizeof count, times ? "%" PRIu64 : "#####", times);
    }
    if (listing->shown && listing->shown + 1 != line)
        write_text(listing->out, "...\n");
    listing->shown = line;
    write_format(listing->out, "%12s  %-*s %6" PRIu32 "  ", count, OUTCOMES_WIDTH, outcomes, line);
}

/* ---- a file ---- */

/* Lines without code that are far from any with code are left out, where only some functions are asked for. */
static bool is_near(const struct listing *listing, uint32_t line)
{
    const struct cofi_coverage_source *source = listing->source;
    bool behind = listing->line && source->lines[listing->line - 1].line + CONTEXT >= line;
    return behind || (listing->line < source->lines_n && source->lines[listing->line].line <= line + CONTEXT);
}

static void write_lines(struct listing *listing, FILE *file)
{
    bool begins = true, shows = false;
    uint32_t line = 0;
    for (int c; (c = getc_unlocked(file)) != EOF; begins = c == '\n') {
        if (begins) {
            line++;
            shows = !listing->table->some || is_near(listing, line);
            if (shows)
                write_margin(listing, line);
        }
        if (shows)
            write_bytes(listing->out, &(char){(char)c}, 1);
    }
    if (shows && !begins)
        write_text(listing->out, "\n");
}

/* Lines that the file does not have, or all, where there is no file. */
static void write_rest(struct listing *listing)
{
    while (listing->line < listing->source->lines_n) {
        listing->shown = 0;
        write_margin(listing, listing->source->lines[listing->line].line);
        write_text(listing->out, "\n");
    }
}

/* What has a source's name may be anything: only a file is read. Null: there is none. */
static FILE *open_file(const char *path, struct stat *status)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    FILE *file = fd >= 0 && !fstat(fd, status) && S_ISREG(status->st_mode) ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

FILE *coverage_open_source(const struct coverage_table *table, const char *path, struct source_trouble *trouble)
{
    char below[4352];
    struct stat status;
    bool fits = table->symfs && (size_t)snprintf(below, sizeof below, "%s/%s", table->symfs, path) < sizeof below;
    FILE *file = fits ? open_file(below, &status) : NULL;
    if (!file)
        file = open_file(path, &status);
    if (!file && !trouble->missing++)
        trouble->first_missing = path;
    if (file && table->recorded && status.st_mtime > table->recorded && !trouble->newer++)
        trouble->first_newer = path;
    return file;
}

void coverage_tell_trouble(const struct source_trouble *trouble)
{
    if (trouble->missing)
        complain(
            "coverage: source files that are not here: %zu, such as %s; their lines are without text (--symfs=DIR: they are below DIR)",
            trouble->missing, trouble->first_missing);
    if (trouble->newer)
        complain(
            "coverage: source files that are newer than the recording: %zu, such as %s; counts may stand beside other lines",
            trouble->newer, trouble->first_newer);
}

static void print_file(const struct coverage_table *table, const struct cofi_coverage_source *source,
                       struct writer *out, struct source_trouble *trouble)
{
    struct listing listing = {.table = table, .source = source, .out = out};
    write_format(out, "%12s  %-*s %6s\n", "count", OUTCOMES_WIDTH, "taken/not", "line");
    FILE *file = coverage_open_source(table, source->file, trouble);
    if (file) {
        write_lines(&listing, file);
        fclose(file);
    }
    write_rest(&listing);
}

void coverage_print_source(const struct coverage_table *table, const struct cofi_coverage *coverage, struct writer *out)
{
    struct source_trouble trouble = {0};
    size_t n;
    const struct cofi_coverage_source *sources = cofi_coverage_sources(coverage, &n);
    for (size_t i = 0; i < n; i++)
        if (coverage_print_source_title(table, &sources[i], out))
            print_file(table, &sources[i], out, &trouble);
    coverage_tell_trouble(&trouble);
}
