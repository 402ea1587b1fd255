/* SPDX-License-Identifier: MIT
 * cofi record: what was asked for, and the parts of doing it. */
#ifndef COFI_CLI_RECORD_H
#define COFI_CLI_RECORD_H

#include <stdbool.h>

#include <cofi/cofi.h>

#include "cli.h"
#include "meanwhile.h"

/* As env and timeout have them. */
enum { EXIT_OURS = EXIT_RECORD, EXIT_NOT_EXECUTABLE = 126, EXIT_NO_COMMAND = 127, OUTPUTS_MAX = 16 };

/* One unit with one configuration, and where its trace goes. */
struct record_output {
    enum cofi_gen gen;
    const char *path, *raw, *fields, *model, *topa;
    char *made_fields; /* ours to release */
    struct cofi_recorder *recorder;
};

struct record_job {
    struct record_output outputs[OUTPUTS_MAX];
    size_t outputs_n;
    const char *truth_path;
    struct cofi_truth *truth;
    struct cofi_step_options step;
    struct cofi_fast_options fast;
    struct cofi_filters filters, ranges; /* the fast host's, triggers among them; the first output's */
    const char *filter_texts[COFI_FILTERS_MAX];
    size_t filter_texts_n;
    const char *triggers[COFI_FILTERS_MAX];
    size_t triggers_n;
    bool progress, unit_given, no_cache;
    unsigned shown;          /* characters of the line that tells progress on the terminal */
    enum { HOST_ANY, HOST_STEP, HOST_FAST } host;
    bool quiet, no_summary;
    bool made;               /* there is a recording */
    char *const *beside;     /* with -p: record while this command runs */
    struct meanwhile *meanwhile;
    const char *preset;  /* its fields; null: none */
    char fields[4096];   /* preset and --config together */
    char command[4096];
};

/* record_options.c: the command line. Returns an exit status, or -1 to go on. */
int record_parse(struct record_job *job, int argc, char **argv);

/* record_refuses.c: what can be told before anything runs. */

/* What a trace unit must make; what only stepping, and what only translation can do: in words, null if nothing of
 * it was asked for. A unit's packets are made of what the fast host has recorded if that host is asked for. */
const char *record_needs_unit(const struct record_job *job);
const char *record_needs_step(const struct record_job *job);
const char *record_fast_only(const struct record_job *job);
/* Says what of the options does not go together, or which output cannot be written, if anything. */
bool record_refuses_options(struct record_job *job);
/* -1 to go on, or the exit status after saying that there is no such command or process. */
int record_refuses_command(const struct record_job *job);

/* record_outputs.c: the recordings that a host's events are made into, and the truth. False: it was said why not. */
bool record_open_outputs(struct record_job *job, const struct cofi_time_info *time, bool leaps,
                         const struct cofi_observer **observers, size_t *n);
/* Returns whether all files are complete; *bytes: of the first one's trace. */
bool record_close_outputs(struct record_job *job, uint64_t *bytes);
/* The same where nothing has begun: what the files were before stays. */
void record_discard_outputs(struct record_job *job);
/* Whether the units take what was asked for: said before the command runs, not when it has ended. */
bool record_try_outputs(struct record_job *job);

/* record_fast.c: record by translation. Returns an exit status, or -1: nothing has run, the step host may. */
int record_fast(struct record_job *job);

/* cmd_record.c */
/* `cofi record ARGUMENTS` without a summary, the recording at *path if they name no other; *path: where
 * it is. Returns whether there is one. *status: the exit status. */
bool record_unseen(int argc, char **argv, const char **path, int *status);

/* What both hosts share. */
/* What is to be told that the recording has begun. */
volatile int32_t *record_started(const struct record_job *job);
/* The exit status that follows from the program's, as waitpid has it. */
int record_status(const struct record_job *job, int status);

#endif
