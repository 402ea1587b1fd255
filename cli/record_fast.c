/* SPDX-License-Identifier: MIT
 * cofi record by the fast host: a recording, and of it those of units. */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "again.h"
#include "beforehand.h"
#include "cache.h"
#include "signals.h"
#include "tell.h"

/* ---- what is told meanwhile, and at the end ---- */

enum { LINE_BYTES = 128, LINE_PARTS = 5 };

/* As much of the line as fits into less than `columns`: what is missed least goes first. */
static void make_line(const struct cofi_fast_progress *p, unsigned columns, char line[LINE_BYTES])
{
    static const unsigned char missed_least[LINE_PARTS] = {0, 3, 2, 4, 1};
    double seconds = (double)p->ns / 1e9, mb = (double)p->bytes / 1e6;
    char parts[LINE_PARTS][LINE_BYTES / LINE_PARTS] = {"cofi record: "};
    size_t n = 0;
    snprintf(parts[1], sizeof parts[1], "%.1f MB", mb);
    snprintf(parts[2], sizeof parts[2], ", %.1f MB/s", seconds > 0 ? mb / seconds : 0);
    snprintf(parts[3], sizeof parts[3], ", %u thread%s", p->threads, p->threads == 1 ? "" : "s");
    snprintf(parts[4], sizeof parts[4], "%s", p->waiting ? ", waiting for room" : "");
    for (size_t i = 0; i < LINE_PARTS; i++)
        n += strlen(parts[i]);
    for (size_t i = 0; i < LINE_PARTS && n >= columns; i++) {
        n -= strlen(parts[missed_least[i]]);
        parts[missed_least[i]][0] = 0;
    }
    snprintf(line, LINE_BYTES, "%s%s%s%s%s", parts[0], parts[1], parts[2], parts[3], parts[4]);
}

/* Take the line away. A terminal that is narrower now has wrapped it. */
static void clear_line(struct record_job *job, unsigned columns)
{
    if (is_terminal(STDERR_FILENO))
        fputs(job->shown < columns ? "\r\033[K" : "\r\033[J", stderr);
    job->shown = 0;
}

/* On a terminal one line that is written over; nothing of it stays. A command that is launched has the
 * terminal for itself, unless it is held. */
static void show_progress(void *opaque, const struct cofi_fast_progress *p)
{
    struct record_job *job = opaque;
    char line[LINE_BYTES];
    bool over = is_terminal(STDERR_FILENO);
    unsigned columns = over ? terminal_columns(STDERR_FILENO) : LINE_BYTES;
    if (!job->progress && !p->waiting && (job->step.argv || job->beside))
        return;
    make_line(p, columns, line);
    clear_line(job, columns);
    fprintf(stderr, "%s%s", line, over ? "\r" : "\n");
    job->shown = over ? (unsigned)strlen(line) : 0;
}

static void tell_end(const struct record_job *job, const struct cofi_fast_result *result)
{
    if (result->left && result->ended == COFI_FAST_NOT_ENDED && !job->quiet)
        complain("record: the recording was stopped; %u thread%s went on unrecorded", result->left,
                 result->left == 1 ? "" : "s");
    if (result->translated)
        complain(
            "record: %u thread%s of the program stay%s translated: another user's, held by a debugger, under a seccomp filter, or not to be stopped",
            result->translated, result->translated == 1 ? "" : "s", result->translated == 1 ? "s" : "");
    if (result->ended == COFI_FAST_MAX_SIZE && !job->quiet)
        complain("record: the recording ends at its --max-size; the program went on unrecorded");
    if (result->ended == COFI_FAST_NO_ROOM)
        complain("record: no room left for %s; it is complete up to there, the program went on unrecorded",
                 job->fast.path);
    if (result->lost_bytes && result->ended == COFI_FAST_NOT_ENDED)
        complain("record: trace was lost for want of room; the recording says where (overflows)");
}

/* ---- units, of what was recorded ---- */

/* Filters are the first output's. */
static int tell_ahead(const struct record_job *job, const struct cofi_recording *recording)
{
    const struct cofi_sideband *sb;
    int status = 0;
    for (size_t i = 0; job->ranges.n && status >= 0 && (sb = cofi_recording_sideband(recording, i)); i++)
        status = cofi_recorder_ahead(job->outputs[0].recorder, sb);
    return status;
}

/* Time is told where the fast host told it. False: memory is out, which was said. */
static bool leave_cycles_out(struct record_job *job)
{
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct record_output *o = &job->outputs[i];
        if (asprintf(&o->made_fields, "%s%s", o->gen == COFI_PT ? "mtc_en=0,cyc_en=0," : "",
                     o->fields ? o->fields : "") < 0) {
            o->made_fields = NULL;
            complain("record: %s", cofi_error_text(COFI_ERR_NOMEM));
            return false;
        }
        o->fields = o->made_fields;
    }
    return true;
}

