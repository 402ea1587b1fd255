/* SPDX-License-Identifier: MIT
 * RDMSR and WRMSR -> RTIT's registers: presence, reserved bits, access, reset [RTIT 3.3]. */
#include "base/error.h"
#include "unit/rtit/rtit.h"

static const uint32_t numbers[RTIT_REGS] = {
#define RTIT_MSR(name, number, tag) [RTIT_##name] = number,
#define RTIT_FIELD(reg, name, lsb, width, access, reset, tag)
#include "unit/rtit/rtit.def"
};

/* Fields name their register by its index; so the table needs no MSR numbers twice. */
static const struct cofi__field fields[] = {
#define RTIT_MSR(name, number, tag)
#define RTIT_FIELD(reg, name, lsb, width, access, reset, tag) \
    {RTIT_##reg, #name, lsb, width, access, reset, tag},
#include "unit/rtit/rtit.def"
};

int cofi__rtit_find(uint32_t msr)
{
    for (int i = 0; i < RTIT_REGS; i++)
        if (numbers[i] == msr)
            return i;
    return COFI_ERR_NOT_FOUND;
}

void cofi__rtit_reset_regs(struct rtit *u)
{
    for (int i = 0; i < RTIT_REGS; i++)
        u->reg[i] = cofi__fields_reset(fields, ARRAY_LEN(fields), (uint32_t)i);
    u->tnt = u->reg[RTIT_TNT_BUFF];
    u->filter_en = u->overflow = false;
    u->unlocked = false;
}

static uint64_t read_reg(const struct rtit *u, enum rtit_reg reg)
{
    if (reg == RTIT_STATUS)
        return (uint64_t)u->filter_en | (uint64_t)u->context_en << 1 | (uint64_t)u->trigger_en << 2 |
               (uint64_t)u->overflow << 3;
    if (reg == RTIT_TNT_BUFF)
        return u->tnt;
    if (reg == RTIT_OFFSET)
        return u->lines.offset;
    return u->reg[reg];
}

int cofi__rtit_rdmsr(struct cofi_unit *unit, uint32_t msr, uint64_t *value)
{
    struct rtit *u = rtit_of(unit);
    int reg = cofi__rtit_find(msr);
    if (reg < 0)
        return reg;
    if (reg == RTIT_CTL)
        u->unlocked = true; /* [RTIT 3.3.1] */
    if (!u->unlocked)
        return COFI_ERR_GP;
    *value = read_reg(u, (enum rtit_reg)reg);
    return COFI_OK;
}

/* Registers that live elsewhere in the unit take their new value there. */
static void place(struct rtit *u, enum rtit_reg reg, uint64_t value)
{
    u->reg[reg] = value;
    if (reg == RTIT_STATUS) {
        u->filter_en = value & 1;
        u->overflow = value >> 3 & 1;
        u->overflow_target = UINT64_MAX;
        if (!u->overflow && !u->trigger_en) /* what it held is over too (docs/decisions/0220) */
            u->stop_pending = false;
    } else if (reg == RTIT_TNT_BUFF) {
        u->tnt = value;
    } else if (reg == RTIT_BASE_ADDR || reg == RTIT_LIMIT_MASK || reg == RTIT_OFFSET) {
        uint64_t offset = reg == RTIT_OFFSET ? value : u->lines.offset;
        int status = cofi__lines_region(&u->lines, u->reg[RTIT_BASE_ADDR], u->reg[RTIT_LIMIT_MASK], offset);
        if (status < 0 && u->buffer.status == 0)
            u->buffer.status = status;
    }
}

int cofi__rtit_check(const struct rtit *u, enum rtit_reg reg, uint64_t value, uint64_t *result)
{
    COFI_TRY(cofi__fields_write(fields, ARRAY_LEN(fields), reg, read_reg(u, reg), value, result));
    return reg == RTIT_TNT_BUFF && *result == 0 ? COFI_ERR_GP : COFI_OK; /* [RTIT 3.3.13] */
}

int cofi__rtit_store(struct rtit *u, enum rtit_reg reg, uint64_t value)
{
    uint64_t result;
    COFI_TRY(cofi__rtit_check(u, reg, value, &result));
    place(u, reg, result);
    cofi__rtit_update_enables(u);
    return COFI_OK;
}

int cofi__rtit_load(struct cofi_unit *unit, uint32_t msr, uint64_t value)
{
    struct rtit *u = rtit_of(unit);
    int reg = cofi__rtit_find(msr);
    if (reg < 0)
        return reg;
    u->unlocked = true;
    COFI_TRY(cofi__rtit_store(u, (enum rtit_reg)reg, value));
    u->attention = true;
    return COFI_OK;
}

int cofi__rtit_set_field(struct cofi_unit *unit, const char *name, uint64_t value)
{
    const struct cofi__field *field = cofi__field_find(fields, ARRAY_LEN(fields), name);
    if (!field)
        return COFI_ERR_NOT_FOUND;
    uint64_t mask = cofi__field_mask(field), old;
    if (value << field->lsb >> field->lsb != value || ((value << field->lsb) & ~mask) != 0)
        return COFI_ERR_RANGE;
    COFI_TRY(cofi__rtit_rdmsr(unit, numbers[RTIT_CTL], &old)); /* unlocks, as software would */
    COFI_TRY(cofi__rtit_rdmsr(unit, numbers[field->msr], &old));
    return cofi__rtit_wrmsr(unit, numbers[field->msr], (old & ~mask) | value << field->lsb);
}

int cofi__rtit_get_field(const struct cofi_unit *unit, const char *name, uint64_t *value)
{
    const struct cofi__field *field = cofi__field_find(fields, ARRAY_LEN(fields), name);
    if (!field)
        return COFI_ERR_NOT_FOUND;
    uint64_t reg = read_reg(rtit_of_const(unit), (enum rtit_reg)field->msr);
    *value = (reg & cofi__field_mask(field)) >> field->lsb;
    return COFI_OK;
}

int cofi__rtit_register_at(const struct cofi_unit *unit, size_t i, struct cofi_unit_register *reg)
{
    static const char *const names[RTIT_REGS] = {
#define RTIT_MSR(name, number, tag) [RTIT_##name] = "RTIT_" #name,
#define RTIT_FIELD(reg, name, lsb, width, access, reset, tag)
#include "unit/rtit/rtit.def"
    };
    if (i >= RTIT_REGS)
        return COFI_ERR_NOT_FOUND;
    *reg = (struct cofi_unit_register){names[i], numbers[i], read_reg(rtit_of_const(unit), (enum rtit_reg)i)};
    return COFI_OK;
}

int cofi__rtit_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field)
{
    (void)unit;
    if (i >= ARRAY_LEN(fields))
        return -1;
    *field = (struct cofi_unit_field){fields[i].name, numbers[fields[i].msr], fields[i].lsb, fields[i].width};
    return 1;
}
