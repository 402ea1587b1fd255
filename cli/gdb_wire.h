/* SPDX-License-Identifier: MIT
 * Packets of GDB's remote protocol over a pair of descriptors [GDB Remote Protocol Overview]. */
#ifndef COFI_CLI_GDB_WIRE_H
#define COFI_CLI_GDB_WIRE_H

#include <stdbool.h>
#include <stddef.h>

/* The longest packet that is taken: requests are short, for nothing can be written here. */
enum { GDB_REQUEST_MAX = 1 << 14 };

struct gdb_wire {
    int in, out;
    bool no_ack;             /* QStartNoAckMode was agreed on */
    char held[4096];         /* read, not looked at yet */
    size_t at, n;
    char request[GDB_REQUEST_MAX + 1];
};

/* The next request, ended by a zero, valid until the next call; an interrupt is "\3". Null: the other side is gone. */
const char *gdb_wire_read(struct gdb_wire *wire);
/* A reply of n bytes, whatever they are. False: the other side is gone. */
bool gdb_wire_send(struct gdb_wire *wire, const char *reply, size_t n);

#endif
