/* SPDX-License-Identifier: MIT
 * Partings -> rows of functions, a table of places, a sum. */
#include "diff_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "diff_functions.h"

enum { CALLERS = 4, WHERES = 10 };

static int32_t tid_of(const struct diff_report *report, unsigned run) { return report->feeds[run].thread->tid; }

static const struct cofi_calls_node *node_of(const struct diff_report *report, unsigned run, uint32_t node)
{
    size_t n;
    return &cofi_diff_nodes(report->diff, run, &n)[node];
}

/* ---- places as they are shown ---- */

/* Where an instruction is, by the tables; or else by the function that ran. */
struct spot {
    char name[COFI_NAME_BYTES + 32];
    const char *file; /* null: no line is known */
    int line;
};

static void find_spot(struct diff_report *report, unsigned run, uint32_t node, uint64_t ip, struct spot *spot)
{
    struct cofi_symbol symbol;
    const struct cofi_function *function = &node_of(report, run, node)->function;
    diff_feed_symbol(&report->feeds[run], ip, !report->options->no_source, &symbol);
    spot->file = symbol.file;
    spot->line = symbol.line;
    if (symbol.module)
        cofi_symbol_print(&symbol, ip, spot->name, sizeof spot->name);
    else
        cofi_function_print(function, spot->name, sizeof spot->name);
}

static void write_spot(struct writer *out, const struct spot *spot)
{
    write_text(out, spot->name);
    if (spot->file) {
        write_text(out, "  ");
        write_text(out, file_name(spot->file));
        write_format(out, ":%d", spot->line);
    }
}

static void write_callers(struct diff_report *report, unsigned run, uint32_t node)
{
    char name[COFI_NAME_BYTES];
    const struct cofi_calls_node *at = node_of(report, run, node);
    for (unsigned n = 0; at->parent; n++) {
        at = node_of(report, run, at->parent);
        if (n == CALLERS) {
            write_text(report->out, " < ...");
            return;
        }
        cofi_function_print(&at->function, name, sizeof name);
        write_text(report->out, " < ");
        write_text(report->out, name);
    }
}

/* The branch at the end of a step; of a call, where it went. */
static uint64_t branch_of(const struct cofi_diff_step *step)
{
    return step->bytes ? step->ip + step->bytes - 1 : step->ip;
}

void diff_report_title(struct diff_report *report)
{
    const struct thread *a = report->feeds[0].thread, *b = report->feeds[1].thread;
    if (report->titled || report->options->session.json || report->options->brief)
        return;
    report->titled = true;
    if (session_recording(report->feeds[0].session)) {
        write_format(report->out, "== threads %d and %d (", a->tid, b->tid);
        write_text(report->out, a->name);
        write_text(report->out, ")\n");
        return;
    }
    write_text(report->out, "== ");
    write_text(report->out, report->options->files[0]);
    write_text(report->out, " and ");
    write_text(report->out, report->options->files[1]);
    write_text(report->out, "\n");
}

/* ---- rows ---- */

/* Whether a step begins a row: calls that functions called in the parting make are in their callers' rows. */
static bool begins_row(const struct diff_side *side, const struct cofi_diff_step *step)
{
    const struct diff_row *row = side->rows_n ? &side->rows[side->rows_n - 1] : NULL;
    bool gap = !step->insns;
    if (!row || gap || row->gap)
        return !row || gap != row->gap;
    return step->depth <= side->depth + 1 && (step->node != row->node || step->depth != row->depth);
}

static void add_row(struct diff_side *side, const struct cofi_diff_step *step)
{
    if (side->rest || (begins_row(side, step) && side->rows_n == DIFF_ROWS)) {
        side->rest += step->insns;
        return;
    }
    if (begins_row(side, step))
        side->rows[side->rows_n++] = (struct diff_row){step->ip, 0, step->node, step->depth, !step->insns};
    side->rows[side->rows_n - 1].insns += step->insns;
}

static void write_row(struct diff_report *report, unsigned run, const struct diff_row *row, char sign)
{
    struct spot spot;
    uint32_t base = report->sides[run].depth;
    if (row->gap) {
        write_format(report->out, "%c%12s  (a gap in the trace)\n", sign, "");
        return;
    }
    write_format(report->out, "%c%12" PRIu64 "  %*s", sign, row->insns, row->depth > base ? 2 : 0, "");
    find_spot(report, run, row->node, row->ip, &spot);
    write_spot(report->out, &spot);
    write_text(report->out, "\n");
}

static void write_side(struct diff_report *report, unsigned run, char sign)
{
    const struct diff_side *side = &report->sides[run];
    for (size_t i = 0; i < side->rows_n; i++)
        write_row(report, run, &side->rows[i], sign);
    if (side->rest)
        write_format(report->out, "%c%12" PRIu64 "  ...\n", sign, side->rest);
}

