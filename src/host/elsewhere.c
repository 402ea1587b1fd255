/* SPDX-License-Identifier: MIT
 * The hosts where the processor is no x86: nothing runs there that they record (decision 0816). */
#include <cofi/fast.h>
#include <cofi/host.h>

#include "base/error.h"
#include "base/sized.h"
#include "host/target.h"

static int refuse(struct cofi_error *error)
{
    return cofi__fail(error, COFI_ERR_UNSUPPORTED, COFI_NOWHERE,
                      "this processor is no x86-64: record there, or a whole machine in QEMU (docs/qemu.md); recordings are decoded here");
}

int cofi_fast_probe(struct cofi_error *error) { return refuse(error); }

void cofi_fast_time_info(struct cofi_time_info *time) { *time = (struct cofi_time_info){0}; }

int cofi_fast_record(const struct cofi_fast_options *given, struct cofi_fast_result *result, struct cofi_error *error)
{
    struct cofi_fast_options options;
    *result = (struct cofi_fast_result){0};
    COFI_TRY(cofi__sized(&options, sizeof options, given, offsetof(struct cofi_fast_options, path), error));
    COFI_TRY(cofi__target_check(options.argv, options.pid, error));
    return refuse(error);
}

void cofi_fast_wait(struct cofi_fast_result *result, const volatile int *stop) { (void)result, (void)stop; }

void cofi_step_time_info(const struct cofi_step_options *options, struct cofi_time_info *time)
{
    (void)options;
    *time = (struct cofi_time_info){0};
}

int cofi_step_run(const struct cofi_step_options *given, struct cofi_step_result *result, struct cofi_error *error)
{
    struct cofi_step_options options;
    *result = (struct cofi_step_result){0};
    COFI_TRY(cofi__sized(&options, sizeof options, given, offsetof(struct cofi_step_options, no_follow), error));
    COFI_TRY(cofi__target_check(options.argv, options.pid, error));
    return refuse(error);
}

void cofi_step_wait(struct cofi_step_result *result, const volatile int *stop) { (void)result, (void)stop; }
