/* SPDX-License-Identifier: MIT
 * A recording -> its threads' numbers, one a line, in the order in which they were made: by its FORK records, as numbers do not tell it,
 * which begin anew behind the largest. Who has none was there at the beginning. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include <cofi/error.h>
#include <cofi/trace.h>

static bool was_made(const struct cofi_recording *recording, int32_t tid)
{
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_FORK && !sb->machine && sb->tid == tid)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    const struct cofi_sideband *sb;
    if (argc != 2 || cofi_recording_open(&recording, argv[1], &error) < 0) {
        fprintf(stderr, "thread-order: %s\n", argc == 2 ? error.text : "usage: thread-order RECORDING");
        return 1;
    }
    for (size_t i = 0; i < cofi_recording_streams(recording); i++) {
        int32_t tid = cofi_recording_stream(recording, i)->tid;
        if (!was_made(recording, tid))
            printf("%" PRId32 "\n", tid);
    }
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++) /* by time */
        if (sb->kind == COFI_SB_FORK && !sb->machine)
            printf("%" PRId32 "\n", sb->tid);
    cofi_recording_close(recording);
    return 0;
}
