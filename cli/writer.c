/* SPDX-License-Identifier: MIT
 * Bytes -> a file descriptor, in large pieces. */
#include "writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cofi/error.h>

#include "cli.h"
#include "jobs.h"
#include "output.h"

void writer_begin(struct writer *writer, FILE *file)
{
    fflush(file);
    writer->fd = fileno(file);
    writer->error = 0;
    writer->n = 0;
}

static void put(struct writer *writer, const char *bytes, size_t n)
{
    if (!writer->error && n)
        writer->error = jobs_write(writer->fd, bytes, n);
}

void write_bytes(struct writer *writer, const char *bytes, size_t n)
{
    if (n > WRITER_BYTES - writer->n) {
        put(writer, writer->buffer, writer->n);
        writer->n = 0;
    }
    if (n > WRITER_BYTES) {
        put(writer, bytes, n);
        return;
    }
    memcpy(writer->buffer + writer->n, bytes, n);
    writer->n += n;
}

void write_text(struct writer *writer, const char *text) { write_bytes(writer, text, strlen(text)); }

int write_put(void *opaque, const char *bytes, size_t n)
{
    write_bytes(opaque, bytes, n);
    return 0;
}

void write_format(struct writer *writer, const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0)
        write_bytes(writer, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

bool writer_failed(const struct writer *writer) { return writer->error != 0; }

int writer_end(struct writer *writer, const char *command)
{
    put(writer, writer->buffer, writer->n);
    writer->n = 0;
    if (!writer->error || writer->error == EPIPE)
        return EXIT_DONE;
    complain("%s: %s: %s", command, output_name(), strerror(writer->error));
    return EXIT_ENVIRONMENT;
}

int writer_run(const char *command, int (*work)(void *opaque, struct writer *out), void *opaque)
{
    struct writer *out = malloc(sizeof *out);
    int status = COFI_ERR_NOMEM, written = EXIT_DONE;
    bool closed = false;
    if (out) {
        writer_begin(out, stdout);
        status = work(opaque, out);
        written = writer_end(out, command);
        closed = writer_failed(out);
        free(out);
    }
    if (status < 0 && status != COFI_ERR_IO) /* what could not be read is named by who reads */
        complain("%s: %s", command, cofi_error_text(status));
    return status < 0 || written != EXIT_DONE ? EXIT_ENVIRONMENT : closed ? -1 : EXIT_DONE;
}
