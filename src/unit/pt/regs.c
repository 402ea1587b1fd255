/* SPDX-License-Identifier: MIT
 * RDMSR and WRMSR of the PT registers, with every #GP the manual names; fields by name.
 * [SDM Enabling and Configuration MSRs, PTREF 2] */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "unit/pt/pt.h"

enum kind { ANY, MTC_MAP, CYC_MAP, PSB_MAP, CFG, RO, BASE, CANON, TRIGGERS };

struct field_row {
    uint8_t msr; /* enum cofi__pt_msr */
    uint8_t lsb, width, need, kind;
    const char *name;
};

struct msr_row {
    uint32_t address;
    uint8_t need;
};

static const struct field_row fields[] = {
#define FIELD(msr, NAME, name, lsb, width, need, kind)                                             \
    {PT_MSR_##msr, lsb, width, PT_NEED_##need, kind, name},
#include "unit/pt/regs.def"
};

static const struct msr_row msrs[PT_MSRS] = {
#define MSR(name, address, need) {address, PT_NEED_##need},
#include "unit/pt/regs.def"
};

/* The register's address; 0: it has a name only. */
static uint32_t address_of(const struct cofi__pt *pt, int msr)
{
    if (msr >= PT_MSR_TRIGGER0_CFG && pt->config.trigger_msrs)
        return pt->config.trigger_msrs + (uint32_t)(msr - PT_MSR_TRIGGER0_CFG);
    return msrs[msr].address;
}

/* The register at that address, or -1: not one of PT's. */
static int find_msr(const struct cofi__pt *pt, uint32_t address)
{
    for (int i = 0; i < PT_MSRS; i++)
        if (address && address_of(pt, i) == address)
            return i;
    return -1;
}

static uint64_t mask(const struct field_row *row)
{
    return bits(UINT64_MAX, 0, row->width) << row->lsb;
}

static bool in_map(uint32_t map, uint64_t encoding)
{
    return encoding == 0 || map >> encoding & 1; /* encoding 0 is always legal [PTREF 1.3] */
}

static bool canonical(uint64_t address) { return sext(address, 47) == address; }

static bool triggers_legal(const struct cofi__pt_caps *caps, uint64_t value)
{
    for (; value; value >>= 16)
        if (!cofi__pt_caps_trigger(caps, (uint16_t)value))
            return false;
    return true;
}

static bool legal(const struct cofi__pt_caps *caps, const struct field_row *row, uint64_t value)
{
    switch ((enum kind)row->kind) {
    case ANY:
    case RO: return true;
    case MTC_MAP: return in_map(caps->leaf14_1_eax >> 16, value);
    case CYC_MAP: return in_map(caps->leaf14_1_ebx & 0xffff, value);
    case PSB_MAP: return in_map(caps->leaf14_1_ebx >> 16, value);
    case CFG: return value <= 2;
    case BASE: return (value << row->lsb) >> caps->maxphyaddr == 0;
    case CANON: return canonical(value);
    case TRIGGERS: return triggers_legal(caps, value);
    }
    return false;
}

/* Reserved bits and encodings; read-only fields keep their old bits. */
static int check(const struct cofi__pt *pt, int msr, uint64_t value, uint64_t *result)
{
    uint64_t known = 0, kept = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const struct field_row *row = &fields[i];
        if (row->msr != msr || !cofi__pt_caps_has(pt->caps, row->need))
            continue;
        known |= mask(row);
        if (row->kind == RO)
            kept |= mask(row);
        if (!legal(pt->caps, row, bits(value, row->lsb, row->width)))
            return COFI_ERR_GP;
    }
    if (value & ~known)
        return COFI_ERR_GP;
    *result = (value & ~kept) | (pt->msr[msr] & kept);
    return 0;
}

/* What TraceEn=1 asks of the other bits [PTREF 2.1]. Parts without MTC cannot be without COFI
 * packets [PTREF 1.2], which is Broadwell's [ERR BDM106]. */
static bool may_enable(const struct cofi__pt *pt, uint64_t ctl)
{
    bool single = !(ctl & PT_BIT(CTL_TOPA)) && !(ctl & PT_BIT(CTL_FABRIC_EN));
    if (single && !cofi__pt_caps_has(pt->caps, PT_NEED_SINGLE_RANGE) && pt->config.memory.write)
        return false;
    if (!(ctl & PT_BIT(CTL_BRANCH_EN)) &&
        (!cofi__pt_caps_has(pt->caps, PT_NEED_MTC) || pt->config.errata & COFI_ERRATUM_BDM106))
        return false;
    return pt->caps->vmx || pt->context.vmx == 0; /* [PTREF 1.4] */
}

