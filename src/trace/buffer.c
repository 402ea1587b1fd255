/* SPDX-License-Identifier: MIT
 * Pieces of a record -> one run of bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/writer.h"

static bool reserve(struct cofi__buffer *buffer, size_t n)
{
    if (buffer->failed)
        return false;
    if (buffer->room - buffer->n >= n)
        return true;
    size_t room = (buffer->n + n) * 2;
    uint8_t *bytes = realloc(buffer->bytes, room);
    if (!bytes) {
        buffer->failed = true;
        return false;
    }
    buffer->bytes = bytes;
    buffer->room = room;
    return true;
}

void cofi__buffer_put(struct cofi__buffer *buffer, const void *bytes, size_t n)
{
    if (!n || !reserve(buffer, n))
        return;
    memcpy(buffer->bytes + buffer->n, bytes, n);
    buffer->n += n;
}

void cofi__buffer_put_le(struct cofi__buffer *buffer, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    put_le(bytes, value, n);
    cofi__buffer_put(buffer, bytes, n);
}

void cofi__buffer_zero(struct cofi__buffer *buffer, size_t n)
{
    if (!n || !reserve(buffer, n))
        return;
    memset(buffer->bytes + buffer->n, 0, n);
    buffer->n += n;
}

void cofi__buffer_fini(struct cofi__buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct cofi__buffer){0};
}
