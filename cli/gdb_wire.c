/* SPDX-License-Identifier: MIT
 * Bytes of a connection -> requests of GDB, and replies back. See gdb_wire.h. */
#include "gdb_wire.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { END = -1, INTERRUPT = 3, ESCAPE = '}', ESCAPED = 0x20 };

/* The next byte, or END. */
static int get(struct gdb_wire *wire)
{
    if (wire->at == wire->n) {
        ssize_t got;
        while ((got = read(wire->in, wire->held, sizeof wire->held)) < 0 && errno == EINTR) {
        }
        if (got <= 0)
            return END;
        wire->at = 0;
        wire->n = (size_t)got;
    }
    return (unsigned char)wire->held[wire->at++];
}

static bool put(struct gdb_wire *wire, const char *bytes, size_t n)
{
    while (n) {
        ssize_t put = write(wire->out, bytes, n);
        if (put < 0 && errno != EINTR)
            return false;
        bytes += put < 0 ? 0 : put;
        n -= put < 0 ? 0 : (size_t)put;
    }
    return true;
}

static int digit(int c) { return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= '0' && c <= '9' ? c - '0' : -1; }

/* What stands between $ and #, and whether the sum behind that is right. 1, 0: it is not, or END. */
static int get_body(struct gdb_wire *wire)
{
    size_t n = 0;
    uint8_t sum = 0;
    int c;
    while ((c = get(wire)) != '#' && c != END) {
        sum = (uint8_t)(sum + c);
        if (n < GDB_REQUEST_MAX)
            wire->request[n++] = (char)c;
    }
    int high = c == END ? END : digit(get(wire)), low = high < 0 ? END : digit(get(wire));
    wire->request[n] = 0;
    if (c == END)
        return END;
    return low >= 0 && high * 16 + low == sum && n < GDB_REQUEST_MAX;
}

const char *gdb_wire_read(struct gdb_wire *wire)
{
    for (int c; (c = get(wire)) != END;) {
        if (c == INTERRUPT)
            return "\3";
        int good = c == '$' ? get_body(wire) : 0;
        if (good == END)
            return NULL;
        if (c == '$' && !wire->no_ack && !put(wire, good ? "+" : "-", 1))
            return NULL;
        if (good)
            return wire->request;
    }
    return NULL;
}

static bool is_special(char c) { return c == '$' || c == '#' || c == ESCAPE || c == '*'; }

/* Acknowledgements of what was sent are passed over with what else stands between packets: these
 * connections lose nothing. */
bool gdb_wire_send(struct gdb_wire *wire, const char *reply, size_t n)
{
    char *packet = malloc(2 * n + 5);
    size_t at = 0;
    uint8_t sum = 0;
    if (!packet)
        return false;
    packet[at++] = '$';
    for (size_t i = 0; i < n; i++) {
        if (is_special(reply[i]))
            packet[at++] = ESCAPE;
        packet[at++] = (char)(is_special(reply[i]) ? reply[i] ^ ESCAPED : reply[i]);
    }
    for (size_t i = 1; i < at; i++)
        sum = (uint8_t)(sum + (uint8_t)packet[i]);
    at += (size_t)snprintf(packet + at, 4, "#%02x", sum);
    bool sent = put(wire, packet, at);
    free(packet);
    return sent;
}
