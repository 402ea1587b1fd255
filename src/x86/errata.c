/* SPDX-License-Identifier: MIT
 * Processor -> defects of its trace [PTREF 9.8]. */
#include "x86/errata.h"

#include <stddef.h>

#include "base/error.h"

struct row {
    uint32_t family, model;
    uint32_t errata;
};

enum {
    SKYLAKE = ERR_BDM70 | ERR_SKD007 | ERR_SKD022 | ERR_SKD010 | ERR_SKL014 | ERR_SKL168,
    ICELAKE_SERVER = ERR_BDM70 | ERR_SKL014 | ERR_SKD022 | ERR_SKZ84,
    SAPPHIRE = ERR_BDM70 | ERR_SKD022 | ERR_SKZ84,
    ICELAKE = ERR_BDM70 | ERR_SKL014 | ERR_SKD022,
    ALDERLAKE = ERR_BDM70 | ERR_SKD022 | ERR_APL11,
};

/* [ERR SKL168] needs nothing of the decoder: no interval over a PSB tells what a cycle is worth, on any processor. */
static const struct row rows[] = {
    {6, 0x3d, ERR_BDM70 | ERR_BDM64}, {6, 0x47, ERR_BDM70 | ERR_BDM64},
    {6, 0x4f, ERR_BDM70 | ERR_BDM64}, {6, 0x56, ERR_BDM70 | ERR_BDM64},
    {6, 0x4e, SKYLAKE}, {6, 0x5e, SKYLAKE}, {6, 0x8e, SKYLAKE}, {6, 0x9e, SKYLAKE}, {6, 0xa5, SKYLAKE},
    {6, 0xa6, SKYLAKE},
    {6, 0x55, ICELAKE_SERVER}, {6, 0x6a, ICELAKE_SERVER}, {6, 0x6c, ICELAKE_SERVER},
    {6, 0x8f, SAPPHIRE}, {6, 0xcf, SAPPHIRE}, {6, 0xad, SAPPHIRE}, {6, 0xae, SAPPHIRE}, {0x13, 1, SAPPHIRE},
    {6, 0x66, ICELAKE}, {6, 0x7d, ICELAKE}, {6, 0x7e, ICELAKE}, {6, 0x8c, ICELAKE}, {6, 0x8d, ICELAKE},
    {6, 0xa7, ICELAKE}, {6, 0xa8, ICELAKE},
    {6, 0x97, ALDERLAKE}, {6, 0x9a, ALDERLAKE}, {6, 0xba, ALDERLAKE}, {6, 0xb7, ALDERLAKE},
    {6, 0xbf, ALDERLAKE}, {6, 0xc5, ALDERLAKE}, {6, 0xc6, ALDERLAKE}, {6, 0xb5, ALDERLAKE},
    {6, 0xaa, ALDERLAKE}, {6, 0xac, ALDERLAKE}, {6, 0xbd, ALDERLAKE}, {6, 0xcc, ALDERLAKE},
    {6, 0xd5, ALDERLAKE}, {0x12, 1, ALDERLAKE}, {0x12, 3, ALDERLAKE},
    {6, 0x5c, ERR_APL12 | ERR_APL11 | ERR_GOLDMONT}, {6, 0x5f, ERR_APL12 | ERR_APL11},
    {6, 0x7a, ERR_APL11}, {6, 0x86, ERR_APL11}, {6, 0x96, ERR_APL11}, {6, 0x9c, ERR_APL11},
    {6, 0xb6, ERR_APL11}, {6, 0xaf, ERR_APL11}, {6, 0xdd, ERR_APL11},
};

/* Silvermont and Airmont parts, the ones that RTIT is documented for. */
static const uint8_t rtit_models[] = {0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x5d};

uint64_t cofi__cpu_errata(enum cofi_gen gen, uint32_t family, uint32_t model)
{
    if (gen == COFI_RTIT) {
        for (size_t i = 0; i < ARRAY_LEN(rtit_models); i++)
            if (family == 6 && model == rtit_models[i])
                return ERR_RTIT;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].family == family && rows[i].model == model)
            return rows[i].errata;
    return 0;
}
