/* SPDX-License-Identifier: MIT
 * See output.h. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int waiting = -1; /* the file, until it is standard output */
static const char *file, *name = "standard output";

static int refuse(const char *command)
{
    complain("%s: %s: %s", command, file, strerror(errno));
    return EXIT_ENVIRONMENT;
}

int output_open(const char *command, const char *path)
{
    if (!path || !strcmp(path, "-"))
        return EXIT_DONE;
    file = path;
    waiting = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return waiting < 0 ? refuse(command) : EXIT_DONE;
}

bool output_is(const char *path)
{
    struct stat a, b;
    if (waiting >= 0 && !strcmp(path, file)) /* also one that was put in its place meanwhile */
        return true;
    return waiting >= 0 && !fstat(waiting, &a) && S_ISREG(a.st_mode) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int output_begin(const char *command)
{
    if (waiting < 0)
        return EXIT_DONE;
    if ((ftruncate(waiting, 0) && errno != EINVAL) || dup2(waiting, STDOUT_FILENO) < 0) /* EINVAL: no regular file */
        return refuse(command);
    close(waiting);
    waiting = -1;
    name = file;
    return EXIT_DONE;
}

int output_end(void) { return name == file ? close(STDOUT_FILENO) : 0; }

const char *output_name(void) { return name; }
