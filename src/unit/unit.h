/* SPDX-License-Identifier: MIT
 * What a generation's unit implements. include/cofi/unit.h says what each does. */
#ifndef COFI_UNIT_UNIT_H
#define COFI_UNIT_UNIT_H

#include <cofi/unit.h>

struct cofi__unit_ops {
    int (*open)(struct cofi_unit **unit, const struct cofi_unit_config *config);
    void (*close)(struct cofi_unit *unit);
    void (*reset)(struct cofi_unit *unit, enum cofi_reset kind);
    int (*rdmsr)(struct cofi_unit *unit, uint32_t msr, uint64_t *value);
    int (*wrmsr)(struct cofi_unit *unit, uint32_t msr, uint64_t value);
    int (*cpuid)(const struct cofi_unit *unit, uint32_t leaf, uint32_t subleaf, uint32_t regs[4]);
    int (*set_field)(struct cofi_unit *unit, const char *field, uint64_t value);
    void (*context)(struct cofi_unit *unit, const struct cofi_context *context, uint64_t ip);
    int (*event)(struct cofi_unit *unit, const struct cofi_event *event);
    int (*tnt)(struct cofi_unit *unit, uint64_t bits, unsigned n);
    int (*tip)(struct cofi_unit *unit, uint64_t target);
    void (*drain)(struct cofi_unit *unit);
    uint64_t (*bytes)(const struct cofi_unit *unit);
    int (*load)(struct cofi_unit *unit, uint32_t msr, uint64_t value); /* null: not supported */
    int (*get_field)(const struct cofi_unit *unit, const char *field, uint64_t *value);
    int (*register_at)(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg);
    unsigned (*wants)(const struct cofi_unit *unit);                   /* null: nothing */
    int (*xsaves)(struct cofi_unit *unit, uint8_t *image);             /* null: not supported */
    int (*xrstors)(struct cofi_unit *unit, const uint8_t *image);
    int (*capability)(const struct cofi_unit *unit, unsigned i, const char **name); /* null: none */
    int (*field)(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field);
    void (*tsc)(struct cofi_unit *unit, uint64_t multiplier, uint64_t offset);      /* null: no such thing */
};

/* First member of every unit. */
struct cofi_unit {
    const struct cofi__unit_ops *ops;
};

extern const struct cofi__unit_ops cofi__rtit_ops, cofi__pt_ops;

#endif
