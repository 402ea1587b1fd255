/* SPDX-License-Identifier: MIT
 * What LLDB saved of a trace -> a recording's sideband and streams. */
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
#include "elf_members.h"
#include "file.h"

enum { PAGE = 4096 };

static void tell(struct import *import, const struct cofi_sideband *sideband)
{
    if (import->status >= 0)
        import->status = cofi_writer_sideband(import->writer, sideband);
}

static void __attribute__((format(printf, 3, 4))) lack(struct import *import, const char *path, const char *format, ...)
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

static void map_segment(struct import *import, const struct bundle_module *module, int32_t pid, const char *name, const GElf_Phdr *segment, uint64_t slide)
{
    uint64_t inside = segment->p_vaddr % PAGE;
    struct cofi_sideband map = {.kind = COFI_SB_MMAP, .cpu = UINT32_MAX, .pid = pid, .tid = pid, .addr = segment->p_vaddr + slide - inside,
                                .len = (segment->p_filesz + inside + PAGE - 1) & ~(uint64_t)(PAGE - 1), .pgoff = segment->p_offset - inside,
                                .prot = PROT_READ | PROT_EXEC, .flags = MAP_PRIVATE, .name = name, .build_id_size = module->build_id_size};
    memcpy(map.build_id, module->build_id, sizeof map.build_id);
    tell(import, &map);
}

/* Its first segment lies at the module's address. */
static void map_segments(struct import *import, const struct bundle_module *module, int32_t pid, const char *name, Elf *elf)
{
    size_t n = 0;
    uint64_t slide = 0;
    GElf_Phdr segment;
    bool found = false;
    if (elf_getphdrnum(elf, &n))
        n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD)
            continue;
        if (!found)
            slide = module->address - (segment.p_vaddr & ~(uint64_t)(PAGE - 1));
        found = true;
        if (segment.p_flags & PF_X)
            map_segment(import, module, pid, name, &segment, slide);
    }
    if (!found)
        lack(import, module->path, "no ELF file with segments: its code is missing");
    import->modules += found;
}