/* The packets of the units that were asked for, from what the fast host has recorded at `path`. False:
 * it was said why not. */
static bool tell_units(struct record_job *job, const char *path, uint64_t *bytes)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    size_t n = 0;
    if (cofi_recording_open(&recording, path, &error) < 0) {
        complain("record: %s", error.text);
        return false;
    }
    bool good = leave_cycles_out(job) &&
                record_open_outputs(job, &cofi_recording_info(recording)->time, true, observers, &n);
    int status = good ? tell_ahead(job, recording) : 0;
    if (good && status >= 0)
        status = again_tell(recording, observers, n, &signals_stop, &error);
    if (good)
        good = record_close_outputs(job, bytes); /* a recorder says itself what it failed of */
    else
        record_discard_outputs(job);
    if (good && status < 0)
        complain("record: %s", error.text[0] ? error.text : cofi_error_text(status));
    cofi_recording_close(recording);
    for (size_t i = 0; i < job->outputs_n; i++)
        free(job->outputs[i].made_fields);
    return good && status >= 0;
}

/* ---- the run ---- */

/* What the fast host is to do: record to `path`. */
static void describe_fast(struct record_job *job, const char *path)
{
    struct cofi_fast_options *fast = &job->fast;
    fast->size = sizeof *fast;
    fast->argv = job->step.argv;
    fast->path = path;
    fast->command = job->command[0] ? job->command : NULL;
    fast->pid = job->step.pid;
    if (!job->quiet && (job->progress || is_terminal(STDERR_FILENO)))
        fast->progress = show_progress;
    fast->opaque = job;
    fast->all_children = true;
    fast->left_behind = job->quiet ? NULL : tell_left;
    fast->traced = job->quiet ? NULL : tell_traced;
    fast->snapshots = &signals_snapshots;
    fast->filters = job->filters.n ? &job->filters : NULL;
    fast->no_follow = job->step.no_follow;
    fast->all_code = job->step.all_code;
    fast->stop = &signals_stop;
    fast->release = &signals_release;
    fast->started = record_started(job);
}

/* Returns an exit status, 0 if all went well. */
static int conclude_fast(struct record_job *job, int status, struct cofi_fast_result *result,
                         const struct cofi_error *error)
{
    bool units = record_needs_unit(job);
    if (status < 0) {
        complain("record: %s%s", error->text[0] ? error->text : cofi_error_text(status),
                 status == COFI_ERR_UNSUPPORTED && !result->tasks ? "; --host=step may record it" : "");
        if (!result->started)
            return !result->exec_errno            ? EXIT_OURS
                   : result->exec_errno == ENOENT ? EXIT_NO_COMMAND
                                                  : EXIT_NOT_EXECUTABLE;
        return EXIT_OURS;
    }
    tell_end(job, result);
    result->bytes = units ? 0 : result->bytes;
    if (units && !tell_units(job, job->fast.path, &result->bytes)) {
        complain("record: what the fast host recorded is in %s", job->fast.path);
        return EXIT_OURS;
    }
    if (units)
        unlink(job->fast.path);
    job->made = true;
    if (!job->quiet && !job->no_summary)
        fprintf(stderr, "cofi record: %llu branch%s of %u thread%s, %llu bytes of trace in %s\n",
                (unsigned long long)result->branches, result->branches == 1 ? "" : "es", result->tasks,
                result->tasks == 1 ? "" : "s", (unsigned long long)result->bytes, job->outputs[0].path);
    if (result->foreign && result->ended != COFI_FAST_NO_ROOM)
        complain("record: %u program%s ran unrecorded (32-bit, or not ours to follow)", result->foreign,
                 result->foreign == 1 ? "" : "s");
    if (result->let_out)
        complain("record: %u child%s ran unrecorded from where %s traced", result->let_out,
                 result->let_out == 1 ? "" : "ren", result->let_out == 1 ? "it had itself" : "they had themselves");
    return result->ended == COFI_FAST_NO_ROOM ? EXIT_OURS : 0;
}

int record_fast(struct record_job *job)
{
    struct cofi_fast_result result;
    struct cofi_error error = {0};
    char between[4096];
    snprintf(between, sizeof between, "%s.fast", job->outputs[0].path);
    describe_fast(job, record_needs_unit(job) ? between : job->outputs[0].path);
    char *cache = job->no_cache ? NULL : cache_folder();
    job->fast.kept_code = cache;
    int status = cofi_fast_record(&job->fast, &result, &error);
    free(cache);
    if (job->shown)
        clear_line(job, terminal_columns(STDERR_FILENO));
    if (status == COFI_ERR_UNSUPPORTED && job->host == HOST_ANY && !record_fast_only(job) && !job->filters.n &&
        !result.tasks) {
        complain("record: %s; stepping instead", error.text);
        return -1;
    }
    int code = conclude_fast(job, status, &result, &error);
    cofi_fast_wait(&result, &signals_stop);
    return code ? code : record_status(job, result.wait_status);
}
