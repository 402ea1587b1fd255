/* SPDX-License-Identifier: MIT
 * The call trees of two runs -> a row a function, by its name. */
#include "diff_functions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { LEAST_ROWS = 10 };

struct row {
    char *name;
    const char *module; /* path or label; null: none */
    uint64_t calls[2], insns[2];
};

struct rows {
    struct row *all;
    size_t n, room;
};

static bool is_wanted(const struct diff_options *options, const struct cofi_function *function)
{
    return matches_module(options->module, function->module ? function->module : "") &&
           matches_pattern(options->function, function->name);
}

static int add_node(struct rows *rows, unsigned run, const struct cofi_calls_node *node)
{
    char name[COFI_NAME_BYTES];
    cofi_function_print(&node->function, name, sizeof name);
    size_t plain = node->function.name ? cofi_diff_plain_name(name) : strlen(name);
    bool part = strstr(name + plain, ".cold"); /* to go on there is no call */
    name[plain] = 0;
    if (!array_grow(&rows->all, rows->n, &rows->room, sizeof *rows->all))
        return COFI_ERR_NOMEM;
    struct row *row = &rows->all[rows->n];
    *row = (struct row){.name = strdup(name), .module = node->function.module};
    row->calls[run] = part ? 0 : node->calls;
    row->insns[run] = node->self;
    rows->n += row->name != NULL;
    return row->name ? 0 : COFI_ERR_NOMEM;
}

static int add_nodes(struct rows *rows, struct diff_report *report, unsigned run)
{
    size_t n;
    const struct cofi_calls_node *nodes = cofi_diff_nodes(report->diff, run, &n);
    int status = 0;
    for (size_t i = 1; i < n && status >= 0; i++)
        if (is_wanted(report->options, &nodes[i].function))
            status = add_node(rows, run, &nodes[i]);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(file_name(x->module ? x->module : ""), file_name(y->module ? y->module : ""));
}

/* One row of each function, and none of those of which as much ran. */
static void merge(struct rows *rows)
{
    size_t n = 0;
    if (rows->n)
        qsort(rows->all, rows->n, sizeof *rows->all, by_name);
    for (size_t i = 0, end; i < rows->n; i = end) {
        struct row sum = rows->all[i];
        for (end = i + 1; end < rows->n && !by_name(&sum, &rows->all[end]); end++) {
            for (unsigned run = 0; run < 2; run++) {
                sum.calls[run] += rows->all[end].calls[run];
                sum.insns[run] += rows->all[end].insns[run];
            }
            free(rows->all[end].name);
        }
        if (sum.calls[0] == sum.calls[1] && sum.insns[0] == sum.insns[1])
            free(sum.name);
        else
            rows->all[n++] = sum;
    }
    rows->n = n;
}

static uint64_t difference(const struct row *row)
{
    return row->insns[0] > row->insns[1] ? row->insns[0] - row->insns[1] : row->insns[1] - row->insns[0];
}

static int by_difference(const void *a, const void *b)
{
    uint64_t x = difference(a), y = difference(b);
    return x != y ? (x > y ? -1 : 1) : by_name(a, b);
}

static void write_objects(struct diff_report *report, const struct rows *rows)
{
    char string[COFI_NAME_JSON_BYTES];
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *row = &rows->all[i];
        write_format(report->out, "{\"v\":1,\"tids\":[%d,%d],\"function\":", report->feeds[0].thread->tid,
                     report->feeds[1].thread->tid);
        write_text(report->out, cofi_json_string(row->name, string, sizeof string));
        write_text(report->out, ",\"module\":");
        write_text(report->out, cofi_json_string(row->module, string, sizeof string));
        write_format(report->out, ",\"calls\":[%" PRIu64 ",%" PRIu64 "],\"insns\":[%" PRIu64 ",%" PRIu64 "]}\n",
                     row->calls[0], row->calls[1], row->insns[0], row->insns[1]);
    }
}

static void write_table(struct diff_report *report, const struct rows *rows)
{
    size_t most = report->options->limit > LEAST_ROWS ? report->options->limit : LEAST_ROWS;
    if (!rows->n)
        return;
    diff_report_title(report);
    write_format(report->out, "%13s %12s %9s %9s   instructions and calls of functions\n", "-", "+", "-", "+");
    for (size_t i = 0; i < rows->n && i < most; i++) {
        const struct row *row = &rows->all[i];
        write_format(report->out, "%13" PRIu64 " %12" PRIu64 " %8" PRIu64 "x %8" PRIu64 "x  ", row->insns[0],
                     row->insns[1], row->calls[0], row->calls[1]);
        write_text(report->out, row->name);
        write_text(report->out, "\n");
    }
    if (rows->n > most)
        write_format(report->out, "%13s %12s %9s %9s   and of %zu others\n", "", "", "", "", rows->n - most);
}

int diff_functions_write(struct diff_report *report)
{
    struct rows rows = {0};
    int status = add_nodes(&rows, report, 0);
    status = status < 0 ? status : add_nodes(&rows, report, 1);
    if (status >= 0) {
        merge(&rows);
        if (rows.n)
            qsort(rows.all, rows.n, sizeof *rows.all, by_difference);
        if (report->options->session.json)
            write_objects(report, &rows);
        else
            write_table(report, &rows);
    }
    for (size_t i = 0; i < rows.n; i++)
        free(rows.all[i].name);
    free(rows.all);
    return status;
}
