/* SPDX-License-Identifier: MIT
 * cofi import: a trace that another tool saved, or a raw stream -> a recording. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "beforehand.h"
#include "bundle.h"
#include "cli.h"
#include "import.h"
#include "session.h"

static const char usage[] =
    "usage: cofi import [-o FILE] BUNDLE\n"
    "       cofi import [-o FILE] --raw=TRACE [options]\n\n"
    "Make a recording of a trace that LLDB saved (trace save; BUNDLE: the folder, or the trace.json in it), or of a raw\n"
    "stream with its code. All commands, gdb among them, perf and libipt read it.\n\n"
    "  -o, --output=FILE       the recording (default: cofi.data)\n"
    "      --raw=TRACE         a raw stream\n"
    "      --gen=pt|rtit       what it is (default pt)\n"
    "      --image=FILE[@ADDR] code for it: an ELF or PE file (loaded at ADDR), raw code at ADDR, or X.addr (page dump)\n"
    "      --mode=16|32|64     of its code, until a packet tells (default: found out, or of the ELF file)\n"
    "      --cpu=F/M[/S]       family/model/stepping it was traced on\n"
    "      --msr=N=HEX,...     its trace unit's registers as read back: 768=2f09,772=1f40,77d=5\n"
    "  -h, --help              this text\n";

static const struct option long_options[] = {
    {"output", required_argument, 0, 'o'}, {"raw", required_argument, 0, 'R'}, {"gen", required_argument, 0, 'G'},
    {"image", required_argument, 0, 'I'}, {"mode", required_argument, 0, 'O'}, {"cpu", required_argument, 0, 'C'},
    {"msr", required_argument, 0, 'M'}, {"help", no_argument, 0, 'h'}, {0},
};

/* Nothing was imported: no recording is made. */
static int drop(struct import *import, int status)
{
    struct cofi_error error = {0};
    cofi_writer_discard(import->writer, &error);
    if (error.text[0])
        complain("import: %s", error.text);
    else if (status >= 0)
        complain("import: no trace in it, so no recording is made");
    return status < 0 ? EXIT_ENVIRONMENT : EXIT_DATA;
}

static int open_output(struct import *import, const char *output, bool is_input, const struct cofi_recording_info *info)
{
    struct cofi_error error = {0};
    if (is_input) {
        complain("import: %s is read, so it cannot be written: another file for -o", output);
        return EXIT_USAGE;
    }
    int status = cofi_writer_open(&import->writer, output, info, &error);
    if (status < 0)
        complain("import: %s", error.text[0] ? error.text : cofi_error_text(status));
    return status < 0 ? EXIT_ENVIRONMENT : EXIT_DONE;
}

/* What was done. hint: how to look at it, or null. */
static int sum_up(const struct import *import, const char *output, const char *hint)
{
    fprintf(stderr, "cofi import: %u stream%s, %" PRIu64 " bytes of trace, %u module%s", import->streams,
            import->streams == 1 ? "" : "s", import->bytes, import->modules, import->modules == 1 ? "" : "s");
    if (import->code)
        fprintf(stderr, ", %" PRIu64 " bytes of code", import->code);
    fprintf(stderr, " in %s", output);
    if (hint)
        fprintf(stderr, "; look at it with --vmlinux=%s", hint);
    fputs("\n", stderr);
    return import->lacks ? EXIT_DATA : EXIT_DONE;
}

static int finish(struct import *import, int status, const char *output, const char *hint)
{
    struct cofi_error error = {0};
    if (!import->bytes)
        return drop(import, status);
    int closed = cofi_writer_close(import->writer, &error);
    if (status >= 0 && closed >= 0)
        return sum_up(import, output, hint);
    complain("import: %s", error.text[0] ? error.text : cofi_error_text(status < 0 ? status : closed));
    return EXIT_ENVIRONMENT;
}

static int from_bundle(const char *input, const char *output)
{
    struct import import = {.command = "import"};
    struct cofi_recording_info info;
    struct bundle bundle;
    int status = bundle_open(&bundle, "import", input);
    if (status != EXIT_DONE)
        return status;
    import_bundle_info(&bundle, &info);
    status = open_output(&import, output, bundle_names(&bundle, output), &info);
    if (status == EXIT_DONE)
        status = finish(&import, import_bundle(&import, &bundle), output, bundle.kernel);
    bundle_close(&bundle);
    return status;
}

static int from_raw(const struct session_options *options, const char *output)
{
    struct import import = {.command = "import"};
    struct cofi_recording_info info;
    struct session *session;
    struct file trace;
    int status = session_open(&session, options);
    if (status != EXIT_DONE)
        return status;
    import_raw_info(session, options, &trace, &info);
    status = open_output(&import, output, is_same_file(options->raw, output), &info);
    if (status == EXIT_DONE)
        status = finish(&import, import_raw(&import, session, options, &trace), output, NULL);
    session_close(session);
    return status;
}

int cmd_import(int argc, char **argv)
{
    const struct session_command command = {.name = "import", .usage = usage, .options = long_options,
                                            .letters = "ho:"};
    struct session_options options;
    int status = session_parse(&command, &options, argc, argv);
    if (status != EXIT_DONE)
        return status == SESSION_HELPED ? EXIT_DONE : status;
    const char *output = options.output ? options.output : "cofi.data";
    if (options.raw)
        return from_raw(&options, output);
    if (options.file)
        return from_bundle(options.file, output);
    complain("import: which trace? 'cofi import --help' tells more");
    return EXIT_USAGE;
}
