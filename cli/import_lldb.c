/* SPDX-License-Identifier: MIT
 * What LLDB saved of a trace -> a recording's sideband and streams. */
#include "import.h"

#include <string.h>
#include <sys/mman.h>

#include "bundle.h"
#include "cli.h"
#include "elf_members.h"
#include "registers.h"

/* As perf tells where the kernel is: by the address instead of an offset in its file. */
static void map_kernel(struct import *import, const struct bundle *bundle)
{
    struct cofi_sideband map = {.kind = COFI_SB_MMAP, .cpu = UINT32_MAX, .pid = -1, .kernel = true,
                                .addr = bundle->kernel_address, .len = -bundle->kernel_address,
                                .pgoff = bundle->kernel_address, .prot = PROT_READ | PROT_EXEC,
                                .name = "[kernel.kallsyms]_text", .build_id_size = COFI_NO_BUILD_ID};
    import_tell(import, &map);
}

static void put_stream(struct import *import, const char *path, int32_t pid, int32_t tid)
{
    struct file file;
    if (file_open(&file, import->command, path) != EXIT_DONE) {
        import->lacks = true;
        return;
    }
    import_stream(import, path, COFI_PT, &file, pid, tid);
    file_close(&file);
}

/* ---- switches ---- */

/* [perf_event_open] */
enum { RECORD_LOST = 2, RECORD_SWITCH_CPU_WIDE = 15, HEADER = 8, SWITCH_BYTES = HEADER + 24, SWITCH_OUT = 1 << 13 };

static void put_switch(struct import *import, uint32_t cpu, const uint8_t *record)
{
    const uint8_t *other = record + HEADER, *own = other + 8;
    import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_SWITCH_CPU, .cpu = cpu,
                                                .out = elf_number(record + 4, 2) & SWITCH_OUT,
                                                .ppid = (int32_t)elf_number(other, 4),
                                                .ptid = (int32_t)elf_number(other + 4, 4),
                                                .pid = (int32_t)elf_number(own, 4),
                                                .tid = (int32_t)elf_number(own + 4, 4),
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
            import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_LOST, .cpu = cpu,
                                                        .len = elf_number(record + HEADER + 8, 8)});
    }
    if (at < file->n)
        import_lack(import, path, "no record of perf's at byte %zu: who ran from there on is missing", at);
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

static void put_module(struct import *import, const struct bundle_module *module, int32_t pid)
{
    struct import_module elf = {.path = module->path, .by_address = true, .address = module->address,
                                .build_id_size = module->build_id_size};
    memcpy(elf.build_id, module->build_id, sizeof elf.build_id);
    import_elf(import, &elf, pid);
}

static void put_process(struct import *import, const struct bundle_process *process)
{
    for (size_t i = 0; i < process->threads_n; i++)
        import_tell(import,
                    &(struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = UINT32_MAX, .pid = process->pid,
                                            .tid = process->threads[i].tid,
                                            .name = process->modules_n ? file_name(process->modules[0].path) : ""});
    for (size_t i = 0; i < process->modules_n; i++)
        put_module(import, &process->modules[i], process->pid);
    for (size_t i = 0; i < process->threads_n; i++)
        if (process->threads[i].trace)
            put_stream(import, process->threads[i].trace, process->pid, process->threads[i].tid);
}

void import_bundle_info(const struct bundle *bundle, struct cofi_recording_info *info)
{
    *info = (struct cofi_recording_info){.size = sizeof *info, .gen = COFI_PT, .family = bundle->family,
                                         .model = bundle->model, .stepping = bundle->stepping, .vendor = bundle->vendor,
                                         .snapshot = true, .per_cpu = bundle->cpus_n > 0,
                                         .time = {.conv = bundle->conv, .tsc = true}};
    info->config = PT_TRACE_EN | PT_TOPA | PT_TSC_EN | PT_BRANCH_EN | (bundle->kernel ? PT_OS : PT_USER);
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
