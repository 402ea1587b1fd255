/* SPDX-License-Identifier: MIT
 * cofi record: what is asked for -> why it cannot be done, before anything runs. */
#include "record.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "beforehand.h"

/* ---- which host ---- */

const char *record_needs_unit(const struct record_job *job)
{
    const struct record_output *first = &job->outputs[0];
    if (first->gen == COFI_RTIT)
        return "--unit=rtit";
    if (first->fields)
        return "--config";
    if (first->topa)
        return "--topa";
    if (first->raw)
        return "--raw";
    return job->outputs_n > 1 ? "--also" : NULL;
}

/* Whether a field of "NAME=VALUE,…" asks for packets that tell the time of each instruction. Turned off
 * it does not; RTIT's MTCs say no more than the STS behind them. */
static bool asks_cycles(const struct record_output *output)
{
    static const char *const names[] = {"cyc_", "mtc_", "cycle_acc", "drain_cycles"};
    for (const char *p = output->fields; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",="), k = 0;
        while (k < sizeof names / sizeof names[0] && strncmp(p, names[k], strlen(names[k])))
            k++;
        bool off = p[n] == '=' && strtoull(p + n + 1, NULL, 0) == 0;
        if (k < sizeof names / sizeof names[0] && !off && !(output->gen == COFI_RTIT && k == 1))
            return true;
    }
    return false;
}

static const char *needs_cycles(const struct record_job *job)
{
    for (size_t i = 0; i < job->outputs_n; i++)
        if (asks_cycles(&job->outputs[i]))
            return "time by cycles (cyc_, mtc_, cycle_acc, drain_cycles)";
    return NULL;
}

const char *record_needs_step(const struct record_job *job)
{
    if (record_needs_unit(job) && job->host != HOST_FAST)
        return record_needs_unit(job);
    if (record_needs_unit(job) && needs_cycles(job))
        return needs_cycles(job);
    if (job->truth_path)
        return "--truth";
    if (job->step.limit)
        return "--limit";
    return job->step.verify_all ? "--verify" : job->step.clock != COFI_CLOCK_VIRTUAL ? "--clock" : NULL;
}

const char *record_fast_only(const struct record_job *job)
{
    return job->triggers_n                      ? "--trigger"
           : job->fast.snapshot_bytes           ? "--snapshot"
           : job->fast.max_bytes                ? "--max-size"
           : job->fast.on_full != COFI_FAST_END ? "--on-full"
                                                : NULL;
}

/* Units write what they make beside what the fast host has recorded. */
static bool needs_room_twice(const struct record_job *job) { return job->fast.on_full == COFI_FAST_DROP; }

/* Whether the fast host, asked for by name, would make what only the step host makes otherwise. */
static bool could_be_told(struct record_job *job)
{
    bool any = job->host == HOST_ANY && record_needs_unit(job);
    job->host = any ? HOST_FAST : job->host;
    bool could = any && !record_needs_step(job) && !needs_room_twice(job);
    job->host = any ? HOST_ANY : job->host;
    return could;
}

/* ---- what does not go together, or is not there ---- */

enum { PATHS_MAX = 2 * OUTPUTS_MAX + 1 };

/* Where the run's outputs go; returns how many. */
static size_t output_paths(const struct record_job *job, const char *paths[PATHS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < job->outputs_n; i++) {
        paths[n++] = job->outputs[i].path;
        if (job->outputs[i].raw)
            paths[n++] = job->outputs[i].raw;
    }
    if (job->truth_path)
        paths[n++] = job->truth_path;
    return n;
}

/* Whether two outputs of the run are one file, or one cannot be written; if so, it is said. */
static bool refuse_outputs(const struct record_job *job)
{
    const char *paths[PATHS_MAX];
    size_t n = output_paths(job, paths);
    for (size_t i = 0; i < n; i++) {
        int error = try_output(paths[i]);
        if (!strcmp(paths[i], "-")) {
            complain(
                "record: outputs are files, and '-' is none ('./-' is): what was written is written again at the end");
            return true;
        }
        if (error == ESPIPE) {
            complain("record: outputs are files, and %s is a pipe: what was written is written again at the end",
                     paths[i]);
            return true;
        }
        if (error) {
            complain("record: %s: %s", paths[i], strerror(error));
            return true;
        }
        for (size_t k = 0; k < i; k++)
            if (is_same_file(paths[k], paths[i])) {
                complain("record: %s is to be two of the run's outputs; each needs a file of its own", paths[i]);
                return true;
            }
    }
    return false;
}

int record_refuses_command(const struct record_job *job)
{
    int process = job->step.pid ? try_process(job->step.pid) : 0;
    bool headless = process == ESRCH && !kill(job->step.pid, 0);
    if (headless && job->host != HOST_STEP && !record_needs_step(job)) {
        complain("record: process %d: its first thread has ended; --host=step records others that may run",
                 (int)job->step.pid);
        return EXIT_OURS;
    }
    if (process && !headless) {
        complain("record: process %d: %s%s", (int)job->step.pid,
                 process == ESRCH ? "no such process" : strerror(process),
                 process == EPERM ? " (another user's, or see /proc/sys/kernel/yama/ptrace_scope)" : "");
        return EXIT_OURS;
    }
    int error = job->step.argv ? try_command(job->step.argv[0]) : 0;
    if (!error)
        return -1;
    complain("record: %s: %s", job->step.argv[0], strerror(error));
    return error == ENOENT ? EXIT_NO_COMMAND : EXIT_NOT_EXECUTABLE;
}

bool record_refuses_options(struct record_job *job)
{
    const char *step_only = record_needs_step(job);
    struct cofi_error error;
    if (!ON_X86 && cofi_fast_probe(&error) < 0)
        complain("record: %s", error.text);
    else if (job->host == HOST_FAST && record_needs_unit(job) && needs_room_twice(job))
        complain("record: --on-full=drop goes on without room, and %s needs room once more, at the end",
                 record_needs_unit(job));
    else if (step_only && job->host == HOST_FAST)
        complain("record: %s needs --host=step", step_only);
    else if (record_fast_only(job) && (step_only || job->host == HOST_STEP))
        complain("record: %s needs the fast host%s%s%s", record_fast_only(job), step_only ? ", which cannot do " : "",
                 step_only ? step_only : "", could_be_told(job) ? " unless asked for by --host=fast" : "");
    else if (job->triggers_n && !job->fast.snapshot_bytes)
        complain("record: --trigger needs --snapshot=SIZE");
    else
        return refuse_outputs(job);
    return true;
}
