/* SPDX-License-Identifier: MIT
 * An ELF file's .eh_frame_hdr -> where functions begin and how long they are, in stripped programs, too. */
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "image/file.h"
#include "image/symbols.h"

/* The file as it would be loaded. */
struct loaded {
    Elf *elf;
    const uint8_t *bytes;
    size_t size, parts;
};

/* n bytes at an address; null: not in the file. */
static const uint8_t *bytes_at(const struct loaded *file, uint64_t addr, uint64_t n)
{
    for (size_t i = 0; i < file->parts; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(file->elf, (int)i, &p) || p.p_type != PT_LOAD || addr < p.p_vaddr ||
            addr - p.p_vaddr >= p.p_filesz || n > p.p_filesz - (addr - p.p_vaddr))
            continue;
        uint64_t offset = p.p_offset + (addr - p.p_vaddr);
        return offset <= file->size && n <= file->size - offset ? file->bytes + offset : NULL;
    }
    return NULL;
}

static uint64_t le32s(const uint8_t *p) { return (uint64_t)(int64_t)(int32_t)le32(p); }

/* [LSB .eh_frame_hdr]: version 1, how three things are encoded, where .eh_frame is, how many rows. Linkers
 * for x86 write the one form that is read here: 4 bytes each, rows relative to the table's start. */
static const uint8_t *find_rows(const struct loaded *file, uint64_t *table, uint32_t *n)
{
    static const uint8_t head[] = {1, 0x1b /* pcrel, sdata4 */, 0x03 /* udata4 */, 0x3b /* datarel, sdata4 */};
    for (size_t i = 0; i < file->parts; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(file->elf, (int)i, &p) || p.p_type != PT_GNU_EH_FRAME)
            continue;
        const uint8_t *bytes = bytes_at(file, p.p_vaddr, 12);
        if (!bytes || memcmp(bytes, head, sizeof head) != 0)
            return NULL;
        *table = p.p_vaddr;
        *n = le32(bytes + 8);
        return bytes_at(file, p.p_vaddr + 12, UINT64_C(8) * *n);
    }
    return NULL;
}

/* A row's function. Its length stands in the FDE behind where it begins, which is checked: that shows
 * that it is encoded as assumed. */
static bool read_row(const struct loaded *file, uint64_t table, const uint8_t *row, struct cofi__function *function)
{
    uint64_t start = table + le32s(row), fde = table + le32s(row + 4);
    const uint8_t *bytes = bytes_at(file, fde, 16);
    if (!bytes || fde + 8 + le32s(bytes + 8) != start)
        return false;
    *function = (struct cofi__function){.addr = start, .size = le32(bytes + 12)};
    return function->size > 0;
}

/* Whether a symbol begins there, or one with a size goes on there. */
static bool is_named(const struct cofi__symbols *symbols, uint64_t addr)
{
    size_t n = cofi__array_upper_bound(symbols->functions, symbols->n_functions, sizeof *symbols->functions,
                                       offsetof(struct cofi__function, addr), addr);
    const struct cofi__function *before = n ? &symbols->functions[n - 1] : NULL;
    return before && (before->addr == addr || addr - before->addr < before->size);
}

int cofi__frames_load(struct cofi__symbols *symbols)
{
    struct loaded file = {.elf = symbols->elf};
    uint64_t table;
    uint32_t n;
    symbols->frames_tried = true;
    if (!file.elf || elf_getphdrnum(file.elf, &file.parts) ||
        !(file.bytes = (uint8_t *)elf_rawfile(file.elf, &file.size)))
        return 0;
    const uint8_t *rows = find_rows(&file, &table, &n);
    for (uint32_t i = 0; rows && i < n; i++) {
        struct cofi__function function;
        if (!read_row(&file, table, rows + UINT64_C(8) * i, &function) || is_named(symbols, function.addr))
            continue;
        if (symbols->n_frames && symbols->frames[symbols->n_frames - 1].addr >= function.addr)
            continue; /* rows are sorted, or the table is bad */
        COFI_TRY(cofi__array_grow(&symbols->frames, &symbols->frames_room, symbols->n_frames, sizeof *symbols->frames));
        symbols->frames[symbols->n_frames++] = function;
    }
    return 0;
}
