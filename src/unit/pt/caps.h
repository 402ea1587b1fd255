/* SPDX-License-Identifier: MIT
 * What a PT unit can do: CPUID leaves 7, 14H and 15H as a set of capabilities. */
#ifndef COFI_UNIT_PT_CAPS_H
#define COFI_UNIT_PT_CAPS_H

#include <stdbool.h>
#include <stdint.h>

enum cofi__pt_need {
    PT_NEED_NONE,
#define NEED(NAME, reg, bit, text) PT_NEED_##NAME,
#include "unit/pt/needs.def"
    /* Derived: OUTPUT_* exist; ADDRn exists; TRIGGERn_CFG exists. */
    PT_NEED_OUTPUT,
    PT_NEED_RANGE0,
    PT_NEED_RANGE1,
    PT_NEED_RANGE2,
    PT_NEED_RANGE3,
    PT_NEED_TRIGGER0, /* to TRIGGER6: that trigger register exists */
    PT_NEED_TRIGGER6 = PT_NEED_TRIGGER0 + 6,
    PT_NEEDS
};

struct cofi__pt_caps {
    const char *name, *text;
    uint8_t family, model;
    uint32_t leaf14_ebx, leaf14_ecx;   /* sub-leaf 0 */
    uint32_t leaf14_1_eax, leaf14_1_ebx, leaf14_1_ecx;
    uint32_t art_den, art_num, art_hz; /* leaf 15H EAX, EBX, ECX: TSC = ART * num / den */
    uint8_t maxphyaddr;
    uint8_t ratio;                     /* maximum non-turbo ratio, 100 MHz */
    bool vmx;                          /* IA32_VMX_MISC[14] */
};

/* The preset of that name (null: "all"), or null. */
const struct cofi__pt_caps *cofi__pt_caps_find(const char *name);
/* Those of a host's own machine; false: no processor can be so. */
struct cofi_unit_cpu;
bool cofi__pt_caps_of_cpu(const struct cofi_unit_cpu *cpu, struct cofi__pt_caps *caps);
/* The i-th preset, or null past the last. */
const struct cofi__pt_caps *cofi__pt_caps_at(unsigned i);
bool cofi__pt_caps_has(const struct cofi__pt_caps *caps, enum cofi__pt_need need);
/* The i-th capability's text, and whether the part has it; -1 past the last. */
int cofi__pt_caps_name(const struct cofi__pt_caps *caps, unsigned i, const char **name);
unsigned cofi__pt_caps_ranges(const struct cofi__pt_caps *caps);
/* May a trigger's 16 bits be these? [PTREF 1.3, PTREF 2.9] */
bool cofi__pt_caps_trigger(const struct cofi__pt_caps *caps, uint16_t descriptor);
/* Leaves 7, 14H, 15H; COFI_ERR_RANGE for another. */
int cofi__pt_caps_cpuid(const struct cofi__pt_caps *caps, uint32_t leaf, uint32_t subleaf,
                        uint32_t regs[4]);

#endif
