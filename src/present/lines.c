/* SPDX-License-Identifier: MIT
 * Blocks -> lines of text, kept by block so that hot code is formatted once. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "base/error.h"
#include "base/file.h"

enum { LINE_MAX_BYTES = 4 * COFI_NAME_JSON_BYTES, KEEP_BYTES = 32 << 20 };

/* What is kept of one block. */
struct entry {
    const struct cofi_flow_block *block;
    uint64_t ip;
    uint32_t insns;
    uint32_t age; /* it holds while the lines have the same */
    size_t text_n;
    uint32_t *ends; /* insns of them, then the text */
};

/* Where one line is put together; of the room no more is touched than the names are long. */
struct scratch {
    char name[COFI_NAME_BYTES + 32], source[COFI_NAME_BYTES], target[COFI_NAME_BYTES + 32];
    char symbol[COFI_NAME_JSON_BYTES], file[COFI_NAME_JSON_BYTES], module[COFI_NAME_JSON_BYTES];
    char line[LINE_MAX_BYTES];
};

struct cofi_lines {
    enum cofi_lines_format format;
    int32_t tid;
    int source;
    struct entry *entries; /* by block id */
    size_t room;
    size_t kept; /* bytes in entries */
    uint32_t age; /* how often all was forgotten */
    struct cofi_demangler *demangler;
    struct scratch scratch;
};

int cofi_lines_open(struct cofi_lines **lines, enum cofi_lines_format format, int32_t tid, int source)
{
    *lines = calloc(1, sizeof **lines);
    if (!*lines)
        return COFI_ERR_NOMEM;
    (*lines)->format = format;
    (*lines)->tid = tid;
    (*lines)->source = source;
    return 0;
}

/* Code may change as often as it runs: what is kept is not gone through each time. */
void cofi_lines_forget(struct cofi_lines *lines)
{
    lines->age++;
}

static void let_go(struct cofi_lines *lines)
{
    for (size_t i = 0; i < lines->room; i++)
        free(lines->entries[i].ends);
    if (lines->room)
        memset(lines->entries, 0, lines->room * sizeof *lines->entries);
    lines->kept = 0;
}

void cofi_lines_demangle(struct cofi_lines *lines, struct cofi_demangler *demangler) { lines->demangler = demangler; }

void cofi_lines_thread(struct cofi_lines *lines, int32_t tid)
{
    if (lines->tid != tid && lines->format == COFI_LINES_JSON)
        cofi_lines_forget(lines); /* it is in the lines */
    lines->tid = tid;
}

void cofi_lines_close(struct cofi_lines *lines)
{
    if (!lines)
        return;
    let_go(lines);
    free(lines->entries);
    free(lines);
}

int cofi_symbol_print(const struct cofi_symbol *symbol, uint64_t address, char *out, size_t n)
{
    if (symbol->name && symbol->offset)
        return snprintf(out, n, "%s+0x%" PRIx64, symbol->name, symbol->offset);
    if (symbol->name)
        return snprintf(out, n, "%s", symbol->name);
    if (symbol->module)
        return snprintf(out, n, "%s+0x%" PRIx64, cofi__file_name(symbol->module), symbol->offset);
    return snprintf(out, n, "0x%" PRIx64, address);
}

int cofi_function_print(const struct cofi_function *function, char *out, size_t n)
{
    return cofi_symbol_print(&(struct cofi_symbol){.name = function->name,
                                                   .module = function->module,
                                                   .offset = function->name ? 0 : function->offset},
                             function->start, out, n);
}

/* Bytes of an instruction into code; returns how many, 0 if they are gone. */
static size_t insn_bytes(struct cofi_view *view, const struct cofi_flow_insn *insn, uint8_t code[16])
{
    size_t n = 0;
    while (n < insn->length) { /* an instruction may lie in two mappings */
        struct cofi_code piece;
        uint64_t at = insn->ip + n;
        if (cofi_view_find(view, at, &piece) < 0)
            return 0;
        size_t here = (size_t)(piece.end - at < insn->length - n ? piece.end - at : insn->length - n);
        memcpy(code + n, piece.bytes + (at - piece.start), here);
        n += here;
    }
    return n;
}

static void disassemble(struct cofi_view *view, const struct cofi_flow_insn *insn, char *out, size_t n)
{
    uint8_t code[16];
    size_t got = insn_bytes(view, insn, code);
    if (!got || cofi_insn_print(insn->mode, insn->ip, code, got, out, n) < 0)
        snprintf(out, n, "(%s)", cofi_class_name(insn->cls));
}

static void find_symbol(const struct cofi_lines *lines, struct cofi_view *view, uint64_t address, bool want_line,
                        struct cofi_symbol *symbol)
{
    cofi_view_symbol(view, address, want_line, symbol);
    symbol->name = cofi_demangle(lines->demangler, symbol->name);
}

/* The symbol that a direct branch goes to, or "". */
static void target_symbol(const struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block,
                          char *out, size_t n)
{
    struct cofi_symbol symbol = {0};
    out[0] = '\0';
    if (block->target)
        find_symbol(lines, view, block->target, false, &symbol);
    if (symbol.name)
        cofi_symbol_print(&symbol, block->target, out, n);
}

