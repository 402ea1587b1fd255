/* SPDX-License-Identifier: MIT
 * cofi asm: packet text -> the bytes. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asm.h"
#include "cli.h"
#include "file.h"
#include "output.h"

static void usage(FILE *out)
{
    fputs("usage: cofi asm [--gen=pt|rtit] [-o FILE] [FILE]\n"
          "Turn packet text into trace bytes; the inverse of 'cofi dump'.\n\n"
          "  --gen=pt|rtit       what the text is until a line '.gen rtit' says otherwise (default pt)\n"
          "  -o, --output=FILE   write there instead of standard output\n"
          "  -h, --help          this text\n\n"
          "A line is a packet as 'cofi dump' prints it, with or without its offset ('#' or ';'\n"
          "begins a comment), or one of: .gen pt|rtit    .bytes XX XX ...    .back N (take N bytes back)\n", out);
}

/* What could be assembled is not written when some of it could not. */
static int write_out(const struct assembler *a)
{
    int status = output_begin("asm");
    if (status || (fwrite(a->bytes, 1, a->n, stdout) == a->n && !fflush(stdout)))
        return status;
    complain("asm: %s: %s", output_name(), strerror(errno));
    return EXIT_ENVIRONMENT;
}

static int run(struct assembler *a)
{
    struct file file;
    int status = file_open(&file, "asm", a->path);
    if (status)
        return status;
    status = assemble(a, (const char *)file.bytes, file.n);
    file_close(&file);
    if (!status)
        status = write_out(a);
    free(a->bytes);
    return status;
}

int cmd_asm(int argc, char **argv)
{
    static const struct option options[] = {
        {"gen", required_argument, 0, 'g'}, {"output", required_argument, 0, 'o'},
        {"help", no_argument, 0, 'h'}, {0}};
    struct assembler a = {.path = "-", .talk = stderr, .context = {.gen = COFI_PT}};
    const char *out = 0;
    for (int option; (option = getopt_long(argc, argv, "o:h", options, 0)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return EXIT_DONE;
        }
        if (option == 'o' && *optarg)
            out = optarg;
        else if (option == 'g' && !strcmp(optarg, "rtit"))
            a.context.gen = COFI_RTIT;
        else if (option == 'g' && !strcmp(optarg, "pt"))
            a.context.gen = COFI_PT;
        else if (option == 'g' || option == 'o')
            return bad_value("asm", option == 'g' ? "gen" : "output", optarg);
        else
            return see_help("asm");
    }
    if (argc - optind > 1) {
        fprintf(stderr, "cofi asm: one file at a time; 'cofi asm --help' tells more\n");
        return EXIT_USAGE;
    }
    if (argc > optind)
        a.path = argv[optind];
    int status = output_open("asm", out);
    if (!status && output_is(a.path)) {
        complain("asm: %s: it cannot be read and written at once", out);
        return EXIT_USAGE;
    }
    return status ? status : run(&a);
}
