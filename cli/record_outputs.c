/* SPDX-License-Identifier: MIT
 * cofi record: events -> the recordings and the truth that are asked for. */
#include "record.h"

bool record_open_outputs(struct record_job *job, const struct cofi_time_info *time, bool leaps,
                         const struct cofi_observer **observers, size_t *n)
{
    struct cofi_error error = {0};
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct record_output *o = &job->outputs[i];
        struct cofi_recorder_options options = {.size = sizeof options, .gen = o->gen, .model = o->model,
                                                .fields = o->fields, .path = o->path, .raw = o->raw,
                                                .command = job->command[0] ? job->command : NULL,
                                                .topa = o->topa,
                                                .program = job->step.argv ? job->step.argv[0] : NULL};
        if (i == 0 && job->ranges.n)
            options.filters = &job->ranges;
        options.time = *time;
        options.leaps = leaps;
        if (cofi_recorder_open(&o->recorder, &options, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
        observers[(*n)++] = cofi_recorder_observer(o->recorder);
    }
    if (job->truth_path) {
        if (cofi_truth_open(&job->truth, job->truth_path, &error) < 0) {
            complain("record: %s", error.text);
            return false;
        }
        observers[(*n)++] = cofi_truth_observer(job->truth);
    }
    return true;
}

bool record_close_outputs(struct record_job *job, uint64_t *bytes)
{
    struct cofi_error error = {0};
    bool good = true;
    for (size_t i = 0; i < job->outputs_n; i++) {
        struct cofi_recorder_stats stats = {0};
        if (cofi_recorder_close(job->outputs[i].recorder, &stats, &error) < 0) {
            complain("record: %s", error.text);
            good = false;
        }
        if (i == 0)
            *bytes = stats.bytes;
    }
    if (cofi_truth_close(job->truth, &error) < 0) {
        complain("record: %s", error.text);
        good = false;
    }
    return good;
}

void record_discard_outputs(struct record_job *job)
{
    for (size_t i = 0; i < job->outputs_n; i++)
        cofi_recorder_discard(job->outputs[i].recorder, NULL);
    cofi_truth_close(job->truth, NULL);
}

bool record_try_outputs(struct record_job *job)
{
    const struct cofi_observer *observers[OUTPUTS_MAX + 1];
    struct record_job trial = *job;
    struct cofi_time_info time;
    size_t n = 0;
    for (size_t i = 0; i < trial.outputs_n; i++)
        trial.outputs[i].path = trial.outputs[i].raw = NULL;
    cofi_fast_time_info(&time);
    bool good = record_open_outputs(&trial, &time, true, observers, &n);
    record_discard_outputs(&trial);
    return good;
}
