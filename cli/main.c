/* SPDX-License-Identifier: MIT
 * cofi COMMAND … -> the command's function. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cofi/cofi.h>

#include "jobs.h"
#include "output.h"
#include "record_first.h"
#include "stack.h"

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

static const char *running = ""; /* the command's name, once it is known */

/* Whether a line begins with "NAME:". */
static bool begins_with(const char *line, const char *name)
{
    size_t n = strlen(name);
    return n && !strncmp(line, name, n) && line[n] == ':';
}

void complain(const char *format, ...)
{
    enum { PREFIX = 6 };
    char line[4096] = "cofi: ", *begin = line;
    size_t at = PREFIX, room = sizeof line - at;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + at, room, format, args);
    va_end(args);
    at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    line[at < sizeof line - 1 ? at : sizeof line - 2] = '\n';
    if (begins_with(line + PREFIX, running) || begins_with(line + PREFIX, "record")) /* which others do first */
        memcpy(++begin, "cofi ", 5);
    size_t size = (at < sizeof line - 1 ? at + 1 : sizeof line - 1) - (size_t)(begin - line);
    jobs_write(2, begin, size);
}

static void usage(FILE *out)
{
    fputs("usage: cofi COMMAND [options]\n\n", out);
    for (const struct command *c = commands; c->name; c++)
        fprintf(out, "  %-8s %s\n", c->name, c->summary);
    fputs("\n'cofi COMMAND --help' tells about one; 'man cofi' about all.\n", out);
}

/* A file must not get the number of a stream that is closed, and be written to as that. What is recorded
 * finds it closed. */
static void fill_closed(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= 2)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
}

/* The status, now that all is written; or that of output that cannot be (a closed pipe is no failure).
 * Who failed has said it. */
static int finish(const char *name, int status, int failure)
{
    errno = 0;
    bool whole = !fflush(stdout) && !ferror(stdout) && !output_end();
    int error = whole || status == failure ? 0 : errno ? errno : EIO;
    output_leave();
    if ((!whole && error != EPIPE) || status == failure)
        output_fail();
    if (!error || error == EPIPE)
        return status;
    complain("%s%s%s: %s", name, *name ? ": " : "", output_name(), strerror(error));
    return failure;
}

static int run(const struct command *c, int argc, char **argv)
{
    /* So that getopt's complaints begin as all others do. */
    char name[32];
    snprintf(name, sizeof name, "cofi %s", c->name);
    argv[0] = name;
    running = c->name;
    int status = c->run(argc, argv);
    return record_first_status(finish(c->name, status, c->run == cmd_record ? EXIT_RECORD : EXIT_ENVIRONMENT));
}

/* A file that may not grow (ulimit -f) is an error of the write. Handled, not ignored: what is started
 * must not inherit that. */
static void on_full_file(int signal) { (void)signal; }

static void catch_full_files(void)
{
    struct sigaction old;
    if (!sigaction(SIGXFSZ, NULL, &old) && old.sa_handler == SIG_DFL)
        signal(SIGXFSZ, on_full_file);
}

static int run_named(int argc, char **argv)
{
    static char help[] = "--help";
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (argc == 3 && !strcmp(argv[1], "help")) {
        argv[1] = argv[2];
        argv[2] = help;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return finish("", EXIT_DONE, EXIT_ENVIRONMENT);
    }
    if (!strcmp(argv[1], "--version")) {
        puts("cofi " COFI_VERSION);
        return finish("", EXIT_DONE, EXIT_ENVIRONMENT);
    }
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return run(c, argc - 1, argv + 1);
    complain("no command '%s'; 'cofi --help' lists them", argv[1]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    fill_closed();
    catch_full_files();
    return stack_run(run_named, argc, argv);
}
