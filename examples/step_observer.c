/* SPDX-License-Identifier: MIT
 * An observer of one's own: how many instructions, calls and visits to the kernel each thread of a
 * command makes.
 * usage: step_observer COMMAND [ARGUMENT...] */
#include <inttypes.h>
#include <stdio.h>

#include <cofi/cofi.h>

enum { TASKS_MAX = 64 };

static struct counts {
    int32_t tid;
    uint64_t insns, calls, kernel;
} counts[TASKS_MAX];

static int begin(void *opaque, const struct cofi_task *task, const struct cofi_context *context,
                 const struct cofi_event *clock)
{
    (void)opaque, (void)context, (void)clock;
    if (task->index >= TASKS_MAX)
        return COFI_ERR_FULL;
    counts[task->index].tid = task->tid;
    return 0;
}

static int insn(void *opaque, const struct cofi_task *task, uint64_t ip, bool software_interrupt)
{
    (void)opaque, (void)ip, (void)software_interrupt;
    counts[task->index].insns++;
    return 0;
}

static int event(void *opaque, const struct cofi_task *task, const struct cofi_event *event)
{
    (void)opaque;
    counts[task->index].calls += event->kind == COFI_EV_CALL || event->kind == COFI_EV_CALL_IND;
    counts[task->index].kernel += event->context_set && event->after.cpl == 0;
    return 0;
}

int main(int argc, char **argv)
{
    const struct cofi_observer observer = {.begin = begin, .event = event, .insn = insn},
                               *list = &observer;
    struct cofi_step_options options = {
        .size = sizeof options, .argv = argv + 1, .observers = &list, .observers_n = 1};
    struct cofi_step_result result;
    struct cofi_error error = {0};
    if (argc < 2 || cofi_step_run(&options, &result, &error) < 0) {
        fprintf(stderr, "%s\n",
                argc < 2 ? "usage: step_observer COMMAND [ARGUMENT...]" : error.text);
        return 3;
    }
    for (uint32_t i = 0; i < result.tasks; i++)
        printf("%d: %" PRIu64 " instructions, %" PRIu64 " calls, %" PRIu64
               " visits to the kernel\n",
               (int)counts[i].tid, counts[i].insns, counts[i].calls, counts[i].kernel);
    return 0;
}
