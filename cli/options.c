/* SPDX-License-Identifier: MIT
 * The arguments of a decoding command -> struct session_options. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "habits.h"
#include "jobs.h"
#include "record_first.h"
#include "session.h"

static void init(struct session_options *options, const char *command)
{
    *options = (struct session_options){.command = command, .gen = COFI_PT, .tid = -1,
                                        .to_offset = UINT64_MAX, .to_ns = UINT64_MAX,
                                        .threads = jobs_processors(), .demangle = COFI_DEMANGLE_SIMPLE,
                                        .where = {.size = sizeof options->where}};
}

/* "1.25" seconds or "@0x1f40" offset. */
static int parse_place(const char *text, uint64_t *offset, uint64_t *ns)
{
    char *end;
    if (*text == '@')
        return parse_number(text + 1, UINT64_MAX, offset) ? 0 : -1;
    uint64_t seconds = strtoull(text, &end, 10), fraction = 0;
    if (*text < '0' || *text > '9' || seconds > UINT64_MAX / 1000000000 - 1)
        return -1;
    if (*end == '.') {
        const char *digits = end + 1;
        for (uint64_t unit = 100000000; *digits >= '0' && *digits <= '9'; digits++, unit /= 10)
            fraction += (uint64_t)(*digits - '0') * unit;
        end = (char *)digits;
    }
    *ns = seconds * 1000000000 + fraction;
    return *end ? -1 : 0;
}

bool parse_cpu(const char *text, uint32_t *family, uint32_t *model, uint32_t *stepping)
{
    int n = 0;
    bool plain = !text[strspn(text, "0123456789/")]; /* scanf takes signs, too, and of what is too large the low bits */
    return plain && sscanf(text, "%3" SCNu32 "/%3" SCNu32 "%n/%3" SCNu32 "%n", family, model, &n, stepping, &n) >= 2 &&
           !text[n];
}

static int parse_gen(struct session_options *options, const char *text)
{
    if (!strcmp(text, "pt"))
        options->gen = COFI_PT;
    else if (!strcmp(text, "rtit"))
        options->gen = COFI_RTIT;
    else
        return -1;
    return 0;
}

static int parse_mode(struct session_options *options, const char *text)
{
    static const char *const modes[] = {"16", "32", "64", NULL};
    int number = word_number(modes, text);
    options->mode = 16u << (number & 3);
    return number < 0 ? -1 : 0;
}

static int parse_tid(struct session_options *options, const char *text)
{
    uint64_t tid;
    bool good = parse_number(text, INT32_MAX, &tid);
    options->tid = (int32_t)tid;
    return good ? 0 : -1;
}

static int parse_pid(struct session_options *options, const char *text)
{
    uint64_t pid;
    bool good = parse_number(text, INT32_MAX, &pid);
    options->pid = (int32_t)pid;
    return good && pid ? 0 : -1;
}

static int parse_threads(struct session_options *options, const char *text)
{
    uint64_t n;
    bool good = parse_number(text, 1024, &n);
    options->threads = (unsigned)n;
    return good && n ? 0 : -1;
}

static int parse_demangle(struct session_options *options, const char *text)
{
    static const char *const hows[] =
        {[COFI_DEMANGLE_NO] = "no", [COFI_DEMANGLE_SIMPLE] = "simple", [COFI_DEMANGLE_FULL] = "full", NULL};
    int number = word_number(hows, text);
    options->demangle = (enum cofi_demangle)number;
    return number < 0 ? -1 : 0;
}

static int take_input(struct session_options *options, char *argument)
{
    bool full = options->input_n == SESSION_MAX_INPUTS;
    if (!full)
        options->inputs[options->input_n++] = argument;
    return full ? -1 : 0;
}

static int take_common(struct session_options *options, int letter, char *argument)
{
    static const char files[] = "ioRYUKVQI"; /* which are named */
    int bad = argument && !*argument && strchr(files, letter) ? -1 : 0;
    if (bad)
        return bad;
    switch (letter) {
    case 'i': bad = take_input(options, argument); break;
    case 'o': options->output = argument; break;
    case 'R': options->raw = argument; break;
    case 'G': bad = parse_gen(options, argument); break;
    case 'O': bad = parse_mode(options, argument); break;
    case 't': bad = parse_tid(options, argument); break;
    case 'P': bad = parse_pid(options, argument); break;
    case 'X': options->comm = argument; break;
    case 'C': bad = parse_cpu(argument, &options->family, &options->model, &options->stepping) ? 0 : -1; break;
    case 'F': bad = parse_place(argument, &options->from_offset, &options->from_ns); break;
    case 'T': bad = parse_place(argument, &options->to_offset, &options->to_ns); break;
    case 'M': bad = registers_parse(&options->registers, argument); break;
    case 'D': bad = parse_demangle(options, argument); break;
    case 'N': bad = parse_threads(options, argument); break;
    case 'j': options->json = true; break;
    case 'Y': options->where.symfs = argument; break;
    case 'U': options->where.guestmount = argument; break;
    case 'K': options->where.kcore = argument; break;
    case 'V': options->where.vmlinux = argument; break;
    case 'Q': options->where.kallsyms = argument; break;
    case 'I':
        if (options->image_n == SESSION_MAX_IMAGES)
            bad = -1;
        else
            options->images[options->image_n++] = argument;
        break;
    default: return 0;
    }
    options->given[letter] = true;
    return bad < 0 ? -1 : 1;
}