/* Would the lists of a VM transition, or RSM, be let write value? */
bool cofi__pt_ctl_legal(const struct cofi__pt *pt, uint64_t value)
{
    uint64_t result;
    return check(pt, PT_MSR_CTL, value, &result) == 0 &&
           (!(value & PT_BIT(CTL_TRACE_EN)) || may_enable(pt, value));
}

/* CTL is value from now on; the instruction that writes it is at clip, the next at nlip. */
void cofi__pt_ctl_load(struct cofi__pt *pt, uint64_t value, uint64_t clip, uint64_t nlip)
{
    bool was = cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN), on = value & PT_BIT(CTL_TRACE_EN);
    pt->msr[PT_MSR_CTL] = value;
    cofi__pt_clock_load(pt);
    if (!was && on)
        cofi__pt_enable(pt, clip, nlip);
}

static int write_ctl(struct cofi__pt *pt, uint64_t value, uint64_t clip, uint64_t nlip)
{
    bool was = cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN), on = value & PT_BIT(CTL_TRACE_EN);
    if (was && on && value != cofi__pt_ctl(pt)) /* [PTREF 2]: the universal write rule */
        return COFI_ERR_GP;
    if (on && !may_enable(pt, value))
        return COFI_ERR_GP;
    if (was && on)
        return 0;
    if (was)
        cofi__pt_disable(pt, clip, true);
    cofi__pt_ctl_load(pt, value, clip, nlip);
    return 0;
}

static int write_msr(struct cofi__pt *pt, int msr, uint64_t value, uint64_t clip, uint64_t nlip)
{
    uint64_t result;
    if (!cofi__pt_caps_has(pt->caps, msrs[msr].need))
        return COFI_ERR_GP;
    COFI_TRY(check(pt, msr, value, &result));
    if (msr == PT_MSR_CTL)
        return write_ctl(pt, result, clip, nlip);
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        return COFI_ERR_GP;
    pt->msr[msr] = result;
    return 0;
}

/* A WRMSR at clip whose next instruction is at nlip. */
int cofi__pt_wrmsr_at(struct cofi__pt *pt, uint32_t address, uint64_t value, uint64_t clip,
                      uint64_t nlip)
{
    int msr = find_msr(pt, address);
    return msr < 0 ? COFI_ERR_NOT_FOUND : write_msr(pt, msr, value, clip, nlip);
}

/* STATUS as of now: the enables, and while TraceEn is 1 the bytes since the last PSB
 * [SDM IA32_RTIT_STATUS MSR]. */
static uint64_t status(const struct cofi__pt *pt)
{
    uint64_t value = pt->msr[PT_MSR_STATUS];
    uint64_t most = bits(UINT64_MAX, 0, PT_STATUS_PACKET_BYTE_CNT_WIDTH);
    value |= pt->filter_en ? PT_BIT(STATUS_FILTER_EN) : 0;
    value |= pt->context_en ? PT_BIT(STATUS_CONTEXT_EN) : 0;
    value |= pt->trigger_en ? PT_BIT(STATUS_TRIGGER_EN) : 0;
    if (pt->trigger_en && cofi__pt_caps_has(pt->caps, PT_NEED_PSB_CYC)) {
        value &= ~(most << PT_STATUS_PACKET_BYTE_CNT_LSB);
        value |= (pt->psb_bytes < most ? pt->psb_bytes : most) << PT_STATUS_PACKET_BYTE_CNT_LSB;
    }
    return value;
}

static int read_msr(const struct cofi__pt *pt, int msr, uint64_t *value)
{
    bool live = cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN) && pt->out.mode != PT_OUTPUT_SINK;
    if (!cofi__pt_caps_has(pt->caps, msrs[msr].need))
        return COFI_ERR_GP;
    *value = pt->msr[msr];
    if (msr == PT_MSR_STATUS)
        *value = status(pt);
    else if (msr == PT_MSR_OUTPUT_BASE && live)
        *value = cofi__pt_output_base(&pt->out);
    else if (msr == PT_MSR_OUTPUT_MASK_PTRS && live)
        *value = cofi__pt_output_mask_ptrs(&pt->out);
    return 0;
}

int cofi__pt_rdmsr(struct cofi_unit *unit, uint32_t address, uint64_t *value)
{
    const struct cofi__pt *pt = cofi__pt_of(unit);
    int msr = find_msr(pt, address);
    return msr < 0 ? COFI_ERR_NOT_FOUND : read_msr(pt, msr, value);
}

