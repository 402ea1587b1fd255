/* SPDX-License-Identifier: MIT
 * cofi sim: a scenario -> the packets a trace unit makes of it, why, and whether they are as expected. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "beforehand.h"
#include "cli.h"
#include "file.h"
#include "output.h"
#include "sim.h"

struct options {
    bool check, explain, json, no_registers, many;
    const char *raw, *only;
};

/* The scenarios of a file that were run, and those of them that were not as expected. */
struct tally {
    size_t n, bad;
};

static void usage(void)
{
    fputs("usage: cofi sim [options] FILE...\n"
          "Run scenarios: configuration, code and events in a text file, through a trace unit (RTIT or PT).\n"
          "Prints the packets with their offsets and the registers afterwards.\n\n"
          "  --explain       each event, and for each packet the rule and its section; for an event that made\n"
          "                  no packet, why: which enable was off\n"
          "  --check         compare with what the scenario expects (packets, flow, registers); exit 1 if it differs\n"
          "  --scenario=TEXT of a file that has several, only those with TEXT in their name\n"
          "  --no-registers  packets only\n"
          "  --raw FILE      write the trace's bytes there\n"
          "  --json          one object a line\n"
          "  -h, --help      this text\n\n"
          "man cofi-sim describes the format; examples are in the package's examples/scenarios.\n", stdout);
}

static int show(struct sim *sim, const struct options *o)
{
    if (o->check)
        return sim_check(sim) ? EXIT_DATA : 0;
    for (size_t i = 0; i < sim->made_n && !o->explain; i++)
        if (sim->made[i].packet.kind != COFI_PKT_NONE)
            sim_print_made(stdout, sim, &sim->made[i], false);
    if (!o->no_registers) {
        if (!o->json)
            putchar('\n');
        sim_print_registers(stdout, sim);
    }
    return 0;
}

static void title(const struct scenario *scenario, const struct options *o)
{
    if (o->json || o->check || (!o->many && !scenario->name))
        return;
    printf("== %s%s%s\n", o->many ? scenario->path : "", o->many && scenario->name ? ": " : "",
           scenario->name ? scenario->name : "");
}

static int run_scenario(struct sim_file *file, const struct options *o)
{
    struct scenario scenario;
    struct sim sim = {.events = o->explain ? stdout : NULL, .json = o->json};
    int status = sim_parse(&scenario, file, true);
    if (status == 0) {
        title(&scenario, o);
        status = sim_run(&sim, &scenario);
        if (status == 0)
            status = show(&sim, o);
        if (status == 0 && o->raw)
            status = output_whole("sim", o->raw, sim.bytes, sim.n);
        sim_close(&sim);
    }
    sim_free(&scenario);
    return status;
}

/* What --check says of a file. */
static void say_checked(const char *path, const struct tally *tally)
{
    if (tally->n == 1)
        printf("%s: %s\n", path, tally->bad ? "DIFFERS" : "as expected");
    else if (tally->bad)
        printf("%s: %zu of %zu scenarios DIFFER\n", path, tally->bad, tally->n);
    else
        printf("%s: %zu scenarios as expected\n", path, tally->n);
}

static bool find_next(struct sim_file *file, const struct options *o)
{
    while (sim_file_next(file))
        if (!o->only || (file->name && strstr(file->name, o->only)))
            return true;
    return false;
}

static int run_text(const char *path, char *text, const struct options *o)
{
    struct sim_file file, next;
    struct tally tally = {0};
    int worst = 0;
    sim_file_begin(&next, path, text);
    for (bool more = find_next(&next, o); more;) {
        file = next;
        more = find_next(&next, o);
        if (o->raw && more) {
            complain("sim: --raw is of one scenario; --scenario=NAME says which");
            return EXIT_USAGE;
        }
        int status = run_scenario(&file, o);
        tally.n++;
        tally.bad += status == EXIT_DATA;
        worst = status > worst ? status : worst;
        if (status == EXIT_DATA && o->check && file.name)
            printf("%s:%u: %s: DIFFERS\n", path, file.line, file.name);
    }
    if (!tally.n) {
        complain("sim: %s: no scenario's name has '%s' in it", path, o->only);
        return EXIT_DATA;
    }
    if (o->check && worst <= EXIT_DATA)
        say_checked(path, &tally);
    return worst;
}

static int run_file(const char *path, const struct options *o)
{
    struct file file;
    int status = file_open(&file, "sim", path);
    if (status)
        return status;
    char *text = malloc(file.n + 1);
    if (!text) {
        complain("sim: out of memory");
        file_close(&file);
        return EXIT_ENVIRONMENT;
    }
    memcpy(text, file.bytes, file.n);
    text[file.n] = 0;
    file_close(&file);
    status = run_text(path, text, o);
    free(text);
    return status;
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"check", 0, 0, 'c'}, {"explain", 0, 0, 'e'}, {"json", 0, 0, 'j'},
                                          {"no-registers", 0, 0, 'n'}, {"raw", 1, 0, 'r'}, {"scenario", 1, 0, 's'},
                                          {"help", 0, 0, 'h'}, {0}};
    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        switch (c) {
        case 'c': o->check = true; break;
        case 'e': o->explain = true; break;
        case 'j': o->json = true; break;
        case 'n': o->no_registers = true; break;
        case 'r': o->raw = optarg; break;
        case 's': o->only = optarg; break;
        case 'h': usage(); return -1;
        default: return see_help("sim");
        }
    }
    o->many = argc - optind > 1;
    if (o->many && o->raw) {
        complain("sim: --raw is of one scenario");
        return EXIT_USAGE;
    }
    if (optind == argc) {
        complain("sim: a scenario file is needed; 'cofi sim --help' tells more");
        return EXIT_USAGE;
    }
    if (o->raw && is_same_file(o->raw, argv[optind])) {
        complain("sim: %s is read, so it cannot be written: another file for --raw", o->raw);
        return EXIT_USAGE;
    }
    return 0;
}

int cmd_sim(int argc, char **argv)
{
    struct options o = {0};
    int worst = parse_options(argc, argv, &o);
    if (worst)
        return worst < 0 ? EXIT_DONE : worst;
    for (int i = optind; i < argc; i++) {
        int status = run_file(argv[i], &o);
        worst = status > worst ? status : worst;
    }
    return worst;
}
