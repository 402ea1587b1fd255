/* SPDX-License-Identifier: MIT
 * See record_first.h. */
#include "record_first.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "file.h"
#include "record.h"
#include "signals.h"

static struct {
    char folder[PATH_MAX]; /* "": there is none */
    char path[PATH_MAX];
    int status; /* of what was recorded, where it counts */
} first;

int record_first_at(int argc, char **argv, const char *word)
{
    int n = 0;
    while (n < argc && strcmp(argv[n], word))
        n++;
    return n;
}

static bool make_folder(void)
{
    const char *place = file_scratch_place();
    snprintf(first.folder, sizeof first.folder, "%s/cofi-XXXXXX", place);
    int n = snprintf(first.path, sizeof first.path, "%s/cofi-XXXXXX/cofi.data", place);
    bool fits = n < (int)sizeof first.path - (int)sizeof ".fast";
    if (fits && mkdtemp(first.folder)) {
        memcpy(first.path, first.folder, strlen(first.folder));
        return true;
    }
    complain("record: no folder for the recording in %s: %s; TMPDIR=FOLDER chooses another place", place,
             strerror(fits ? errno : ENAMETOOLONG));
    first.folder[0] = 0;
    return false;
}

int record_first(int argc, char **argv, bool status_counts, const char **path)
{
    int status;
    if (!make_folder())
        return EXIT_ENVIRONMENT;
    *path = first.path;
    bool made = record_unseen(argc, argv, path, &status);
    signals_restore();
    first.status = made && status_counts ? status : EXIT_DONE;
    if (made)
        return EXIT_DONE;
    record_first_opened();
    return status ? status : EXIT_USAGE; /* record's --help was asked for */
}

void record_first_opened(void)
{
    if (!first.folder[0])
        return;
    unlink(first.path);
    if (rmdir(first.folder))
        complain("record: %s: %s", first.folder, strerror(errno));
    first.folder[0] = 0;
}

int record_first_status(int status) { return status == EXIT_DONE ? first.status : status; }

/* Whether a shell would run it. */
static bool is_program(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static bool is_in_path(const char *name)
{
    const char *places = getenv("PATH");
    char path[PATH_MAX];
    bool found = false;
    for (const char *p = places; p && !found && !strchr(name, '/'); p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL)
        found = (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(p, ":"), p, name) < sizeof path &&
                is_program(path);
    return found;
}

const char *record_first_hint(const char *command, const char *path, char *out, unsigned n)
{
    bool program = access(path, F_OK) ? is_in_path(path) : is_program(path);
    snprintf(out, n, program ? "; 'cofi %s -- %s' records that program and shows it" : "", command, path);
    return out;
}
