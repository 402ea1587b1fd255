/* SPDX-License-Identifier: MIT
 * cofi import: a trace that another tool saved -> a recording. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "habits.h"
#include "import.h"

static void usage(FILE *out)
{
    fputs("usage: cofi import [-o FILE] BUNDLE\n"
          "Make a recording of a trace that LLDB saved (trace save). All commands, perf and libipt read it.\n"
          "BUNDLE: the folder, or the trace.json in it.\n\n"
          "  -o, --output=FILE   the recording (default: cofi.data)\n"
          "  -h, --help          this text\n", out);
}

static int sum_up(const struct import *import, const struct bundle *bundle, const char *output)
{
    fprintf(stderr, "cofi import: %u stream%s, %" PRIu64 " bytes of trace, %u module%s in %s", import->streams, import->streams == 1 ? "" : "s",
            import->bytes, import->modules, import->modules == 1 ? "" : "s", output);
    if (bundle->kernel)
        fprintf(stderr, "; look at it with --vmlinux=%s", bundle->kernel);
    fputs("\n", stderr);
    return import->lacks ? EXIT_DATA : EXIT_DONE;
}

static int nothing(const struct import *import)
{
    complain("import: no trace in it, so no recording is made");
    cofi_writer_discard(import->writer, NULL);
    return EXIT_DATA;
}

static int import_to(const struct bundle *bundle, const char *output)
{
    struct cofi_recording_info info;
    struct cofi_error error = {0};
    struct import import = {.command = "import"};
    if (bundle_names(bundle, output)) {
        complain("import: %s is a file of the trace: another one for -o", output);
        return EXIT_USAGE;
    }
    import_info(bundle, &info);
    int status = cofi_writer_open(&import.writer, output, &info, &error);
    if (status >= 0)
        status = import_bundle(&import, bundle);
    if (status >= 0 && !import.bytes)
        return nothing(&import);
    int closed = cofi_writer_close(import.writer, &error);
    if (status < 0 || closed < 0) {
        complain("import: %s", error.text[0] ? error.text : cofi_error_text(status < 0 ? status : closed));
        return EXIT_ENVIRONMENT;
    }
    return sum_up(&import, bundle, output);
}

static int run(const char *input, const char *output)
{
    struct bundle bundle;
    int status = bundle_open(&bundle, "import", input);
    if (status != EXIT_DONE)
        return status;
    status = import_to(&bundle, output);
    bundle_close(&bundle);
    return status;
}

int cmd_import(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, 0, 'o'}, {"help", no_argument, 0, 'h'}, {0}};
    const char *output = "cofi.data";
    for (int option; (option = getopt_long(argc, argv, "ho:", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == '?')
            return bad_option("import", argv);
        output = optarg;
    }
    if (argc - optind != 1) {
        complain("import: which trace? 'cofi import --help' tells more");
        return EXIT_USAGE;
    }
    return run(argv[optind], output);
}