static void map_module(struct import *import, const struct bundle_module *module, int32_t pid)
{
    char *name = realpath(module->path, NULL);
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        lack(import, module->path, "%s: its code is missing", strerror(errno));
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

/* As perf tells where the kernel is: by the address instead of an offset in its file. */
static void map_kernel(struct import *import, const struct bundle *bundle)
{
    struct cofi_sideband map = {.kind = COFI_SB_MMAP, .cpu = UINT32_MAX, .pid = -1, .kernel = true, .addr = bundle->kernel_address,
                                .len = -bundle->kernel_address, .pgoff = bundle->kernel_address, .prot = PROT_READ | PROT_EXEC,
                                .name = "[kernel.kallsyms]_text", .build_id_size = COFI_NO_BUILD_ID};
    tell(import, &map);
}

/* ---- streams ---- */

/* The TSC that a PSB+ tells, or the last one before it. */
static uint64_t tsc_behind(const uint8_t *bytes, size_t n, size_t at, uint64_t before)
{
    struct cofi_packet_context context = {.gen = COFI_PT};
    struct cofi_packet packet = {0};
    while (at < n && packet.kind != COFI_PT_PSBEND && cofi_packet_decode(&context, bytes + at, n - at, &packet) >= 0) {
        if (packet.kind == COFI_PT_TSC)
            return packet.tsc.tsc;
        at += packet.size;
    }
    return before;
}

/* From PSB to PSB, so that each piece is of whole packets; what stands before the first one cannot be decoded. */
static void put_bytes(struct import *import, const char *path, const struct file *file, int32_t pid, int32_t tid)
{
    uint64_t tsc = 0;
    size_t at = cofi_sync_forward(COFI_PT, file->bytes, file->n, 0);
    if (at == COFI_NO_PSB)
        lack(import, path, "no PSB in it: nothing to decode");
    for (size_t next; import->status >= 0 && at != COFI_NO_PSB; at = next) {
        next = cofi_sync_forward(COFI_PT, file->bytes, file->n, at + 1);
        size_t n = (next == COFI_NO_PSB ? file->n : next) - at;
        tsc = tsc_behind(file->bytes, file->n, at, tsc);
        import->status = cofi_writer_trace(import->writer, pid, tid, file->bytes + at, n, tsc);
        import->bytes += n;
    }
}

static void put_stream(struct import *import, const char *path, int32_t pid, int32_t tid)
{
    struct file file;
    uint64_t before = import->bytes;
    if (file_open(&file, import->command, path) != EXIT_DONE) {
        import->lacks = true;
        return;
    }
    put_bytes(import, path, &file, pid, tid);
    file_close(&file);
    import->streams += import->bytes > before;
}

/* ---- switches ---- */

enum { RECORD_LOST = 2, RECORD_SWITCH_CPU_WIDE = 15, HEADER = 8, SWITCH_BYTES = HEADER + 24, SWITCH_OUT = 1 << 13 }; /* [perf_event_open] */

static void put_switch(struct import *import, uint32_t cpu, const uint8_t *record)
{
    const uint8_t *other = record + HEADER, *own = other + 8;
    tell(import, &(struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = cpu, .out = elf_number(record + 4, 2) & SWITCH_OUT,
                                         .ppid = (int32_t)elf_number(other, 4), .ptid = (int32_t)elf_number(other + 4, 4),
                                         .pid = (int32_t)elf_number(own, 4), .tid = (int32_t)elf_number(own + 4, 4),
                                         .time_ns = elf_number(own + 8, 8)});
}

static void put_records(struct import *import, const char *path, const struct file *file, uint32_t cpu)
{
    size_t at = 0, size;
    for (; file->n - at >= HEADER; at += size) {
        const uint8_t *record = file->bytes + at;
        uint64_t type = elf_number(record, 4);
        size = (size_t)elf_number(record + 6, 2);
        if (size < HEADER || size > file->n - at)
            break;
        if (type == RECORD_SWITCH_CPU_WIDE && size >= SWITCH_BYTES)
            put_switch(import, cpu, record);
        else if (type == RECORD_LOST && size >= HEADER + 16)
            tell(import, &(struct cofi_sideband){.kind = COFI_SB_LOST, .cpu = cpu, .len = elf_number(record + HEADER + 8, 8)});
    }
    if (at < file->n)
        lack(import, path, "no record of perf's at byte %zu: who ran from there on is missing", at);
}

static void put_cpu(struct import *import, const struct bundle_cpu *cpu)
{
    struct file file;
    put_stream(import, cpu->trace, -1, (int32_t)cpu->id);
    if (!cpu->switches)
        return;
    if (file_open(&file, import->command, cpu->switches) != EXIT_DONE) {
        import->lacks = true;
        return;
    }
    put_records(import, cpu->switches, &file, cpu->id);
    file_close(&file);
}

/* ---- all ---- */

static void put_process(struct import *import, const struct bundle_process *process)
{
    for (size_t i = 0; i < process->threads_n; i++)
        tell(import, &(struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = UINT32_MAX, .pid = process->pid, .tid = process->threads[i].tid,
                                             .name = process->modules_n ? file_name(process->modules[0].path) : ""});
    for (size_t i = 0; i < process->modules_n; i++)
        map_module(import, &process->modules[i], process->pid);
    for (size_t i = 0; i < process->threads_n; i++) {
        const struct bundle_thread *thread = &process->threads[i];
        if (!thread->trace)
            continue;
        tell(import, &(struct cofi_sideband){.kind = COFI_SB_ITRACE_START, .cpu = UINT32_MAX, .pid = process->pid, .tid = thread->tid});
        put_stream(import, thread->trace, process->pid, thread->tid);
    }
}

void import_info(const struct bundle *bundle, struct cofi_recording_info *info)
{
    const uint64_t trace_en = 1, os = 1 << 2, user = 1 << 3, topa = 1 << 8, tsc_en = 1 << 10, branch_en = 1 << 13; /* [SDM IA32_RTIT_CTL MSR] */
    *info = (struct cofi_recording_info){.size = sizeof *info, .gen = COFI_PT, .family = bundle->family, .model = bundle->model,
                                         .stepping = bundle->stepping, .vendor = bundle->vendor, .snapshot = true,
                                         .per_cpu = bundle->cpus_n > 0, .time = {.conv = bundle->conv, .tsc = true}};
    info->config = trace_en | topa | tsc_en | branch_en | (bundle->kernel ? os : user);
}

int import_bundle(struct import *import, const struct bundle *bundle)
{
    if (bundle->kernel)
        map_kernel(import, bundle);
    for (size_t i = 0; i < bundle->processes_n; i++)
        put_process(import, &bundle->processes[i]);
    for (size_t i = 0; i < bundle->cpus_n; i++)
        put_cpu(import, &bundle->cpus[i]);
    return import->status;
}
