/* SPDX-License-Identifier: MIT
 * See changes.h. */
#include "host/changes.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"

struct cofi__change {
    uint64_t ns;
    int32_t pid;
};

int cofi__changes_note(struct cofi__changes *changes, const struct cofi_sideband *sb)
{
    bool is_change = sb->kind == COFI_SB_MMAP || sb->kind == COFI_SB_CODE || (sb->kind == COFI_SB_COMM && sb->exec);
    if (!is_change)
        return 0;
    COFI_TRY(cofi__array_grow(&changes->rows, &changes->room, changes->n, sizeof *changes->rows));
    changes->rows[changes->n++] = (struct cofi__change){sb->time_ns, sb->pid};
    return 0;
}

bool cofi__changes_until(const struct cofi__changes *changes, size_t *at, int32_t pid, uint64_t ns)
{
    bool any = false;
    for (; *at < changes->n && changes->rows[*at].ns <= ns; ++*at)
        any |= changes->rows[*at].pid == pid;
    return any;
}

void cofi__changes_fini(struct cofi__changes *changes)
{
    free(changes->rows);
    *changes = (struct cofi__changes){0};
}
