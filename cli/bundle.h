/* SPDX-License-Identifier: MIT
 * The description of a trace that LLDB saved (trace.json) -> what it says. Formats of LLDB 13 on [lldb:
 * trace schema intel-pt]. */
#ifndef COFI_CLI_BUNDLE_H
#define COFI_CLI_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/time.h>

struct bundle_module {
    const char *path;  /* where its file is now */
    uint64_t address;  /* of its first segment that is loaded */
    uint8_t build_id[20], build_id_size; /* size 0: not told */
};

struct bundle_thread {
    int32_t tid;
    const char *trace; /* raw PT; null: it is in the processors' */
};

struct bundle_process {
    int32_t pid;
    struct bundle_thread *threads;
    struct bundle_module *modules;
    size_t threads_n, modules_n;
};

struct bundle_cpu {
    uint32_t id;
    const char *trace, *switches; /* raw PT; perf's records of switches, with pid, tid and time behind each */
};

/* Strings and arrays are the bundle's. Paths are as told, those that are relative to the bundle's folder
 * with it before them. */
struct bundle {
    const char *vendor;
    uint32_t family, model, stepping;
    struct cofi_time_conv conv; /* mult 0: not told */
    struct bundle_process *processes;
    struct bundle_cpu *cpus;
    size_t processes_n, cpus_n;
    const char *kernel; /* its file; null: the kernel was not traced */
    uint64_t kernel_address;
    struct bundle_text *texts; /* its own */
};

/* path: the description, or the folder that it is in as trace.json. Returns EXIT_DONE, or an exit status
 * after a complaint that names the command, the file and the place in it: EXIT_DATA (no JSON, no such
 * bundle), EXIT_ENVIRONMENT (not there, no memory). */
int bundle_open(struct bundle *bundle, const char *command, const char *path);
void bundle_close(struct bundle *bundle);
/* Whether a file is one of the bundle's, or its description. */
bool bundle_names(const struct bundle *bundle, const char *path);
/* Whether a file looks like a description. */
bool bundle_is(const char *path);

#endif
