/* SPDX-License-Identifier: MIT
 * See calls_page.h. The page itself is calls_page.html. In its data a function is told once a thread. */
#include "calls_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls_page.html.h"
#include "page.h"

void page_of_calls_begin(struct writer *out)
{
    page_begin(out, calls_page_html);
    write_text(out, "{\"v\":1,\"threads\":[");
}

void page_of_calls_end(struct writer *out)
{
    write_text(out, "]}\n");
    page_end(out, calls_page_html);
}

/* ---- functions, by number ---- */

static int compare_text(const char *a, const char *b)
{
    return a == b ? 0 : !a ? -1 : !b ? 1 : strcmp(a, b);
}

static int compare_functions(const void *a, const void *b)
{
    const struct cofi_function *x = *(const struct cofi_function *const *)a,
                               *y = *(const struct cofi_function *const *)b;
    int order = (x->start > y->start) - (x->start < y->start);
    if (!order)
        order = compare_text(x->module, y->module);
    return order ? order : compare_text(x->name, y->name);
}

/* Those of a tree, each once. Returns how many. */
static size_t list_functions(const struct page_tree *tree, const struct cofi_function **list)
{
    size_t n = 0;
    for (size_t i = 0; i < tree->n; i++)
        list[i] = &tree->nodes[i]->function;
    qsort(list, tree->n, sizeof *list, compare_functions);
    for (size_t i = 0; i < tree->n; i++)
        if (!n || compare_functions(&list[n - 1], &list[i]))
            list[n++] = list[i];
    return n;
}

static size_t number_of(const struct cofi_function *const *list, size_t n, const struct cofi_function *function)
{
    return (size_t)((const struct cofi_function **)bsearch(&function, list, n, sizeof *list, compare_functions) - list);
}

/* ---- a tree ---- */

static void write_function(struct writer *out, const struct cofi_function *function)
{
    char name[COFI_NAME_BYTES];
    cofi_function_print(function, name, sizeof name);
    write_text(out, "[");
    page_string(out, name);
    write_text(out, ",");
    page_string(out, function->module);
    write_text(out, "]");
}

static void write_node(struct writer *out, const struct cofi_calls_node *node, size_t function)
{
    write_format(out, "[%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%zu]", node->depth - 1, node->total, node->self,
                 node->calls, function);
}

int page_of_calls_tree(const struct page_tree *tree, struct writer *out)
{
    const struct cofi_function **list = calloc(tree->n + 1, sizeof *list);
    if (!list)
        return COFI_ERR_NOMEM;
    size_t n = list_functions(tree, list);
    write_format(out, "%s\n{\"tid\":%d,\"insns\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"comm\":", tree->first ? "" : ",",
                 tree->tid, tree->insns, tree->gaps);
    page_string(out, tree->comm);
    write_text(out, ",\"functions\":[");
    for (size_t i = 0; i < n; i++) {
        write_text(out, i ? ",\n" : "\n");
        write_function(out, list[i]);
    }
    write_text(out, "],\"nodes\":[");
    for (size_t i = 0; i < tree->n; i++) {
        write_text(out, i ? ",\n" : "\n");
        write_node(out, tree->nodes[i], number_of(list, n, &tree->nodes[i]->function));
    }
    write_text(out, "]}");
    free(list);
    return 0;
}
