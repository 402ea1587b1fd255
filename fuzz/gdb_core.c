/* SPDX-License-Identifier: MIT
 * Any bytes -> a core file: no crash, no leak, and what it tells lies within it. */
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cli/cli.h"
#include "../cli/gdb_core.h"
#include "fuzz.h"

void complain(const char *format, ...) { (void)format; }

static void look_at(const struct gdb_core *core)
{
    static volatile uint8_t seen;
    for (size_t i = 0; i < core->n; i++)
        for (unsigned k = 0; k < gdb_core_registers(core->is_32); k++) {
            const uint8_t *bytes;
            size_t n = gdb_core_register(core->is_32, &core->threads[i], k, &bytes);
            for (size_t b = 0; b < n && bytes; b++)
                seen ^= bytes[b];
        }
    for (uint64_t addr = 0; addr < 0x4000; addr += 0x800) {
        size_t n;
        const uint8_t *bytes = gdb_core_memory(core, addr, &n);
        MUST(!bytes || (n && bytes >= core->file.bytes && n <= core->file.n - (size_t)(bytes - core->file.bytes)));
    }
    for (size_t i = 0; i < core->auxv_bytes; i++)
        seen ^= core->auxv[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    struct gdb_core core = {.n = 0};
    int fd = memfd_create("core", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gdb_core_open(&core, path) == EXIT_DONE)
        look_at(&core);
    gdb_core_close(&core);
    close(fd);
    return 0;
}
