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
static bool made;        /* it was not there before */
static const char *file, *name = "standard output";

static int refuse(const char *command, const char *path)
{
    complain("%s: %s: %s", command, path, strerror(errno));
    return EXIT_ENVIRONMENT;
}

/* What is there is a part of what should be. Only a plain file is taken away: a link's is emptied, and a
 * device stays. */
static void take_away(int fd, const char *path)
{
    struct stat a, b;
    if (fstat(fd, &a) || !S_ISREG(a.st_mode))
        return;
    bool plain = !lstat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if ((!plain || unlink(path)) && ftruncate(fd, 0))
        complain("%s: it is not whole, and stays: %s", path, strerror(errno));
}

int output_open(const char *command, const char *path)
{
    if (!path || !strcmp(path, "-"))
        return EXIT_DONE;
    file = path;
    waiting = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    made = waiting >= 0;
    if (waiting < 0)
        waiting = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return waiting < 0 ? refuse(command, path) : EXIT_DONE;
}

bool output_is(const char *path)
{
    struct stat a, b;
    if (waiting >= 0 && !strcmp(path, file)) /* also one that was put in its place meanwhile */
        return true;
    return waiting >= 0 && !fstat(waiting, &a) && S_ISREG(a.st_mode) && !stat(path, &b) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int output_begin(const char *command)
{
    if (waiting < 0)
        return EXIT_DONE;
    if ((ftruncate(waiting, 0) && errno != EINVAL) || dup2(waiting, STDOUT_FILENO) < 0) /* EINVAL: no regular file */
        return refuse(command, file);
    close(waiting);
    waiting = -1;
    name = file;
    return EXIT_DONE;
}

/* What only the end of a file tells, as those of some networks do. The number stays, for take_away. */
static int tell(int fd)
{
    int other = dup(fd);
    return other >= 0 ? close(other) : 0;
}

int output_end(void) { return name == file ? tell(STDOUT_FILENO) : 0; }

void output_fail(void)
{
    if (name == file)
        take_away(STDOUT_FILENO, file);
}

void output_leave(void)
{
    if (waiting >= 0 && made)
        unlink(file);
}

int output_whole(const char *command, const char *path, const void *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");
    int status = EXIT_DONE;
    if (!out)
        return refuse(command, path);
    if (fwrite(bytes, 1, n, out) != n || fflush(out) || tell(fileno(out))) {
        status = refuse(command, path);
        take_away(fileno(out), path);
    }
    fclose(out);
    return status;
}

const char *output_name(void) { return name; }
