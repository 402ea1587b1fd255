/* SPDX-License-Identifier: MIT
 * An ELF core file [core(5), elf(5)] -> registers by gdb's numbers, and memory. See gdb_core.h. */
#include "gdb_core.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "elf_members.h"

/* ---- the file ---- */

/* A member of a structure in the file. */
#define GET(core, at, Type, member) ELF_GET((core)->is_32, at, Type, member)
#define SIZE(core, Type) ELF_SIZE((core)->is_32, Type)

/* Bytes [offset, offset + n) of the file; null: they are not all there. */
static const uint8_t *bytes_at(const struct gdb_core *core, uint64_t offset, uint64_t n)
{
    return offset <= core->file.n && n <= core->file.n - offset ? core->file.bytes + offset : NULL;
}

static const uint8_t *header(const struct gdb_core *core, size_t i)
{
    return bytes_at(core, core->headers + i * SIZE(core, Phdr), SIZE(core, Phdr));
}

/* More headers than 16 bits count are counted in the first section's. */
static bool find_headers(struct gdb_core *core, const uint8_t *ehdr)
{
    core->headers = GET(core, ehdr, Ehdr, e_phoff);
    core->headers_n = (size_t)GET(core, ehdr, Ehdr, e_phnum);
    if (core->headers_n == PN_XNUM) {
        const uint8_t *section = bytes_at(core, GET(core, ehdr, Ehdr, e_shoff), SIZE(core, Shdr));
        core->headers_n = section ? (size_t)GET(core, section, Shdr, sh_info) : 0;
    }
    return core->headers_n && core->headers <= core->file.n && header(core, core->headers_n - 1);
}

/* ---- notes ---- */

/* struct elf_prstatus of the two classes: where the thread's number and its registers are. */
static const struct status {
    size_t tid, registers, bytes;
} status32 = {24, 72, 17 * 4}, status64 = {32, 112, 27 * 8};
enum { FX_BYTES = 512 };

static bool take_note(struct gdb_core *core, uint32_t type, const uint8_t *bytes, size_t n)
{
    const struct status *status = core->is_32 ? &status32 : &status64;
    if (type == NT_PRSTATUS && n >= status->registers + status->bytes) {
        if (!array_grow(&core->threads, core->n, &core->room, sizeof *core->threads))
            return false;
        core->threads[core->n++] = (struct gdb_core_thread){(int32_t)elf_number(bytes + status->tid, 4),
                                                            bytes + status->registers, NULL};
    } else if (type == NT_FPREGSET && core->n && n >= FX_BYTES) { /* of the thread before it */
        core->threads[core->n - 1].fx = bytes;
    } else if (type == NT_AUXV) {
        core->auxv = bytes;
        core->auxv_bytes = n;
    }
    return true;
}

static uint64_t aligned(uint64_t n) { return (n + 3) & ~UINT64_C(3); }

/* False: memory is out. What is cut is no note. */
static bool take_notes(struct gdb_core *core, const uint8_t *notes, uint64_t n)
{
    for (const uint8_t *note = notes; n >= sizeof(Elf64_Nhdr);) {
        uint64_t name = aligned(elf_number(note + offsetof(Elf64_Nhdr, n_namesz), 4)),
                 bytes = elf_number(note + offsetof(Elf64_Nhdr, n_descsz), 4);
        uint64_t before = sizeof(Elf64_Nhdr) + name;
        if (before > n || bytes > n - before)
            return true;
        if (!take_note(core, (uint32_t)elf_number(note + offsetof(Elf64_Nhdr, n_type), 4), note + before,
                       (size_t)bytes))
            return false;
        uint64_t step = before + aligned(bytes) < n ? before + aligned(bytes) : n;
        note += step;
        n -= step;
    }
    return true;
}

static bool read_notes(struct gdb_core *core)
{
    for (size_t i = 0; i < core->headers_n; i++) {
        const uint8_t *phdr = header(core, i);
        if (GET(core, phdr, Phdr, p_type) != PT_NOTE)
            continue;
        uint64_t n = GET(core, phdr, Phdr, p_filesz);
        const uint8_t *notes = bytes_at(core, GET(core, phdr, Phdr, p_offset), n);
        if (notes && !take_notes(core, notes, n))
            return false;
    }
    return true;
}

/* ---- opening ---- */

int gdb_core_open(struct gdb_core *core, const char *path)
{
    int status = file_open(&core->file, "gdb", path);
    if (status != EXIT_DONE)
        return status;
    const uint8_t *ehdr = core->file.bytes;
    core->is_32 = core->file.n > EI_CLASS && ehdr[EI_CLASS] == ELFCLASS32;
    bool is_core = core->file.n >= SIZE(core, Ehdr) && !memcmp(ehdr, ELFMAG, SELFMAG) &&
                   GET(core, ehdr, Ehdr, e_type) == ET_CORE;
    if (!is_core || !find_headers(core, ehdr)) {
        complain("gdb: %s: %s", path, is_core ? "it is cut: its headers are not all there" : "this is no core file");
        return EXIT_DATA;
    }
    if (!read_notes(core)) {
        complain("gdb: %s: %s", path, "out of memory");
        return EXIT_ENVIRONMENT;
    }
    return EXIT_DONE;
}

