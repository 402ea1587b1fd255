/* SPDX-License-Identifier: MIT
 * cofi COMMAND … -> the command's function. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cofi/cofi.h>

#include "jobs.h"

struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define COMMAND(name, summary) {#name, summary, cmd_##name},
#include "commands.def"
#undef COMMAND
    {0},
};

void complain(const char *format, ...)
{
    char line[4096] = "cofi: ";
    size_t at = strlen(line), room = sizeof line - at;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + at, room, format, args);
    va_end(args);
    at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    line[at < sizeof line - 1 ? at : sizeof line - 2] = '\n';
    jobs_write(2, line, at < sizeof line - 1 ? at + 1 : sizeof line - 1);
}

static void usage(FILE *out)
{
    fputs("usage: cofi COMMAND [options]\n\n", out);
    for (const struct command *c = commands; c->name; c++)
        fprintf(out, "  %-8s %s\n", c->name, c->summary);
    fputs("\n'cofi COMMAND --help' tells about one; 'man cofi' about all.\n", out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("cofi " COFI_VERSION);
        return EXIT_DONE;
    }
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name)) {
            /* So that getopt's complaints begin as all others do. */
            char name[32];
            snprintf(name, sizeof name, "cofi %s", c->name);
            argv[1] = name;
            return c->run(argc - 1, argv + 1);
        }
    complain("no command '%s'; 'cofi --help' lists them", argv[1]);
    return EXIT_USAGE;
}
