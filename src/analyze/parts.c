/* SPDX-License-Identifier: MIT
 * Functions that may lie in each other -> parts that do not: the inner one has what is in both. */
#include <stdlib.h>

#include "analyze/coverage.h"

#include "base/array.h"
#include "base/error.h"

struct sweep {
    const struct known_function *functions;
    size_t functions_n;
    struct part *parts;
    size_t n, room;
    int32_t *open;  /* functions that hold the place, the innermost last */
    size_t open_n;
    uint64_t at;
};

/* One without a size reaches to the next. */
static uint64_t end_of(const struct sweep *sweep, size_t i)
{
    const struct known_function *f = &sweep->functions[i];
    if (f->size)
        return f->size > UINT64_MAX - f->addr ? UINT64_MAX : f->addr + f->size;
    return i + 1 < sweep->functions_n ? f[1].addr : UINT64_MAX;
}

static int add(struct sweep *sweep, uint64_t end, int32_t function)
{
    if (sweep->at >= end)
        return 0;
    COFI_TRY(cofi__array_grow(&sweep->parts, &sweep->room, sweep->n, sizeof *sweep->parts));
    sweep->parts[sweep->n++] = (struct part){sweep->at, end, function};
    sweep->at = end;
    return 0;
}

/* Go on to an address. */
static int sweep_to(struct sweep *sweep, uint64_t to)
{
    while (sweep->open_n && sweep->at < to) {
        int32_t top = sweep->open[sweep->open_n - 1];
        uint64_t end = end_of(sweep, (size_t)top);
        COFI_TRY(add(sweep, end < to ? end : to, top));
        if (end <= to)
            sweep->open_n--;
    }
    sweep->at = to;
    return 0;
}

int64_t cofi__coverage_parts(const struct known_function *functions, size_t n, struct part **parts)
{
    struct sweep sweep = {.functions = functions, .functions_n = n};
    sweep.open = calloc(n + 1, sizeof *sweep.open);
    int status = sweep.open ? 0 : COFI_ERR_NOMEM;
    for (size_t i = 0; i < n && status >= 0; i++) {
        status = sweep_to(&sweep, functions[i].addr);
        sweep.open[sweep.open_n++] = (int32_t)i;
    }
    if (status >= 0)
        status = sweep_to(&sweep, UINT64_MAX);
    free(sweep.open);
    if (status < 0) {
        free(sweep.parts);
        return status;
    }
    *parts = sweep.parts;
    return (int64_t)sweep.n;
}