static int find_field(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!strcmp(fields[i].name, name))
            return (int)i;
    return -1;
}

int cofi__pt_set_field(struct cofi_unit *unit, const char *name, uint64_t value)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    int i = find_field(name);
    uint64_t old;
    if (i < 0)
        return COFI_ERR_NOT_FOUND;
    const struct field_row *row = &fields[i];
    if (row->width < 64 && value >> row->width)
        return COFI_ERR_RANGE;
    COFI_TRY(read_msr(pt, row->msr, &old));
    return cofi__pt_refused(pt, write_msr(pt, row->msr, (old & ~mask(row)) | value << row->lsb, pt->ip, pt->ip));
}

int cofi__pt_get_field(const struct cofi_unit *unit, const char *name, uint64_t *value)
{
    int i = find_field(name);
    uint64_t reg;
    if (i < 0)
        return COFI_ERR_NOT_FOUND;
    COFI_TRY(read_msr((const struct cofi__pt *)unit, fields[i].msr, &reg));
    *value = bits(reg, fields[i].lsb, fields[i].width);
    return COFI_OK;
}

/* Cold reset [PTREF 2]: all clear, but the low bits of MASK_PTRS, which read as ones. */
void cofi__pt_registers_clear(struct cofi__pt *pt)
{
    memset(pt->msr, 0, sizeof pt->msr);
    pt->msr[PT_MSR_OUTPUT_MASK_PTRS] = 0x7f;
}

int cofi__pt_field(const struct cofi_unit *unit, unsigned i, struct cofi_unit_field *field)
{
    const struct cofi__pt *pt = (const struct cofi__pt *)unit;
    if (i >= ARRAY_LEN(fields))
        return -1;
    *field = (struct cofi_unit_field){.name = fields[i].name, .msr = address_of(pt, fields[i].msr),
                                      .lsb = fields[i].lsb, .width = fields[i].width};
    return cofi__pt_caps_has(pt->caps, fields[i].need) &&
           cofi__pt_caps_has(pt->caps, msrs[fields[i].msr].need);
}

/* The order of state component 8 [PTREF 2.7]. */
static const uint8_t image_order[] = {
    PT_MSR_CTL, PT_MSR_OUTPUT_BASE, PT_MSR_OUTPUT_MASK_PTRS, PT_MSR_STATUS, PT_MSR_CR3_MATCH,
    PT_MSR_ADDR0_A, PT_MSR_ADDR0_B, PT_MSR_ADDR1_A, PT_MSR_ADDR1_B,
};

/* CTL first, then TraceEn is cleared, then the rest. */
int cofi__pt_xsaves(struct cofi_unit *unit, uint8_t *image)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    memset(image, 0, COFI_XSAVE_BYTES);
    put_le(image, cofi__pt_ctl(pt), 8);
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        cofi__pt_disable(pt, pt->ip, true);
    for (size_t i = 1; i < ARRAY_LEN(image_order); i++)
        put_le(image + 8 * i,
               image_order[i] == PT_MSR_STATUS ? status(pt) : pt->msr[image_order[i]], 8);
    return cofi__pt_refused(pt, 0);
}

/* All is checked before anything changes; CTL comes last, for it may enable. Registers that the
 * part does not have must be 0. */
int cofi__pt_xrstors(struct cofi_unit *unit, const uint8_t *image)
{
    struct cofi__pt *pt = cofi__pt_of(unit);
    uint64_t values[ARRAY_LEN(image_order)] = {0};
    if (cofi__pt_ctl(pt) & PT_BIT(CTL_TRACE_EN))
        return COFI_ERR_GP;
    for (size_t i = 0; i < ARRAY_LEN(image_order); i++) {
        uint64_t value = image ? le64(image + 8 * i) : 0;
        if (cofi__pt_caps_has(pt->caps, msrs[image_order[i]].need)) {
            COFI_TRY(check(pt, image_order[i], value, &values[i]));
        } else if (value) {
            return COFI_ERR_GP;
        }
    }
    if (values[0] & PT_BIT(CTL_TRACE_EN) && !may_enable(pt, values[0]))
        return COFI_ERR_GP;
    for (size_t i = 1; i < ARRAY_LEN(image_order); i++)
        pt->msr[image_order[i]] = values[i];
    cofi__pt_ctl_load(pt, values[0], pt->ip, pt->ip);
    return cofi__pt_refused(pt, 0);
}
