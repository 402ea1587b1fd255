/* SPDX-License-Identifier: MIT
 * Arrays that grow. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int cofi__array_double(void *array, size_t *room, size_t size)
{
    void *rows;
    size_t larger = *room ? *room * 2 : 64;
    memcpy(&rows, array, sizeof rows);
    rows = realloc(rows, larger * size);
    if (!rows)
        return COFI_ERR_NOMEM;
    memcpy(array, &rows, sizeof rows);
    *room = larger;
    return 0;
}