/* What would have no effect: options that say what a recording tells, and those that only a recording has. */
static const char *useless(const struct session_command *command, const struct session_options *options)
{
    static const struct {
        char letter;
        bool of_raw;
        const char *why;
    } rows[] = {
        {'I', true, "--image needs --raw; a recording names its code, --symfs tells where that lies now"},
        {'G', true, "--gen needs --raw; a recording tells its generation"},
        {'O', true, "--mode needs --raw; a recording's files tell the mode of their code"},
        {'M', true, "--msr needs --raw; a recording tells the registers"},
        {'t', false, "--tid needs a recording; a raw stream is one thread's"},
        {'P', false, "--pid needs a recording; a raw stream is one thread's"},
        {'X', false, "--comm needs a recording; a raw stream is one thread's"},
        {'Y', false, "--symfs needs a recording; --image gives a raw stream's code"},
        {'U', false, "--guestmount needs a recording; --image gives a raw stream's code"},
        {'K', false, "--kcore needs a recording; --image gives a raw stream's code"},
        {'V', false, "--vmlinux needs a recording; --image gives a raw stream's code"},
        {'Q', false, "--kallsyms needs a recording; --image gives a raw stream's code, and names"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (options->given[(unsigned char)rows[i].letter] && rows[i].of_raw != !!options->raw &&
            !(rows[i].letter == 'M' && command->registers))
            return rows[i].why;
    if (options->raw && (options->from_ns || options->to_ns != UINT64_MAX))
        return "--from and --to in seconds need a recording; in a raw stream they are offsets (@0x1f40)";
    return NULL;
}

/* What -i names, as if it stood behind all options: argv has room, where -i stood itself. The first operand. */
static int place_inputs(const struct session_options *options, int argc, char **argv)
{
    int first = argc - (int)options->input_n;
    for (size_t i = 0; i < options->input_n; i++)
        argv[first + (int)i] = options->inputs[i];
    return first;
}

/* The input, and what concerns more than one option. */
static int take_operands(const struct session_command *command, struct session_options *options, int argc, char **argv,
                         int first)
{
    const char *wrong = NULL;
    bool both = options->input_n && first < argc;
    if (options->input_n && !both)
        first = place_inputs(options, argc, argv);
    options->files = argv + first;
    options->files_n = (size_t)(argc - first);
    if (first < argc)
        options->file = argv[first++];
    if (command->raw_files && options->given['R'])
        options->raw = "";
    if (command->many && (!options->raw || command->raw_files))
        first = argc;
    if (both)
        wrong = "an input by -i, and one without it: only one way at a time";
    else if (options->record_n == 1)
        wrong = "no COMMAND behind --";
    else if (options->record_n && (options->files_n || options->raw))
        wrong = "a file, or a COMMAND behind -- that is recorded first; not both";
    else if (options->from_offset > options->to_offset || options->from_ns > options->to_ns)
        wrong = "--from lies behind --to";
    else if (first < argc || (options->file && options->raw && !command->raw_files))
        wrong = "one input at a time";
    else
        wrong = useless(command, options);
    if (wrong)
        complain("%s: %s", options->command, wrong);
    return wrong ? EXIT_USAGE : EXIT_DONE;
}

int session_parse(const struct session_command *command, struct session_options *options, int argc,
                  char **argv)
{
    int arguments = argc;
    init(options, command->name);
    options->records = command->records;
    options->writes = command->writes;
    if (command->records) {
        argc = record_first_at(arguments, argv, "--");
        options->record = argv + argc;
        options->record_n = arguments - argc;
    }
    for (int letter; (letter = getopt_long(argc, argv, command->letters ? command->letters : "hi:", command->options,
                                           NULL)) != -1;) {
        if (letter == 'h') {
            fputs(command->usage, stdout);
            return SESSION_HELPED;
        }
        if (letter == '?')
            return bad_option(command->name, argv);
        int taken = take_common(options, letter, optarg);
        if (!taken && command->take)
            taken = command->take(command->opaque, letter, optarg);
        if (taken < 0)
            return bad_value(command->name, option_name(command->options, letter), optarg);
    }
    return take_operands(command, options, argc, argv, optind);
}
