/* SPDX-License-Identifier: MIT
 * One stepping run -> DIR/truth and a recording for each configuration, so that a comparison of all costs
 * one run: record-many DIR command… */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cofi/host.h>

struct variant {
    const char *name;
    enum cofi_gen gen;
    const char *fields;
};

static const struct variant variants[] = {
    {"pt", COFI_PT, NULL},
    {"pt-noretc", COFI_PT, "dis_retc=1"},
    {"pt-notime", COFI_PT, "mtc_en=0,cyc_en=0,psb_freq=0"},
    {"rtit", COFI_RTIT, NULL},
    {"rtit-noretc", COFI_RTIT, "cmprs_ret=0,pkt_mask=0"},
    {"rtit-cyc", COFI_RTIT, "cycle_acc=1"},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static int fail(const struct cofi_error *error, int status)
{
    fprintf(stderr, "record-many: %s\n", error->text[0] ? error->text : cofi_error_text(status));
    return 125;
}

int main(int argc, char **argv)
{
    struct cofi_error error = {0};
    struct cofi_recorder *recorders[VARIANTS];
    const struct cofi_observer *observers[VARIANTS + 1];
    struct cofi_truth *truth;
    struct cofi_step_result result;
    char path[4096];
    if (argc < 3)
        return 2;
    struct cofi_step_options step = {.size = sizeof step, .argv = argv + 2, .observers = observers,
                                     .observers_n = VARIANTS + 1};
    snprintf(path, sizeof path, "%s/truth", argv[1]);
    int status = cofi_truth_open(&truth, path, &error);
    if (status < 0)
        return fail(&error, status);
    observers[VARIANTS] = cofi_truth_observer(truth);
    for (size_t i = 0; i < VARIANTS; i++) {
        struct cofi_recorder_options options = {.size = sizeof options, .gen = variants[i].gen,
                                                .fields = variants[i].fields, .path = path};
        snprintf(path, sizeof path, "%s/%s.data", argv[1], variants[i].name);
        cofi_step_time_info(&step, &options.time);
        if ((status = cofi_recorder_open(&recorders[i], &options, &error)) < 0)
            return fail(&error, status);
        observers[i] = cofi_recorder_observer(recorders[i]);
    }
    status = cofi_step_run(&step, &result, &error);
    if (status < 0)
        return fail(&error, status);
    for (size_t i = 0; i < VARIANTS; i++)
        if ((status = cofi_recorder_close(recorders[i], NULL, &error)) < 0)
            return fail(&error, status);
    if ((status = cofi_truth_close(truth, &error)) < 0)
        return fail(&error, status);
    if (!result.started || result.unexplained) {
        fprintf(stderr, "record-many: %s\n", result.started ? "unexplained steps" : "did not start");
        return 125;
    }
    return WIFEXITED(result.wait_status) ? WEXITSTATUS(result.wait_status)
                                         : 128 + WTERMSIG(result.wait_status);
}
