/* SPDX-License-Identifier: MIT
 * What the commands share. */
#ifndef COFI_CLI_H
#define COFI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses [house style]. */
enum {
    EXIT_DONE = 0, EXIT_DATA = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3, EXIT_RECORD = 125 /* record's own failure */
};

/* Whether this machine's processor is one that runs what is recorded. */
#ifdef __x86_64__
enum { ON_X86 = true };
#else
enum { ON_X86 = false };
#endif

#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "commands.def"
#undef COMMAND

/* "cofi: message" on stderr; "cofi flow: message" where it begins with the name of the command that runs. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say where a command's options are told, behind what is wrong with them; returns EXIT_USAGE. */
int see_help(const char *command);
/* Say that an option's value makes no sense; returns EXIT_USAGE. */
int bad_value(const char *command, const char *option, const char *value);

/* A number, decimal, 0x or 0, without a sign and with nothing behind it; false if it is none, or more than `most`. */
bool parse_number(const char *text, uint64_t most, uint64_t *value);
/* An address as it is printed: hexadecimal, with 0x or without. */
bool parse_hex(const char *text, uint64_t *address);
/* "family/model" or "family/model/stepping", decimal. */
bool parse_cpu(const char *text, uint32_t *family, uint32_t *model, uint32_t *stepping);

/* How many bytes of text are a control character that a terminal would obey, be it one of two (U+0080 to
 * U+009F); 0: it shows what is there, or goes on to the next line or column. */
static inline size_t control_bytes(const char *text, size_t n)
{
    const unsigned char *c = (const unsigned char *)text;
    if (*c == 0xc2 && n > 1 && c[1] >= 0x80 && c[1] < 0xa0)
        return 2;
    return (*c < ' ' && *c != '\n' && *c != '\t') || *c == 0x7f;
}
/* A text that a recording has, which may hold anything, as a part of a line, without control characters.
 * Cut to fit; returns out, which may not be the text. */
const char *in_a_line(const char *text, char *out, size_t n);
/* What stands behind a path's last slash. */
const char *file_name(const char *path);
/* Whether a name, or that of the file if it is a path, matches a shell pattern. Without a pattern all
 * do, null does not match. */
bool matches_pattern(const char *pattern, const char *name);
/* Of a module, a library also without the end of its version: libz.so.1 is libz.so.1.2.13. */
bool matches_module(const char *pattern, const char *name);

/* The number of a word in a list that ends with null, or -1. */
int word_number(const char *const *words, const char *text);

/* The name of the option that getopt_long returned. */
struct option;
const char *option_name(const struct option *options, int value);

/* Room for one more row of size bytes behind the n that an array has; array: the address of the pointer to the rows.
 * False: memory is out, and all is as it was. */
bool array_grow(void *array, size_t n, size_t *room, size_t size);

/* 0 to 100; 0 of nothing. */
/* "45.1%". Rounded, what is not nothing is "<0.1%", and what is not all ">99.9%"; of nothing, "0.0%". */
enum { PERCENT_BYTES = 16 };
const char *percent(uint64_t part, uint64_t whole, char out[PERCENT_BYTES]);

#endif
