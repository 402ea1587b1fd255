/* SPDX-License-Identifier: MIT
 * cofi archive: a recording -> the files that it needs, in a folder for --symfs. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive.h"
#include "cli.h"
#include "habits.h"
#include "session.h"
#include "signals.h"

static void usage(FILE *out)
{
    fputs("usage: cofi archive [-o DIR] [RECORDING]    default RECORDING: cofi.data\n"
          "Copy the files whose code a recording shows, and their debug files, below a folder. Where the\n"
          "recording is decoded, the option symfs tells the commands where that is.\n\n"
          "  -i, --input=FILE    RECORDING, perf's way\n"
          "  -o, --output=DIR    put them below DIR (default: RECORDING.files)\n"
          "  -h, --help          this text\n", out);
}

struct collection {
    struct archive archive;
    unsigned refused;
};

/* The library's reasons begin with the file's name. */
static void refuse(struct collection *collection, const char *path, const char *why)
{
    char line[1024], name[512];
    size_t n = strlen(path) < 300 ? strlen(path) : 300;
    if (!strncmp(why, path, n) && why[n] == ':')
        why += n + 1 + (why[n + 1] == ' ');
    in_a_line(path, name, sizeof name);
    complain("archive: %s: not copied: %s", name, in_a_line(why, line, sizeof line));
    collection->refused++;
}

static int take(void *opaque, const struct cofi_recording_file *file)
{
    struct collection *collection = opaque;
    char name[512];
    const char *why = file->why;
    enum archive_result result = why ? ARCHIVE_REFUSED : archive_put(&collection->archive, file->path, file->fd, &why);
    if (result == ARCHIVE_REFUSED)
        refuse(collection, file->path, why);
    if (result != ARCHIVE_FAILED)
        return 0;
    if (collection->archive.fd < 0)
        complain("archive: %s: %s", collection->archive.path, strerror(errno));
    else
        complain("archive: %s: %s: %s", collection->archive.path, in_a_line(file->path, name, sizeof name),
                 strerror(errno));
    return EXIT_ENVIRONMENT;
}

static void sum_up(const struct collection *collection)
{
    const struct archive *archive = &collection->archive;
    fprintf(stderr, "cofi archive: %u file%s", archive->files, archive->files == 1 ? "" : "s");
    if (archive->files)
        fprintf(stderr, ", %.1f MB in %s", (double)archive->bytes / 1e6, archive->path);
    if (collection->refused)
        fprintf(stderr, ", %u not copied", collection->refused);
    if (archive->files)
        fprintf(stderr, "; look at it elsewhere with --symfs=%s\n", archive->path);
    else
        fputs(collection->refused ? "\n" : "; the recording holds all of its code\n", stderr);
}

static int collect(const struct session *session, const char *folder)
{
    struct collection collection = {.archive = {.path = folder, .fd = -1}};
    signals_catch();
    int status = cofi_recording_files(session_recording(session), take, &collection);
    archive_close(&collection.archive);
    if (status < 0) {
        complain("archive: %s", cofi_error_text(status));
        return EXIT_ENVIRONMENT;
    }
    if (!status)
        sum_up(&collection);
    return status ? status : session_status(session, collection.refused ? EXIT_DATA : EXIT_DONE);
}

/* RECORDING.files, to be freed; null: it comes by a pipe, beside which nothing is put. */
static char *default_folder(const char *recording)
{
    struct stat st;
    char *folder;
    size_t n = strlen(recording);
    bool is_stream = !strcmp(recording, "-") || (!stat(recording, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
    while (n > 1 && recording[n - 1] == '/')
        n--;
    return is_stream || asprintf(&folder, "%.*s.files", (int)n, recording) < 0 ? NULL : folder;
}

static int run(const char *recording, const char *folder)
{
    struct session_options options = {.command = "archive", .file = recording, .may_lack_trace = true, .tid = -1,
                                      .to_offset = UINT64_MAX, .to_ns = UINT64_MAX,
                                      .where = {.size = sizeof options.where}};
    struct session *session;
    unsetenv("DEBUGINFOD_URLS"); /* what a server has it has elsewhere, too */
    int status = session_open(&session, &options);
    if (status != EXIT_DONE)
        return status;
    status = collect(session, folder);
    session_close(session);
    return status;
}

static int run_beside(const char *recording)
{
    char *folder = default_folder(recording);
    if (!folder) {
        complain("archive: a recording from a pipe needs -o DIR");
        return EXIT_USAGE;
    }
    int status = run(recording, folder);
    free(folder);
    return status;
}

int cmd_archive(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, 0, 'o'},
                                            SESSION_INPUT,
                                            {"help", no_argument, 0, 'h'},
                                            {0}};
    const char *folder = NULL, *recording = NULL;
    int inputs = 0;
    for (int option; (option = getopt_long(argc, argv, "hi:o:", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == '?')
            return bad_option("archive", argv);
        inputs += option == 'i';
        *(option == 'i' ? &recording : &folder) = optarg;
    }
    if (argc - optind + inputs > 1) {
        complain("archive: one recording at a time; 'cofi archive --help' tells more");
        return EXIT_USAGE;
    }
    if (!recording)
        recording = optind < argc ? argv[optind] : "cofi.data";
    return folder ? run(recording, folder) : run_beside(recording);
}