static int text_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block, uint32_t i)
{
    const struct cofi_flow_insn *insn = &block->insns[i];
    struct scratch *s = &lines->scratch;
    struct cofi_symbol symbol;
    char insn_text[160];
    find_symbol(lines, view, insn->ip, lines->source, &symbol);
    cofi_symbol_print(&symbol, insn->ip, s->name, sizeof s->name);
    s->source[0] = s->target[0] = '\0';
    if (symbol.file)
        snprintf(s->source, sizeof s->source, "%s:%d", cofi__file_name(symbol.file), symbol.line);
    if (i + 1 == block->n)
        target_symbol(lines, view, block, s->target, sizeof s->target);
    disassemble(view, insn, insn_text, sizeof insn_text);
    return snprintf(s->line, sizeof s->line, "%016" PRIx64 "  %-28s %-18s %s%s%s%s\n", insn->ip, s->name, s->source,
                    insn_text, s->target[0] ? " <" : "", s->target, s->target[0] ? ">" : "");
}

static int json_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_insn *insn)
{
    struct scratch *s = &lines->scratch;
    struct cofi_symbol symbol;
    char insn_text[160];
    find_symbol(lines, view, insn->ip, lines->source, &symbol);
    disassemble(view, insn, insn_text, sizeof insn_text);
    return snprintf(s->line, sizeof s->line,
                    "{\"v\":1,\"tid\":%d,\"ip\":\"0x%" PRIx64 "\",\"length\":%u,\"class\":\"%s\","
                    "\"symbol\":%s,\"offset\":%" PRIu64 ",\"module\":%s,\"file\":%s,\"line\":%d,"
                    "\"insn\":\"%s\"}\n",
                    lines->tid, insn->ip, insn->length, cofi_class_name(insn->cls),
                    cofi_json_string(symbol.name, s->symbol, sizeof s->symbol), symbol.offset,
                    cofi_json_string(symbol.module, s->module, sizeof s->module),
                    cofi_json_string(symbol.file, s->file, sizeof s->file), symbol.line, insn_text);
}

/* One line into the scratch; returns its length. */
static size_t make_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block,
                        uint32_t i)
{
    int n = 0;
    switch (lines->format) {
    case COFI_LINES_IP:
        n = snprintf(lines->scratch.line, LINE_MAX_BYTES, "%016" PRIx64 "\n", block->insns[i].ip);
        break;
    case COFI_LINES_TEXT: n = text_line(lines, view, block, i); break;
    case COFI_LINES_JSON: n = json_line(lines, view, &block->insns[i]); break;
    }
    return (size_t)n;
}

static int make_entry(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block,
                      struct entry *entry)
{
    size_t at = block->n * sizeof *entry->ends, first = at;
    size_t room = at + block->n * (lines->format == COFI_LINES_IP ? 17u : 100u) + 256;
    uint32_t *ends = malloc(room);
    for (uint32_t i = 0; ends && i < block->n; i++) {
        size_t n = make_line(lines, view, block, i);
        if (room - at < n) {
            uint32_t *larger = realloc(ends, room = 2 * room + n);
            if (!larger)
                free(ends);
            ends = larger;
            if (!ends)
                break;
        }
        memcpy((char *)ends + at, lines->scratch.line, n);
        at += n;
        ends[i] = (uint32_t)(at - first);
    }
    if (!ends || cofi_view_incomplete(view)) {
        free(ends);
        return COFI_ERR_NOMEM;
    }
    lines->kept += room;
    *entry = (struct entry){.block = block, .ip = block->ip, .insns = block->n, .age = lines->age, .text_n = at - first,
                            .ends = ends};
    return 0;
}

/* The entry of a block id, in an array that grows to hold it. */
static struct entry *entry_of(struct cofi_lines *lines, uint32_t id)
{
    if (id >= lines->room) {
        size_t room = lines->room ? lines->room : 1024;
        while (room <= id)
            room *= 2;
        struct entry *larger = realloc(lines->entries, room * sizeof *larger);
        if (!larger)
            return NULL;
        memset(larger + lines->room, 0, (room - lines->room) * sizeof *larger);
        lines->entries = larger;
        lines->room = room;
    }
    return &lines->entries[id];
}

const char *cofi_lines_block(struct cofi_lines *lines, struct cofi_view *view,
                             const struct cofi_flow_block *block, size_t *n, const uint32_t **line_ends)
{
    struct entry *entry = entry_of(lines, block->id);
    if (!entry)
        return NULL;
    if (entry->block != block || entry->age != lines->age || entry->ip != block->ip || entry->insns != block->n) {
        if (lines->kept > KEEP_BYTES)
            let_go(lines);
        free(entry->ends);
        *entry = (struct entry){0};
        if (make_entry(lines, view, block, entry) < 0)
            return NULL;
    }
    *n = entry->text_n;
    if (line_ends)
        *line_ends = entry->ends;
    return (const char *)(entry->ends + entry->insns);
}
