/* SPDX-License-Identifier: MIT
 * Registers as tables of fields: reset values, reserved bits, access and names, one row a field. */
#ifndef COFI_UNIT_COMMON_FIELDS_H
#define COFI_UNIT_COMMON_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/* What a write does to a field. Bits that no field covers are reserved as 0. */
enum cofi__access {
    COFI__RW,      /* takes the written bits */
    COFI__RO,      /* keeps its bits, whatever is written; no fault */
    COFI__ONES,    /* reserved as ones: a 0 faults */
};

struct cofi__field {
    uint32_t msr;
    const char *name;
    uint8_t lsb, width;
    uint8_t access;   /* enum cofi__access */
    uint64_t reset;   /* of the field, not shifted */
    const char *tag;  /* where the manual describes it */
};

static inline uint64_t cofi__field_mask(const struct cofi__field *field)
{
    return (field->width < 64 ? (UINT64_C(1) << field->width) - 1 : UINT64_MAX) << field->lsb;
}

/* The row of a name, null if there is none. */
const struct cofi__field *cofi__field_find(const struct cofi__field *table, size_t n, const char *name);
/* The register's reset value. */
uint64_t cofi__fields_reset(const struct cofi__field *table, size_t n, uint32_t msr);
/* What the register holds after a write of value over old: 0 and *result, or COFI_ERR_GP when the write
 * would change a reserved bit. */
int cofi__fields_write(const struct cofi__field *table, size_t n, uint32_t msr, uint64_t old,
                       uint64_t value, uint64_t *result);

#endif
