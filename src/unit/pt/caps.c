/* SPDX-License-Identifier: MIT
 * A preset's name -> its capabilities -> CPUID leaves and what each register field needs. */
#include "unit/pt/caps.h"

#include <string.h>

#include <cofi/unit.h>

#include "base/error.h"

static const struct cofi__pt_caps models[] = {
#define MODEL(id, text_, family_, model_, ebx, ecx, eax1, ebx1, ecx1, den, num, hz, maxphy, ratio_, \
              vmx_)                                                                                \
    {.name = #id,                                                                                  \
     .text = text_,                                                                                \
     .family = family_,                                                                            \
     .model = model_,                                                                              \
     .leaf14_ebx = ebx,                                                                            \
     .leaf14_ecx = ecx,                                                                            \
     .leaf14_1_eax = eax1,                                                                         \
     .leaf14_1_ebx = ebx1,                                                                         \
     .leaf14_1_ecx = ecx1,                                                                         \
     .art_den = den,                                                                               \
     .art_num = num,                                                                               \
     .art_hz = hz,                                                                                 \
     .maxphyaddr = maxphy,                                                                         \
     .ratio = ratio_,                                                                              \
     .vmx = vmx_},
#include "unit/pt/models.def"
};

struct need_row {
    bool ecx;
    uint8_t bit;
    const char *text;
};

enum { EBX = 0, ECX = 1 };

static const struct need_row needs[] = {
#define NEED(NAME, reg, bit_, text_) [PT_NEED_##NAME] = {.ecx = reg, .bit = bit_, .text = text_},
#include "unit/pt/needs.def"
};

const struct cofi__pt_caps *cofi__pt_caps_at(unsigned i)
{
    return i < ARRAY_LEN(models) ? &models[i] : NULL;
}

const struct cofi__pt_caps *cofi__pt_caps_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (!strcmp(models[i].name, name ? name : "all"))
            return &models[i];
    return NULL;
}

/* All bits of leaf 14H that any need names. */
static uint32_t known_bits(bool ecx)
{
    uint32_t known = 0;
    for (size_t i = 1; i < ARRAY_LEN(needs); i++)
        if (needs[i].ecx == ecx)
            known |= UINT32_C(1) << needs[i].bit;
    return known;
}

bool cofi__pt_caps_of_cpu(const struct cofi_unit_cpu *cpu, struct cofi__pt_caps *caps)
{
    *caps = (struct cofi__pt_caps){
        .name = "own", .text = "the host's own", .maxphyaddr = cpu->maxphyaddr, .ratio = cpu->ratio, .vmx = cpu->vmx,
        .leaf14_ebx = cpu->leaf14_ebx & known_bits(false), .leaf14_ecx = cpu->leaf14_ecx & known_bits(true),
        .leaf14_1_eax = cpu->leaf14_1_eax & 0xffff0707, .leaf14_1_ebx = cpu->leaf14_1_ebx,
        .leaf14_1_ecx = cpu->leaf14_1_ecx & 0x00008003,
        .art_den = cpu->leaf15_eax, .art_num = cpu->leaf15_eax ? cpu->leaf15_ebx : 0, .art_hz = cpu->leaf15_ecx,
    };
    return cpu->maxphyaddr >= 32 && cpu->maxphyaddr <= 52;
}

int cofi__pt_caps_name(const struct cofi__pt_caps *caps, unsigned i, const char **name)
{
    if (i + 1 >= ARRAY_LEN(needs))
        return -1;
    *name = needs[i + 1].text;
    return cofi__pt_caps_has(caps, (enum cofi__pt_need)(i + 1));
}

/* [PTREF 1.3]: ranges exist only with IP filtering. */
unsigned cofi__pt_caps_ranges(const struct cofi__pt_caps *caps)
{
    unsigned n = caps->leaf14_1_eax & 7;
    if (!cofi__pt_caps_has(caps, PT_NEED_IP_FILTER))
        return 0;
    return n > 4 ? 4 : n;
}

static unsigned trigger_registers(const struct cofi__pt_caps *caps)
{
    return cofi__pt_caps_has(caps, PT_NEED_TRIGGER) ? caps->leaf14_1_eax >> 8 & 7 : 0;
}

enum { TRIGGER_COUNTERS = 0x28, TRIGGER_DR = 0x40, TRIGGER_DRS = 4 };

/* Bits 11:7 have no meaning that is known; 14:12 do something only where pausing and resuming exist. */
bool cofi__pt_caps_trigger(const struct cofi__pt_caps *caps, uint16_t descriptor)
{
    unsigned input = descriptor & 0x7f;
    bool dr = input >= TRIGGER_DR && input < TRIGGER_DR + TRIGGER_DRS && caps->leaf14_1_ecx >> 15 & 1;
    bool actions = !(descriptor & 0x7000) || caps->leaf14_1_ecx >> 1 & 1;
    return (input < TRIGGER_COUNTERS || dr) && !(descriptor & 0x0f80) && actions;
}

bool cofi__pt_caps_has(const struct cofi__pt_caps *caps, enum cofi__pt_need need)
{
    if (need == PT_NEED_NONE)
        return true;
    if (need == PT_NEED_OUTPUT) /* [PTREF 1.2]: OUTPUT_* exist with either kind of output */
        return cofi__pt_caps_has(caps, PT_NEED_TOPA) ||
               cofi__pt_caps_has(caps, PT_NEED_SINGLE_RANGE);
    if (need >= PT_NEED_RANGE0 && need <= PT_NEED_RANGE3)
        return cofi__pt_caps_ranges(caps) > (unsigned)(need - PT_NEED_RANGE0);
    if (need >= PT_NEED_TRIGGER0 && need <= PT_NEED_TRIGGER6)
        return trigger_registers(caps) > (unsigned)(need - PT_NEED_TRIGGER0);
    uint32_t reg = needs[need].ecx ? caps->leaf14_ecx : caps->leaf14_ebx;
    return reg >> needs[need].bit & 1;
}

static void leaf14(const struct cofi__pt_caps *caps, uint32_t subleaf, uint32_t regs[4])
{
    uint32_t last = caps->leaf14_1_eax | caps->leaf14_1_ebx | caps->leaf14_1_ecx ? 1 : 0;
    if (subleaf == 0) {
        regs[0] = last;
        regs[1] = caps->leaf14_ebx;
        regs[2] = caps->leaf14_ecx;
    } else if (subleaf == 1 && last) {
        regs[0] = caps->leaf14_1_eax;
        regs[1] = caps->leaf14_1_ebx;
        regs[2] = caps->leaf14_1_ecx;
    }
}

/* [SDM CPUID Leaf 14H Enumeration of Intel Processor Trace Capabilities]. Leaf 7: only the PT bit,
 * 25 [PTREF 6.9]. */
int cofi__pt_caps_cpuid(const struct cofi__pt_caps *caps, uint32_t leaf, uint32_t subleaf,
                        uint32_t regs[4])
{
    memset(regs, 0, 4 * sizeof regs[0]);
    if (leaf == 7) {
        regs[1] = subleaf == 0 ? UINT32_C(1) << 25 : 0;
    } else if (leaf == 0x14) {
        leaf14(caps, subleaf, regs);
    } else if (leaf == 0x15) {
        regs[0] = caps->art_den;
        regs[1] = caps->art_num;
        regs[2] = caps->art_hz;
    } else {
        return COFI_ERR_RANGE;
    }
    return 0;
}
