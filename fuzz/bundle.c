/* SPDX-License-Identifier: MIT
 * Any bytes -> the description of a trace that LLDB saved; and as each of the files that one names, a recording of them: no crash, no leak. */
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cli/bundle.h"
#include "../cli/cli.h"
#include "../cli/import.h"
#include "fuzz.h"

void complain(const char *format, ...) { (void)format; }

/* No names of files, which may be those of pipes. */
static void import(const char *path)
{
    struct bundle_module module = {.path = path, .address = 0x400000};
    struct bundle_thread thread = {.tid = 1, .trace = path};
    struct bundle_process process = {.pid = 1, .threads = &thread, .threads_n = 1, .modules = &module, .modules_n = 1};
    struct bundle_cpu cpu = {.trace = path, .switches = path};
    struct bundle bundle = {.conv = {.mult = 1}, .processes = &process, .processes_n = 1, .cpus = &cpu, .cpus_n = 1};
    struct import import = {.command = "import"};
    struct cofi_recording_info info;
    import_bundle_info(&bundle, &info);
    if (cofi_writer_open(&import.writer, "/dev/null", &info, NULL) >= 0)
        import_bundle(&import, &bundle);
    cofi_writer_close(import.writer, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    struct bundle bundle;
    int fd = memfd_create("bundle", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (bundle_open(&bundle, "import", path) == EXIT_DONE)
        bundle_close(&bundle);
    import(path);
    close(fd);
    return 0;
}
