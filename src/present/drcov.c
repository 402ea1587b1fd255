/* SPDX-License-Identifier: MIT
 * Coverage by module -> DynamoRIO's drcov, version 2: modules as text, then blocks of 8 bytes. */
#include <cofi/present.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

/* A row of the table. A block's place in it has 32 bits, so what is larger (memory far apart) takes several. */
struct row {
    const struct cofi_coverage_module *module;
    uint64_t start, end;  /* the module's own addresses */
    size_t first, blocks; /* of the module's */
};

enum { MODULES_MAX = UINT16_MAX + 1, PAGE = 4096 };

static uint64_t end_of(const struct cofi_coverage_block *block)
{
    return ((block->addr + block->size - 1) | (PAGE - 1)) + 1;
}

/* The rows of one module; rows may be null, to count them. */
static size_t split(const struct cofi_coverage_module *module, struct row *rows)
{
    size_t n = 0;
    for (size_t i = 0, next; i < module->blocks_n; i = next, n++) {
        const struct cofi_coverage_block *blocks = module->blocks;
        bool whole = blocks[i].addr >= module->start && blocks[module->blocks_n - 1].addr - module->start <= UINT32_MAX;
        struct row row = {module, whole ? module->start : blocks[i].addr & ~(uint64_t)(PAGE - 1), 0, i, 0};
        for (next = i; next < module->blocks_n && blocks[next].addr - row.start <= UINT32_MAX; next++)
            row.end = end_of(&blocks[next]);
        row.blocks = next - i;
        if (whole && row.end < module->end)
            row.end = module->end;
        if (rows)
            rows[n] = row;
    }
    return n;
}

/* Lines and columns of the table are not the path's to make. */
static void print_path(const struct row *row, char *out, size_t n)
{
    if (row->module->pid < 0)
        snprintf(out, n, "%s", row->module->path);
    else
        snprintf(out, n, "%s (process %d)", row->module->path, row->module->pid);
    for (; *out; out++)
        if (*out == '\n' || *out == '\r')
            *out = '?';
}

static int put_modules(const struct row *rows, size_t n, cofi_put *put, void *opaque)
{
    static const char head[] = "DRCOV VERSION: 2\nDRCOV FLAVOR: cofi\n";
    char text[4096 + 256], path[4096 + 32];
    COFI_TRY(put(opaque, head, sizeof head - 1));
    int length = snprintf(text, sizeof text,
                          "Module Table: version 2, count %zu\nColumns: id, base, end, entry, path\n", n);
    COFI_TRY(put(opaque, text, (size_t)length));
    for (size_t i = 0; i < n; i++) {
        uint64_t base = rows[i].module->base;
        print_path(&rows[i], path, sizeof path);
        length = snprintf(text, sizeof text, "%3zu, 0x%016" PRIx64 ", 0x%016" PRIx64 ", 0x%016x, %s\n", i,
                          base + rows[i].start, base + rows[i].end, 0, path);
        COFI_TRY(put(opaque, text, (size_t)length));
    }
    return 0;
}

static int put_blocks(const struct row *rows, size_t n, cofi_put *put, void *opaque)
{
    uint64_t blocks = 0;
    char text[64];
    for (size_t i = 0; i < n; i++)
        blocks += rows[i].blocks;
    int length = snprintf(text, sizeof text, "BB Table: %" PRIu64 " bbs\n", blocks);
    COFI_TRY(put(opaque, text, (size_t)length));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < rows[i].blocks; k++) {
            const struct cofi_coverage_block *block = &rows[i].module->blocks[rows[i].first + k];
            uint8_t entry[8];
            put_le(entry, block->addr - rows[i].start, 4);
            put_le(entry + 4, block->size, 2);
            put_le(entry + 6, i, 2);
            COFI_TRY(put(opaque, (const char *)entry, sizeof entry));
        }
    return 0;
}

int cofi_coverage_drcov(const struct cofi_coverage *coverage, cofi_put *put, void *opaque)
{
    size_t n, rows_n = 0;
    const struct cofi_coverage_module *modules = cofi_coverage_modules(coverage, &n);
    for (size_t i = 0; i < n; i++)
        rows_n += split(&modules[i], NULL);
    if (rows_n > MODULES_MAX)
        return COFI_ERR_RANGE;
    struct row *rows = calloc(rows_n + 1, sizeof *rows);
    if (!rows)
        return COFI_ERR_NOMEM;
    for (size_t i = 0, at = 0; i < n; i++)
        at += split(&modules[i], rows + at);
    int status = put_modules(rows, rows_n, put, opaque);
    if (status >= 0)
        status = put_blocks(rows, rows_n, put, opaque);
    free(rows);
    return status < 0 ? status : 0;
}
