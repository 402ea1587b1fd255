/* SPDX-License-Identifier: MIT
 * A command that runs while another process is recorded. */
#ifndef COFI_CLI_MEANWHILE_H
#define COFI_CLI_MEANWHILE_H

#include <stdint.h>

struct meanwhile {
    volatile int32_t go;     /* the command runs as soon as this is set */
    volatile int32_t status; /* how it ended, as waitpid gives it; then SIGTERM comes to us */
};

/* The command is no child of ours. If it cannot be executed, that is said, and it has ended with 127.
 * Null: out of processes or memory; errno says which. */
struct meanwhile *meanwhile(char *const *argv);

#endif
