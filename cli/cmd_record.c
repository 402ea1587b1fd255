/* SPDX-License-Identifier: MIT
 * cofi record: a command or a process -> a recording. */
#include "record.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

/* A unit has ranges of its own; without one the fast host is told. */
static struct cofi_filters *who_filters(struct record_job *job)
{
    return record_needs_unit(job) || record_needs_step(job) || job->host == HOST_STEP ? &job->ranges : &job->filters;
}

/* The filters, now that the command is known. */
static bool take_filters(struct record_job *job)
{
    struct cofi_error error = {0};
    char exe[64];
    snprintf(exe, sizeof exe, "/proc/%d/exe", (int)job->step.pid);
    const char *program = job->step.argv ? job->step.argv[0] : !access(exe, F_OK) ? exe : NULL;
    for (size_t i = 0; i < job->filter_texts_n; i++)
        if (cofi_filters_parse(who_filters(job), job->filter_texts[i], program, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
    for (size_t i = 0; i < job->triggers_n; i++) {
        char text[8192];
        snprintf(text, sizeof text, "trigger %s", job->triggers[i]);
        if (cofi_filters_parse(&job->filters, text, program, &error) < 0) {
            static const char prefix[] = "filter: ";
            complain("record: trigger: %s",
                     error.text + (strncmp(error.text, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
            return false;
        }
    }
    return true;
}

volatile int32_t *record_started(const struct record_job *job)
{
    return !job->step.pid ? &signals_forward_to : job->meanwhile ? &job->meanwhile->go : NULL;
}

int record_status(const struct record_job *job, int status)
{
    if (job->step.pid) /* the process's own is not ours to know */
        status = job->meanwhile ? job->meanwhile->status : 0;
    if (WIFSIGNALED(status) && !job->quiet) /* no shell says it now, for we do not end so */
        fprintf(stderr, "cofi record: the command was ended by signal %d (%s)%s\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the step host ---- */

static int conclude(struct record_job *job, int status, struct cofi_step_result *result,
                    const struct cofi_error *error)
{
    uint64_t bytes = 0;
    if (!result->started) {
        record_discard_outputs(job);
        complain("record: %s", error->text);
        return !result->exec_errno ? EXIT_OURS : result->exec_errno == ENOENT ? EXIT_NO_COMMAND
                                                                              : EXIT_NOT_EXECUTABLE;
    }
    bool good = record_close_outputs(job, &bytes);
    if (status < 0 && good) {
        complain("record: %s", error->text[0] ? error->text : cofi_error_text(status));
        good = false;
    }
    job->made = good;
    if (!job->quiet && !job->no_summary)
        fprintf(stderr, "cofi record: %llu instructions of %u thread%s, %llu bytes of trace in %s\n",
                (unsigned long long)result->insns, result->tasks, result->tasks == 1 ? "" : "s",
                (unsigned long long)bytes, job->outputs[0].path);
    if (result->unexplained)
        complain("record: %llu steps ended where no rule explains; there the list may lack an instruction",
                 (unsigned long long)result->unexplained);
    cofi_step_wait(result, &signals_stop);
    return good ? record_status(job, result->wait_status) : EXIT_OURS;
}

static int record_stepped(struct record_job *job)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct cofi_step_result result = {0};
    struct cofi_error error = {0};
    struct cofi_time_info time;
    size_t n = 0;
    cofi_step_time_info(&job->step, &time);
    if (!record_open_outputs(job, &time, job->step.clock == COFI_CLOCK_REAL, observers, &n)) {
        record_discard_outputs(job);
        return EXIT_OURS;
    }
    signals_catch();
    job->step.size = sizeof job->step;
    job->step.stop = &signals_stop;
    job->step.release = &signals_release;
    job->step.started = record_started(job);
    job->step.observers = observers;
    job->step.observers_n = n;
    int status = cofi_step_run(&job->step, &result, &error);
    return conclude(job, status, &result, &error);
}

static int record(struct record_job *job)
{
    if (record_refuses_options(job))
        return EXIT_OURS;
    int status = record_refuses_command(job);
    if (status >= 0)
        return status;
    if (!take_filters(job))
        return EXIT_OURS;
    if (job->beside && !(job->meanwhile = meanwhile(job->beside))) {
        complain("record: %s: %s", job->beside[0], strerror(errno));
        return EXIT_OURS;
    }
    if (record_needs_step(job) || job->host == HOST_STEP)
        return record_stepped(job);
    if (record_needs_unit(job) && !record_try_outputs(job))
        return EXIT_OURS;
    signals_catch();
    status = record_fast(job);
    return status >= 0 ? status : record_stepped(job);
}

static int parse_and_record(struct record_job *job, const char *path, int argc, char **argv)
{
    job->outputs[0] = (struct record_output){.gen = COFI_PT, .path = path};
    job->outputs_n = 1;
    int status = record_parse(job, argc, argv);
    if (status < 0)
        status = record(job);
    cofi_filters_fini(&job->filters);
    cofi_filters_fini(&job->ranges);
    return status;
}

int cmd_record(int argc, char **argv)
{
    struct record_job job = {0};
    return parse_and_record(&job, "cofi.data", argc, argv);
}

bool record_unseen(int argc, char **argv, const char **path, int *status)
{
    static char name[] = "cofi record";
    struct record_job job = {.no_summary = true};
    argv[0] = name; /* to getopt, which begins anew */
    optind = 0;
    *status = parse_and_record(&job, *path, argc, argv);
    *path = job.outputs[0].path;
    return job.made;
}
