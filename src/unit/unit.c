/* SPDX-License-Identifier: MIT
 * The public unit functions -> those of the unit's generation. */
#include "unit/unit.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/sized.h"
#include "output/lines.h"
#include "x86/errata.h"

int cofi_unit_open(struct cofi_unit **unit, const struct cofi_unit_config *config)
{
    struct cofi_unit_config known;
    COFI_TRY(cofi__sized(&known, sizeof known, config, offsetof(struct cofi_unit_config, sink), NULL));
    if ((known.gen != COFI_PT && known.gen != COFI_RTIT) || known.weak_lines > COFI__WEAK_MAX)
        return COFI_ERR_RANGE;
    return (known.gen == COFI_RTIT ? &cofi__rtit_ops : &cofi__pt_ops)->open(unit, &known);
}

int cofi_unit_erratum(enum cofi_gen gen, const char *name, uint64_t *bit)
{
    static const char *const names[] = {"e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "", "", "", "", "", "", "", "",
                                        "bdm70", "bdm64", "skd007", "skd022", "skd010", "skl014", "apl12", "apl11",
                                        "skl168", "skz84", "bdm106", "goldmont"}; /* in order of their bits */
    size_t first = gen == COFI_RTIT ? 0 : 16, end = gen == COFI_RTIT ? 8 : ARRAY_LEN(names);
    for (size_t i = first; i < end; i++)
        if (!strcmp(names[i], name)) {
            *bit = UINT64_C(1) << i;
            return 0;
        }
    return COFI_ERR_NOT_FOUND;
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

void cofi_unit_tsc(struct cofi_unit *unit, uint64_t multiplier, uint64_t offset)
{
    if (unit->ops->tsc)
        unit->ops->tsc(unit, multiplier, offset);
}

unsigned cofi_unit_wants(const struct cofi_unit *unit) { return unit->ops->wants ? unit->ops->wants(unit) : 0; }

int cofi_unit_get_field(const struct cofi_unit *unit, const char *field, uint64_t *value)
{
    return unit->ops->get_field(unit, field, value);
}

/* A register without a fixed address goes by its field. */
static const char *register_name(const struct cofi_unit *unit, uint32_t msr)
{
    struct cofi_unit_field field;
    static const struct { uint32_t msr; const char *name; } names[] = {
        {0x560, "IA32_RTIT_OUTPUT_BASE"}, {0x561, "IA32_RTIT_OUTPUT_MASK_PTRS"}, {0x570, "IA32_RTIT_CTL"},
        {0x571, "IA32_RTIT_STATUS"}, {0x572, "IA32_RTIT_CR3_MATCH"}, {0x580, "IA32_RTIT_ADDR0_A"},
        {0x581, "IA32_RTIT_ADDR0_B"}, {0x582, "IA32_RTIT_ADDR1_A"}, {0x583, "IA32_RTIT_ADDR1_B"},
        {0x584, "IA32_RTIT_ADDR2_A"}, {0x585, "IA32_RTIT_ADDR2_B"}, {0x586, "IA32_RTIT_ADDR3_A"},
        {0x587, "IA32_RTIT_ADDR3_B"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].msr == msr)
            return names[i].name;
    for (unsigned i = 0; unit->ops->field(unit, i, &field) >= 0; i++)
        if (field.msr == msr)
            return field.name;
    return "?";
}

/* The smallest register number above `after` (-1 at first) among the fields that the unit has. */
static int64_t next_register(const struct cofi_unit *unit, int64_t after)
{
    struct cofi_unit_field field;
    int64_t best = -1;
    int has;
    for (unsigned i = 0; unit->ops->field && (has = unit->ops->field(unit, i, &field)) >= 0; i++)
        if (has > 0 && field.msr && field.msr > after && (best < 0 || field.msr < best))
            best = field.msr;
    return best;
}

int cofi_unit_register_at(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg)
{
    int64_t msr = -1;
    if (unit->ops->register_at)
        return unit->ops->register_at(unit, i, reg);
    for (size_t k = 0; k <= i; k++)
        if ((msr = next_register(unit, msr)) < 0)
            return COFI_ERR_NOT_FOUND;
    *reg = (struct cofi_unit_register){.name = register_name(unit, (uint32_t)msr), .msr = (uint32_t)msr};
    return unit->ops->rdmsr((struct cofi_unit *)(uintptr_t)unit, reg->msr, &reg->value);
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

/* The same errata by the unit's numbers. */
uint64_t cofi_unit_errata(enum cofi_gen gen, uint32_t family, uint32_t model)
{
    static const struct { uint64_t cpu, unit; } rows[] = {
        {ERR_BDM70, COFI_ERRATUM_BDM70}, {ERR_BDM64, COFI_ERRATUM_BDM64}, {ERR_SKD007, COFI_ERRATUM_SKD007},
        {ERR_SKD022, COFI_ERRATUM_SKD022}, {ERR_SKD010, COFI_ERRATUM_SKD010}, {ERR_SKL014, COFI_ERRATUM_SKL014},
        {ERR_APL12, COFI_ERRATUM_APL12}, {ERR_APL11, COFI_ERRATUM_APL11}, {ERR_SKL168, COFI_ERRATUM_SKL168},
        {ERR_SKZ84, COFI_ERRATUM_SKZ84},
        {ERR_RTIT, COFI_ERRATUM_RTIT_E1 | COFI_ERRATUM_RTIT_E2 | COFI_ERRATUM_RTIT_E3 | COFI_ERRATUM_RTIT_E4 |
                       COFI_ERRATUM_RTIT_E5 | COFI_ERRATUM_RTIT_E6 | COFI_ERRATUM_RTIT_E7 | COFI_ERRATUM_RTIT_E8}};
    uint64_t cpu = cofi__cpu_errata(gen, family, model), unit = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        unit |= cpu & rows[i].cpu ? rows[i].unit : 0;
    return unit;
}