static void write_parting(struct diff_report *report, const struct cofi_diff_step *const at[2])
{
    const struct cofi_diff_step *last = &report->last[0];
    const struct diff_side *a = &report->sides[0], *b = &report->sides[1];
    struct spot spot;
    diff_report_title(report);
    write_format(report->out, "@@ -%" PRIu64 ",%" PRIu64 " +%" PRIu64 ",%" PRIu64 " @@", a->at + 1, a->insns, b->at + 1,
                 b->insns);
    if (last->insns) {
        find_spot(report, 0, last->node, branch_of(last), &spot);
        write_text(report->out, " ");
        write_spot(report->out, &spot);
        write_callers(report, 0, last->node);
    }
    write_text(report->out, "\n");
    write_side(report, 0, '-');
    write_side(report, 1, '+');
    if (!at[0])
        return;
    find_spot(report, 0, at[0]->node, at[0]->ip, &spot);
    write_format(report->out, "%15s", "");
    write_spot(report->out, &spot);
    write_text(report->out, "\n");
}

/* ---- objects ---- */

static void write_spot_json(struct diff_report *report, uint32_t node, uint64_t ip)
{
    char string[COFI_NAME_JSON_BYTES];
    struct spot spot;
    find_spot(report, 0, node, ip, &spot);
    write_text(report->out, "{\"function\":");
    write_text(report->out, cofi_json_string(spot.name, string, sizeof string));
    write_format(report->out, ",\"address\":\"0x%" PRIx64 "\",\"file\":", ip);
    write_text(report->out, cofi_json_string(spot.file, string, sizeof string));
    write_format(report->out, ",\"line\":%d}", spot.file ? spot.line : 0);
}

static void write_parting_json(struct diff_report *report, const struct cofi_diff_step *const at[2])
{
    const struct diff_side *a = &report->sides[0], *b = &report->sides[1];
    write_format(report->out,
                 "{\"v\":1,\"tids\":[%d,%d],\"at\":[%" PRIu64 ",%" PRIu64 "],\"alone\":[%" PRIu64 ",%" PRIu64
                 "],\"parted\":",
                 tid_of(report, 0), tid_of(report, 1), a->at, b->at, a->insns, b->insns);
    if (report->last[0].insns)
        write_spot_json(report, report->last[0].node, branch_of(&report->last[0]));
    else
        write_text(report->out, "null");
    write_text(report->out, ",\"joined\":");
    if (at[0])
        write_spot_json(report, at[0]->node, at[0]->ip);
    else
        write_text(report->out, "null");
    write_text(report->out, "}\n");
}

/* ---- the table ---- */

static char *text_of(struct diff_report *report, const struct cofi_diff_step *last)
{
    struct spot spot;
    char *text = NULL;
    if (!last->insns)
        return strdup("(where the trace begins, or has a gap)");
    find_spot(report, 0, last->node, branch_of(last), &spot);
    int n = spot.file ? asprintf(&text, "%s  %s:%d", spot.name, file_name(spot.file), spot.line)
                      : asprintf(&text, "%s", spot.name);
    return n < 0 ? NULL : text;
}

static int add_where(struct diff_report *report, uint64_t place, size_t *list)
{
    size_t row = report->wheres_n ? report->wheres_n : 1;
    if (!array_grow(&report->wheres, row, &report->wheres_room, sizeof *report->wheres))
        return COFI_ERR_NOMEM;
    report->wheres[row] = (struct diff_where){.place = place, .next = *list, .text = text_of(report, &report->last[0])};
    if (!report->wheres[row].text)
        return COFI_ERR_NOMEM;
    report->wheres_n = row + 1;
    *list = row;
    return 0;
}

/* The row of where they parted last, known or new; null: out of memory. */
static struct diff_where *where_parted(struct diff_report *report)
{
    const struct cofi_diff_step *last = &report->last[0];
    uint64_t place = last->insns ? last->place + last->bytes : 0;
    size_t *list = &report->by_hash[(place ^ place >> 12 ^ place >> 32) % DIFF_HASHES], row = *list;
    while (row && report->wheres[row].place != place)
        row = report->wheres[row].next;
    if (!row && add_where(report, place, list) < 0)
        return NULL;
    return &report->wheres[row ? row : *list];
}

static int by_insns(const void *a, const void *b)
{
    const struct diff_where *x = a, *y = b;
    uint64_t in_x = x->insns[0] + x->insns[1], in_y = y->insns[0] + y->insns[1];
    return in_x != in_y ? (in_x > in_y ? -1 : 1) : strcmp(x->text, y->text);
}

static void write_wheres(struct diff_report *report)
{
    qsort(report->wheres + 1, report->wheres_n - 1, sizeof *report->wheres, by_insns);
    write_format(report->out, "%13s %12s %9s   where they parted\n", "-", "+", "times");
    for (size_t i = 1; i < report->wheres_n && i <= WHERES; i++) {
        const struct diff_where *where = &report->wheres[i];
        write_format(report->out, "%13" PRIu64 " %12" PRIu64 " %8" PRIu64 "x  ", where->insns[0], where->insns[1],
                     where->times);
        write_text(report->out, where->text);
        write_text(report->out, "\n");
    }
    if (report->wheres_n > WHERES + 1)
        write_format(report->out, "%13s %12s %9s   and at %zu other places\n", "", "", "",
                     report->wheres_n - 1 - WHERES);
}

