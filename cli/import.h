/* SPDX-License-Identifier: MIT
 * A trace that another tool saved -> a recording. */
#ifndef COFI_CLI_IMPORT_H
#define COFI_CLI_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cofi/trace.h>

#include "bundle.h"

struct import {
    const char *command;
    struct cofi_writer *writer;
    unsigned streams, modules;
    uint64_t bytes;  /* of trace */
    bool lacks;      /* something is not there, which was said */
    int status;      /* of the writer's */
};

/* Everything that the bundle has into the writer, whose info import_info gives. Returns 0, or the writer's error; what is not there is said
 * and left out. */
void import_info(const struct bundle *bundle, struct cofi_recording_info *info);
int import_bundle(struct import *import, const struct bundle *bundle);

#endif