void gdb_core_close(struct gdb_core *core)
{
    file_close(&core->file);
    free(core->threads);
}

const struct gdb_core_thread *gdb_core_thread(const struct gdb_core *core, int32_t tid)
{
    for (size_t i = 0; i < core->n; i++)
        if (core->threads[i].tid == tid)
            return &core->threads[i];
    return NULL;
}

/* ---- registers ---- */

/* Registers that follow each other by gdb's numbers: how wide they are for it, and where the core has each. */
struct place {
    uint8_t width, from; /* from: NOWHERE, IN_FX, or the registers' */
    uint16_t at;
};
enum { NOWHERE, IN_REGISTERS, IN_FX };

#define NONE(width) {width, NOWHERE, 0}
#define XMM(i) {16, IN_FX, 160 + 16 * (i)}
#define EIGHT(of) of, of, of, of, of, of, of, of
/* In the order of 64-bit ptrace: r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags
 * rsp ss fs_base gs_base ds es fs gs. */
enum { RIP = 16 };
#define R64(i, width) {width, IN_REGISTERS, 8 * (i)}
static const struct place places64[] = {
    R64(10, 8),      R64(5, 8),      R64(11, 8), R64(12, 8), R64(13, 8), R64(14, 8), R64(4, 8),  R64(19, 8),
    R64(9, 8),       R64(8, 8),      R64(7, 8),  R64(6, 8),  R64(3, 8),  R64(2, 8),  R64(1, 8),  R64(0, 8),
    R64(RIP, 8),     R64(18, 4),     R64(17, 4), R64(20, 4), R64(23, 4), R64(24, 4), R64(25, 4), R64(26, 4),
    EIGHT(NONE(10)), EIGHT(NONE(4)),
    XMM(0),          XMM(1),         XMM(2),     XMM(3),     XMM(4),     XMM(5),     XMM(6),     XMM(7),
    XMM(8),          XMM(9),         XMM(10),    XMM(11),    XMM(12),    XMM(13),    XMM(14),    XMM(15),
    {4, IN_FX, 24},  R64(15, 8),     R64(21, 8), R64(22, 8),
};
/* In the order of 32-bit ptrace: ebx ecx edx esi edi ebp eax ds es fs gs orig_eax eip cs eflags esp ss. */
enum { EIP = 12 };
#define R32(i) {4, IN_REGISTERS, 4 * (i)}
static const struct place places32[] = {
    R32(6),   R32(1),  R32(2),  R32(0),  R32(15), R32(5), R32(3), R32(4),
    R32(EIP), R32(14), R32(13), R32(16), R32(7),  R32(8), R32(9), R32(10),
};

unsigned gdb_core_registers(bool is_32)
{
    return is_32 ? sizeof places32 / sizeof places32[0] : sizeof places64 / sizeof places64[0];
}

size_t gdb_core_register(bool is_32, const struct gdb_core_thread *thread, unsigned number, const uint8_t **bytes)
{
    const struct place *place = is_32 ? &places32[number] : &places64[number];
    const uint8_t *from = !thread || place->from == NOWHERE ? NULL
                          : place->from == IN_FX            ? thread->fx
                                                            : thread->registers;
    *bytes = from ? from + place->at : NULL;
    return place->width;
}

uint64_t gdb_core_pc(const struct gdb_core *core, const struct gdb_core_thread *thread)
{
    return core->is_32 ? elf_number(thread->registers + EIP * 4, 4)
                       : elf_number(thread->registers + RIP * 8, 8);
}

/* ---- memory ---- */

const uint8_t *gdb_core_memory(const struct gdb_core *core, uint64_t addr, size_t *n)
{
    for (size_t i = 0; i < core->headers_n; i++) {
        const uint8_t *phdr = header(core, i);
        uint64_t first = GET(core, phdr, Phdr, p_vaddr), bytes = GET(core, phdr, Phdr, p_filesz),
                 offset = GET(core, phdr, Phdr, p_offset);
        if (GET(core, phdr, Phdr, p_type) != PT_LOAD || addr < first || addr - first >= bytes)
            continue;
        if (offset > core->file.n || addr - first >= core->file.n - offset) /* it is cut */
            return NULL;
        uint64_t held = core->file.n - offset;
        *n = (size_t)((bytes < held ? bytes : held) - (addr - first));
        return core->file.bytes + offset + (addr - first);
    }
    return NULL;
}
