/* SPDX-License-Identifier: MIT
 * Blocks -> lines of text, kept by block so that hot code is formatted once. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

#include "base/error.h"

enum { LINE_MAX_BYTES = 2048, KEEP_BYTES = 32 << 20 };

/* What is kept of one block. */
struct entry {
    const struct cofi_flow_block *block;
    uint64_t ip;
    uint32_t insns;
    uint32_t age; /* it holds while the lines have the same */
    size_t text_n;
    uint32_t *ends; /* insns of them, then the text */
};

struct cofi_lines {
    enum cofi_lines_format format;
    int32_t tid;
    int source;
    struct entry *entries; /* by block id */
    size_t room;
    size_t kept; /* bytes in entries */
    uint32_t age; /* how often all was forgotten */
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

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int cofi_symbol_print(const struct cofi_symbol *symbol, uint64_t address, char *out, size_t n)
{
    if (symbol->name && symbol->offset)
        return snprintf(out, n, "%s+0x%" PRIx64, symbol->name, symbol->offset);
    if (symbol->name)
        return snprintf(out, n, "%s", symbol->name);
    if (symbol->module)
        return snprintf(out, n, "%s+0x%" PRIx64, base_name(symbol->module), symbol->offset);
    return snprintf(out, n, "0x%" PRIx64, address);
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

/* " <symbol>" behind a direct branch. */
static void target_symbol(struct cofi_view *view, const struct cofi_flow_block *block, char *out, size_t n)
{
    out[0] = '\0';
    if (!block->target)
        return;
    struct cofi_symbol symbol;
    char name[256];
    cofi_view_symbol(view, block->target, false, &symbol);
    if (!symbol.name)
        return;
    cofi_symbol_print(&symbol, block->target, name, sizeof name);
    snprintf(out, n, " <%s>", name);
}

static int text_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_insn *insn,
                     const char *target, char *out)
{
    struct cofi_symbol symbol;
    char name[256], source[256] = "", insn_text[160];
    cofi_view_symbol(view, insn->ip, lines->source, &symbol);
    cofi_symbol_print(&symbol, insn->ip, name, sizeof name);
    if (symbol.file)
        snprintf(source, sizeof source, "%s:%d", base_name(symbol.file), symbol.line);
    disassemble(view, insn, insn_text, sizeof insn_text);
    return snprintf(out, LINE_MAX_BYTES, "%016" PRIx64 "  %-28s %-18s %s%s\n", insn->ip, name, source,
                    insn_text, target);
}

static int json_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_insn *insn,
                     char *out)
{
    struct cofi_symbol symbol;
    char insn_text[160], name[256], file[256], module[256];
    cofi_view_symbol(view, insn->ip, lines->source, &symbol);
    disassemble(view, insn, insn_text, sizeof insn_text);
    return snprintf(out, LINE_MAX_BYTES,
                    "{\"v\":1,\"tid\":%d,\"ip\":\"0x%" PRIx64 "\",\"length\":%u,\"class\":\"%s\","
                    "\"symbol\":%s,\"offset\":%" PRIu64 ",\"module\":%s,\"file\":%s,\"line\":%d,"
                    "\"insn\":\"%s\"}\n",
                    lines->tid, insn->ip, insn->length, cofi_class_name(insn->cls),
                    cofi_json_string(symbol.name, name, sizeof name), symbol.offset,
                    cofi_json_string(symbol.module, module, sizeof module),
                    cofi_json_string(symbol.file, file, sizeof file), symbol.line, insn_text);
}

static int make_line(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block,
                     uint32_t i, char *out)
{
    const struct cofi_flow_insn *insn = &block->insns[i];
    char target[300] = "";
    int n = 0;
    switch (lines->format) {
    case COFI_LINES_IP:
        return snprintf(out, LINE_MAX_BYTES, "%016" PRIx64 "\n", insn->ip);
    case COFI_LINES_TEXT:
        if (i + 1 == block->n)
            target_symbol(view, block, target, sizeof target);
        n = text_line(lines, view, insn, target, out);
        break;
    case COFI_LINES_JSON:
        n = json_line(lines, view, insn, out);
        break;
    }
    return n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES - 1;
}

static int make_entry(struct cofi_lines *lines, struct cofi_view *view, const struct cofi_flow_block *block,
                      struct entry *entry)
{
    size_t ends_bytes = block->n * sizeof *entry->ends;
    size_t room = ends_bytes + block->n * (lines->format == COFI_LINES_IP ? 17u : 100u) + LINE_MAX_BYTES;
    uint32_t *ends = malloc(room);
    size_t n = 0;
    for (uint32_t i = 0; ends && i < block->n; i++) {
        if (room - ends_bytes - n < LINE_MAX_BYTES) {
            uint32_t *larger = realloc(ends, room *= 2);
            if (!larger)
                free(ends);
            ends = larger;
            if (!ends)
                break;
        }
        n += (size_t)make_line(lines, view, block, i, (char *)ends + ends_bytes + n);
        ends[i] = (uint32_t)n;
    }
    if (!ends)
        return COFI_ERR_NOMEM;
    lines->kept += room;
    *entry = (struct entry){.block = block, .ip = block->ip, .insns = block->n, .age = lines->age, .text_n = n, .ends = ends};
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