/* ---- what a diff tells ---- */

static int parted(void *opaque)
{
    struct diff_report *report = opaque;
    report->parted++;
    for (unsigned run = 0; run < 2; run++) {
        const struct cofi_diff_step *last = cofi_diff_last(report->diff, run);
        report->last[run] = last ? *last : (struct cofi_diff_step){0};
        report->sides[run] = (struct diff_side){.at = cofi_diff_insns(report->diff, run),
                                                .depth = report->last[run].depth};
    }
    return 0;
}

static int alone(void *opaque, unsigned run, const struct cofi_diff_step *steps, size_t n)
{
    struct diff_report *report = opaque;
    struct diff_side *side = &report->sides[run];
    for (size_t i = 0; i < n; i++) {
        side->depth = side->depth ? side->depth : steps[i].depth;
        side->insns += steps[i].insns;
        report->gaps += !steps[i].insns;
        add_row(side, &steps[i]);
    }
    return writer_failed(report->out) ? COFI_ERR_IO : 0;
}

static int joined(void *opaque, const struct cofi_diff_step *const at[2])
{
    struct diff_report *report = opaque;
    struct diff_where *where = where_parted(report);
    if (!where)
        return COFI_ERR_NOMEM;
    where->times++;
    for (unsigned run = 0; run < 2; run++) {
        where->insns[run] += report->sides[run].insns;
        report->alone[run] += report->sides[run].insns;
    }
    bool large = report->sides[0].insns + report->sides[1].insns >= report->options->min_insns;
    if (!large || report->shown == report->options->limit || report->options->brief)
        return 0;
    report->shown++;
    if (report->options->session.json)
        write_parting_json(report, at);
    else
        write_parting(report, at);
    return 0;
}

static int more(void *opaque, unsigned run) { return diff_feed_more(&((struct diff_report *)opaque)->feeds[run]); }

const struct cofi_diff_visitor diff_report_visitor = {more, parted, alone, joined, NULL};

static void write_sum_json(struct diff_report *report, uint64_t both)
{
    write_format(report->out,
                 "{\"v\":1,\"tids\":[%d,%d],\"both\":%" PRIu64 ",\"alone\":[%" PRIu64 ",%" PRIu64
                 "],\"times\":%" PRIu64,
                 tid_of(report, 0), tid_of(report, 1), both, report->alone[0], report->alone[1], report->parted);
    write_format(report->out, ",\"gaps\":%" PRIu64 ",\"name\":", report->gaps);
    char string[COFI_NAME_JSON_BYTES];
    write_text(report->out, cofi_json_string(report->feeds[0].thread->name, string, sizeof string));
    write_text(report->out, "}\n");
}

int diff_report_end(struct diff_report *report)
{
    uint64_t both = cofi_diff_insns(report->diff, 0) - report->alone[0];
    bool nothing = !both && !report->parted;
    if (report->options->session.json && !report->options->brief && !nothing)
        write_sum_json(report, both);
    if (report->options->calls && !report->options->brief && !nothing && diff_functions_write(report) < 0)
        return COFI_ERR_NOMEM;
    if (report->options->session.json || report->options->brief || !report->parted)
        return 0;
    diff_report_title(report);
    if (report->parted > report->shown)
        write_wheres(report);
    write_format(report->out,
                 "%" PRIu64 " %s in both, %" PRIu64 " (-) and %" PRIu64 " (+) in one alone; parted %" PRIu64
                 " time%s\n",
                 both, diff_unit(report->options), report->alone[0], report->alone[1], report->parted,
                 report->parted == 1 ? "" : "s");
    return 0;
}

void diff_report_free(struct diff_report *report)
{
    for (size_t i = 1; i < report->wheres_n; i++)
        free(report->wheres[i].text);
    free(report->wheres);
}

void diff_report_only(struct writer *out, const struct diff_options *options, unsigned run, const struct thread *thread)
{
    char string[COFI_NAME_JSON_BYTES], name[COFI_NAME_BYTES];
    if (options->brief)
        return;
    if (options->session.json) {
        write_format(out, "{\"v\":1,\"tids\":[%d,%d],\"name\":", run ? -1 : thread->tid, run ? thread->tid : -1);
        write_text(out, cofi_json_string(thread->name, string, sizeof string));
        write_text(out, "}\n");
        return;
    }
    write_format(out, "== thread %d (", thread->tid);
    write_text(out, in_a_line(thread->name, name, sizeof name));
    write_text(out, ") is in ");
    write_text(out, options->files[run]);
    write_text(out, " only\n");
}
