/* SPDX-License-Identifier: MIT
 * The public unit functions -> those of the unit's generation. */
#include "unit/unit.h"

int cofi_unit_open(struct cofi_unit **unit, const struct cofi_unit_config *config)
{
    return (config->gen == COFI_RTIT ? &cofi__rtit_ops : &cofi__pt_ops)->open(unit, config);
}

void cofi_unit_close(struct cofi_unit *unit)
{
    if (unit)
        unit->ops->close(unit);
}

void cofi_unit_reset(struct cofi_unit *unit, enum cofi_reset kind) { unit->ops->reset(unit, kind); }

int cofi_unit_rdmsr(struct cofi_unit *unit, uint32_t msr, uint64_t *value)
{
    return unit->ops->rdmsr(unit, msr, value);
}

int cofi_unit_wrmsr(struct cofi_unit *unit, uint32_t msr, uint64_t value)
{
    return unit->ops->wrmsr(unit, msr, value);
}

int cofi_unit_cpuid(const struct cofi_unit *unit, uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
    return unit->ops->cpuid(unit, leaf, subleaf, regs);
}

int cofi_unit_set_field(struct cofi_unit *unit, const char *field, uint64_t value)
{
    return unit->ops->set_field(unit, field, value);
}

void cofi_unit_context(struct cofi_unit *unit, const struct cofi_context *context, uint64_t ip)
{
    unit->ops->context(unit, context, ip);
}

int cofi_unit_event(struct cofi_unit *unit, const struct cofi_event *event)
{
    return unit->ops->event(unit, event);
}

int cofi_unit_tnt(struct cofi_unit *unit, uint64_t bits, unsigned n) { return unit->ops->tnt(unit, bits, n); }
int cofi_unit_tip(struct cofi_unit *unit, uint64_t target) { return unit->ops->tip(unit, target); }
void cofi_unit_drain(struct cofi_unit *unit) { unit->ops->drain(unit); }
uint64_t cofi_unit_bytes(const struct cofi_unit *unit) { return unit->ops->bytes(unit); }

int cofi_unit_load_msr(struct cofi_unit *unit, uint32_t msr, uint64_t value)
{
    return unit->ops->load ? unit->ops->load(unit, msr, value) : COFI_ERR_UNSUPPORTED;
}

unsigned cofi_unit_wants(const struct cofi_unit *unit) { return unit->ops->wants ? unit->ops->wants(unit) : 0; }

int cofi_unit_get_field(const struct cofi_unit *unit, const char *field, uint64_t *value)
{
    return unit->ops->get_field ? unit->ops->get_field(unit, field, value) : COFI_ERR_NOT_FOUND;
}

int cofi_unit_register_at(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg)
{
    return unit->ops->register_at ? unit->ops->register_at(unit, i, reg) : COFI_ERR_NOT_FOUND;
}

int cofi_unit_xsaves(struct cofi_unit *unit, uint8_t image[COFI_XSAVE_BYTES])
{
    return unit->ops->xsaves ? unit->ops->xsaves(unit, image) : COFI_ERR_UNSUPPORTED;
}

int cofi_unit_xrstors(struct cofi_unit *unit, const uint8_t *image)
{
    return unit->ops->xrstors ? unit->ops->xrstors(unit, image) : COFI_ERR_UNSUPPORTED;
}

int cofi_unit_capability(const struct cofi_unit *unit, unsigned i, const char **name)
{
    return unit->ops->capability ? unit->ops->capability(unit, i, name) : -1;
}

int cofi_unit_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field)
{
    return unit->ops->field ? unit->ops->field(unit, i, field) : -1;
}
