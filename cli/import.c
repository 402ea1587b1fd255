/* SPDX-License-Identifier: MIT
 * Modules and streams -> a recording. */
#include "import.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cofi/stream.h>

#include "cli.h"
#include "file.h"

enum { PAGE = 4096 };

void import_tell(struct import *import, const struct cofi_sideband *sideband)
{
    if (import->status >= 0)
        import->status = cofi_writer_sideband(import->writer, sideband);
}

void import_lack(struct import *import, const char *path, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    complain("%s: %s: %s", import->command, path, text);
    import->lacks = true;
}

/* ---- modules ---- */

static void map_segment(struct import *import, const struct import_module *module, int32_t pid, const char *name,
                        const GElf_Phdr *segment)
{
    uint64_t inside = segment->p_vaddr % PAGE;
    struct cofi_sideband map = {.kind = COFI_SB_MMAP, .cpu = UINT32_MAX, .pid = pid, .tid = pid,
                                .addr = segment->p_vaddr + module->slide - inside,
                                .len = (segment->p_filesz + inside + PAGE - 1) & ~(uint64_t)(PAGE - 1),
                                .pgoff = segment->p_offset - inside, .prot = PROT_READ | PROT_EXEC,
                                .flags = MAP_PRIVATE, .name = name, .build_id_size = module->build_id_size};
    memcpy(map.build_id, module->build_id, sizeof map.build_id);
    import_tell(import, &map);
}

static void map_segments(struct import *import, struct import_module *module, int32_t pid, const char *name, Elf *elf)
{
    size_t n = 0;
    GElf_Phdr segment;
    bool found = false;
    if (elf_getphdrnum(elf, &n))
        n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD)
            continue;
        if (!found && module->by_address)
            module->slide = module->address - (segment.p_vaddr & ~(uint64_t)(PAGE - 1));
        found = true;
        if (segment.p_flags & PF_X)
            map_segment(import, module, pid, name, &segment);
    }
    if (!found)
        import_lack(import, module->path, "no ELF file with segments: its code is missing");
    import->modules += found;
}

void import_elf(struct import *import, struct import_module *module, int32_t pid)
{
    char *name = realpath(module->path, NULL);
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        import_lack(import, module->path, "%s: its code is missing", strerror(errno));
        free(name);
        return;
    }
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    map_segments(import, module, pid, name, elf);
    elf_end(elf);
    close(fd);
    free(name);
}

/* ---- streams ---- */

/* The TSC that a PSB+ tells, or the last one before it. */
static uint64_t tsc_behind(const uint8_t *bytes, size_t n, uint64_t before)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet packet = {0};
    for (size_t at = 0; at < n && packet.kind != COFI_PT_PSBEND; at += packet.size) {
        if (cofi_packet_decode(&context, bytes + at, n - at, &packet) < 0)
            break;
        if (packet.kind == COFI_PT_TSC)
            return packet.tsc.tsc;
    }
    return before;
}

/* From PSB to PSB, so that each piece is of whole packets; what stands before the first one cannot be decoded. */
void import_stream(struct import *import, const char *path, enum cofi_gen gen, const struct file *trace, int32_t pid,
                   int32_t tid)
{
    uint64_t tsc = 0;
    size_t at = cofi_sync_forward(gen, trace->bytes, trace->n, 0);
    if (at == COFI_NO_PSB)
        import_lack(import, path, "no PSB in it: nothing to decode");
    else if (pid >= 0)
        import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .cpu = UINT32_MAX, .pid = pid,
                                                    .tid = tid});
    import->streams += at != COFI_NO_PSB;
    for (size_t next; import->status >= 0 && at != COFI_NO_PSB; at = next) {
        next = cofi_sync_forward(gen, trace->bytes, trace->n, at + 1);
        size_t n = (next == COFI_NO_PSB ? trace->n : next) - at;
        if (gen == COFI_PT)
            tsc = tsc_behind(trace->bytes + at, n, tsc);
        import->status = cofi_writer_trace(import->writer, pid, tid, trace->bytes + at, n, tsc);
        import->bytes += n;
    }
}
