/* SPDX-License-Identifier: MIT
 * An option that is perf's -> what does that here. */
#include "habits.h"

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cli.h"

struct habit {
    char letter; /* 0: none */
    const char *name, *here; /* name: empty: only the letter is not ours */
};

static const struct habit of_record[] = {
    {'e', "event", "Intel PT is always what is recorded (--unit=rtit: RTIT); the event's terms are fields of --config"},
    {'a', "all-cpus", "a command or a process (-p) is recorded; a whole machine can be in QEMU (docs/qemu.md)"},
    {'C', "cpu",
     "threads are recorded, on whichever processor they are; a whole machine can be in QEMU (docs/qemu.md)"},
    {'t', "tid", "all threads of a process are recorded (-p); the other commands' --tid shows one"},
    {'S', "snapshot", "--snapshot=SIZE keeps the newest bytes of each thread"},
    {'m', "mmap-pages", "--max-size bounds the recording, --snapshot=SIZE keeps its end"},
    {'g', "call-graph", "'cofi calls' shows the calls of every recording"},
    {'i', "no-inherit", "--no-follow leaves child processes alone"},
    {'F', "freq", "every instruction is recorded, none is sampled"},
    {'c', "count", "every instruction is recorded, none is sampled"},
    {'z', "compression-level", "a name in .zst (-o FILE.zst) makes a compressed recording"},
    {0, "per-thread", "each thread has a stream of its own always"},
    {0, "kcore", "user code is recorded; a whole machine can be in QEMU (docs/qemu.md)"},
    {0, "switch-events", "each thread has a stream of its own always"},
    {0}};

#define CHOICE "--tid=TID, --pid=PID and --comm=PATTERN choose threads; 'cofi stat' lists them with their names"
static const struct habit of_others[] = {
    {0, "itrace",
     "the command chooses: flow (instructions), calls, coverage, dump (packets), stat; 'perf script --itrace=…' reads recordings, too"},
    {'F', "fields", "text has all; 'cofi flow --format=ip' has addresses alone, --json all for programs"},
    {'C', "cpu", "--tid=TID, --pid=PID and --comm=PATTERN choose threads; there is no choice by processor"},
    {'c', "comm", CHOICE},
    {'p', "pid", CHOICE},
    {'t', "", CHOICE},
    {0, "time", "--from=T --to=T choose what is shown; their times are those that 'cofi flow --time' shows"},
    {'g', "call-graph", "'cofi calls' shows calls"},
    {'G', "inverted", "'cofi calls' shows calls"},
    {0, "call-trace", "'cofi calls --format=list' shows each call as it came"},
    {0, "call-ret-trace", "'cofi calls --format=list' shows each call as it came"},
    {0, "insn-trace", "'cofi flow' shows every instruction"},
    {0, "xed", "'cofi flow' shows every instruction"},
    {'D', "dump-raw-trace", "'cofi dump' shows packets"},
    {'k', "", "--vmlinux=FILE gives the kernel's code"},
    {'s', "sort", "'cofi coverage --sort=KEY' sorts functions"},
    {'S', "symbols", "'cofi coverage --function=PATTERN' shows some functions"},
    {'d', "dsos", "'cofi coverage --module=PATTERN' shows some files"},
    {'o', "output", "it is written to standard output: > FILE"},
    {0, "stdio", "it is text always"},
    {0}};

static const struct habit of_gdb[] = {
    {'p', "pid", "--pid=PID chooses a process"},
    {'t', "tid", "all threads of a process are shown; 'info threads' lists them in gdb"},
    {0, "time", "--to=T ends what is shown"},
    {0}};

static const struct habit of_none[] = {{0}};

/* Whether an argument is --NAME or --NAME=VALUE. */
static bool is_named(const char *argument, const char *name)
{
    size_t n = strlen(name);
    return n && !strncmp(argument, "--", 2) && !strncmp(argument + 2, name, n) &&
           (!argument[2 + n] || argument[2 + n] == '=');
}

/* Whether an argument is letters behind one dash, and the refused one is among them. */
static bool has_letter(const char *argument, char letter)
{
    return argument && letter && letter == optopt && argument[0] == '-' && argument[1] != '-' &&
           strchr(argument + 1, letter);
}

static const struct habit *habits_of(const char *command)
{
    static const struct {
        const char *command;
        const struct habit *habits;
    } rows[] = {{"record", of_record}, {"gdb", of_gdb}, {"archive", of_none}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].command, command))
            return rows[i].habits;
    return of_others;
}

int bad_option(const char *command, char **argv)
{
    const struct habit *habit = habits_of(command);
    const char *last = argv[optind - 1], *now = argv[optind]; /* getopt is in it while letters are left */
    while (habit->name && !is_named(last, habit->name) && !has_letter(last, habit->letter) &&
           !has_letter(now, habit->letter))
        habit++;
    if (habit->name)
        complain("%s: perf's option? Here %s", command, habit->here);
    return see_help(command);
}
