/* SPDX-License-Identifier: MIT
 * See calls_print.h. */
#include "calls_print.h"

#include <inttypes.h>
#include <string.h>

#include "cli.h"

/* ---- trees ---- */

void print_node(struct writer *out, const struct cofi_calls_node *node, uint64_t whole)
{
    char name[COFI_NAME_BYTES], share[PERCENT_BYTES];
    cofi_function_print(&node->function, name, sizeof name);
    write_format(out, "%12" PRIu64 " %6s %9" PRIu64 "x  %*s", node->total, percent(node->total, whole, share),
                 node->calls, (int)(node->depth - 1) * 2, "");
    write_text(out, name);
    write_text(out, node->recursions ? " (recursive)\n" : "\n");
}

void print_node_json(struct writer *out, int32_t tid, const struct cofi_calls_node *node)
{
    char name[COFI_NAME_BYTES], string[COFI_NAME_JSON_BYTES];
    cofi_function_print(&node->function, name, sizeof name);
    write_format(out, "{\"v\":1,\"tid\":%d,\"depth\":%u,\"function\":", tid, node->depth - 1);
    write_text(out, cofi_json_string(name, string, sizeof string));
    write_format(out,
                 ",\"address\":\"0x%" PRIx64 "\",\"calls\":%" PRIu64 ",\"recursions\":%" PRIu64 ",\"self\":%" PRIu64
                 ",\"total\":%" PRIu64 "}\n",
                 node->function.start, node->calls, node->recursions, node->self, node->total);
}

/* A frame of a path, which has neither of what parts frames and paths. */
static void print_frame(struct writer *out, const char *text)
{
    char name[COFI_NAME_BYTES];
    in_a_line(text, name, sizeof name);
    for (char *c = name; (c = strchr(c, ';')); c++)
        *c = ':';
    write_text(out, name);
}

void print_path(struct writer *out, const char *comm, const struct cofi_calls_node *nodes,
                const struct cofi_calls_node *node, uint64_t insns)
{
    char name[COFI_NAME_BYTES];
    if (!insns)
        return;
    print_frame(out, comm);
    for (unsigned depth = 1; depth <= node->depth; depth++) {
        const struct cofi_calls_node *at = node;
        while (at->depth > depth)
            at = &nodes[at->parent];
        cofi_function_print(&at->function, name, sizeof name);
        write_text(out, ";");
        print_frame(out, name);
    }
    write_format(out, " %" PRIu64 "\n", insns);
}

/* ---- calls ---- */

void print_call(struct writer *out, const struct cofi_function *function, size_t depth, const struct cofi_symbol *from)
{
    char name[COFI_NAME_BYTES];
    cofi_function_print(function, name, sizeof name);
    write_format(out, "%*s", (int)depth * 2, "");
    write_text(out, name);
    if (from->file)
        write_format(out, "  %s:%d", file_name(from->file), from->line);
    write_text(out, "\n");
}

void print_call_json(struct writer *out, int32_t tid, const struct cofi_function *function, size_t depth,
                     const struct cofi_symbol *from)
{
    char name[COFI_NAME_BYTES], string[COFI_NAME_JSON_BYTES];
    cofi_function_print(function, name, sizeof name);
    write_format(out, "{\"v\":1,\"tid\":%d,\"depth\":%zu,\"function\":", tid, depth);
    write_text(out, cofi_json_string(name, string, sizeof string));
    write_format(out, ",\"address\":\"0x%" PRIx64 "\",\"file\":", function->start);
    write_text(out, cofi_json_string(from->file, string, sizeof string));
    write_format(out, ",\"line\":%d}\n", from->line);
}
