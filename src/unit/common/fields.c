/* SPDX-License-Identifier: MIT
 * Registers as tables of fields: reset values, reserved bits, access and names, one row a field. */
#include "unit/common/fields.h"

#include <string.h>

#include <cofi/error.h>

const struct cofi__field *cofi__field_find(const struct cofi__field *table, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(table[i].name, name))
            return &table[i];
    return NULL;
}

uint64_t cofi__fields_reset(const struct cofi__field *table, size_t n, uint32_t msr)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        if (table[i].msr == msr)
            value |= table[i].reset << table[i].lsb;
    return value;
}

int cofi__fields_write(const struct cofi__field *table, size_t n, uint32_t msr, uint64_t old,
                       uint64_t value, uint64_t *result)
{
    uint64_t writable = 0, known = 0, ones = 0;
    for (size_t i = 0; i < n; i++) {
        if (table[i].msr != msr)
            continue;
        uint64_t mask = cofi__field_mask(&table[i]);
        known |= mask;
        if (table[i].access == COFI__RW)
            writable |= mask;
        else if (table[i].access == COFI__ONES)
            ones |= mask;
    }
    if ((value & ~known) != 0 || (value & ones) != ones)
        return COFI_ERR_GP;
    *result = (old & ~writable) | (value & writable);
    return COFI_OK;
}
