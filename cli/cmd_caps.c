/* SPDX-License-Identifier: MIT
 * cofi caps: a processor -> what its trace unit can do, with CPUID leaves, registers and fields. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/unit.h>

#include "cli.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { LEAF_PT = 0x14, LEAF_ART = 0x15 };

struct caps_options {
    const char *model; /* null: this machine */
    bool rtit, list, json, registers;
};

/* [RTIT 1.2]: family 6 throughout; the processors that the reference names. */
struct rtit_part {
    uint8_t model, stepping;
    const char *core;
};

static const struct rtit_part rtit_parts[] = {
    {0x37, 8, "Silvermont"}, {0x5d, 0, "Silvermont"}, {0x5d, 1, "Silvermont"},
    {0x4a, 8, "Silvermont"}, {0x4d, 8, "Silvermont"}, {0x5a, 0, "Silvermont"},
    {0x4c, 3, "Airmont"},
};

static const char usage[] =
    "usage: cofi caps [options]\n\n"
    "Print what a processor's trace unit can do. Without --model: this machine's.\n\n"
    "      --unit=pt|rtit   generation; pt unless said otherwise\n"
    "  -m, --model=NAME     PT: a processor that the software unit can be (--list)\n"
    "  -l, --list           the names of all models\n"
    "  -r, --registers      the registers' fields too, and which exist on the model\n"
    "      --json           one object a line\n"
    "  -h, --help           this text\n";

/* What would have no effect. */
static const char *useless(const struct caps_options *o)
{
    if (o->rtit && (o->model || o->list))
        return o->model ? "--model is of PT; RTIT has no models" : "--list is of PT; RTIT has no models";
    if (o->list && (o->model || o->registers))
        return o->model ? "--list names all models; --model is without it"
                        : "--list tells no registers; --registers is with --model";
    return NULL;
}

static int parse(struct caps_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, 0, 'h'},
        {"unit", required_argument, 0, 'u'},
        {"model", required_argument, 0, 'm'},
        {"list", no_argument, 0, 'l'},
        {"registers", no_argument, 0, 'r'},
        {"json", no_argument, 0, 'j'},
        {0},
    };
    for (int letter; (letter = getopt_long(argc, argv, "hm:lr", options, NULL)) != -1;) {
        switch (letter) {
        case 'h': fputs(usage, stdout); return -1;
        case 'u': o->rtit = !strcmp(optarg, "rtit");
            if (!o->rtit && strcmp(optarg, "pt"))
                return bad_value("caps", "unit", optarg);
            break;
        case 'm': o->model = optarg; break;
        case 'l': o->list = true; break;
        case 'r': o->registers = true; break;
        case 'j': o->json = true; break;
        default: return see_help("caps");
        }
    }
    if (optind < argc) {
        complain("caps: what is '%s'? 'cofi caps --help' lists the options", argv[optind]);
        return EXIT_USAGE;
    }
    const char *wrong = useless(o);
    if (wrong)
        complain("caps: %s", wrong);
    return wrong ? EXIT_USAGE : 0;
}

/* ---- registers ---- */

static const char *pt_register(uint32_t msr)
{
    static const char *const addresses[] = {"ADDR0_A", "ADDR0_B", "ADDR1_A", "ADDR1_B",
                                            "ADDR2_A", "ADDR2_B", "ADDR3_A", "ADDR3_B"};
    switch (msr) {
    case 0x560: return "OUTPUT_BASE";
    case 0x561: return "OUTPUT_MASK_PTRS";
    case 0x570: return "CTL";
    case 0x571: return "STATUS";
    case 0x572: return "CR3_MATCH";
    }
    return msr >= 0x580 && msr <= 0x587 ? addresses[msr - 0x580] : "-";
}

static const char *rtit_register(const struct cofi_unit *unit, uint32_t msr)
{
    struct cofi_unit_register reg;
    for (size_t i = 0; cofi_unit_register_at(unit, i, &reg) == 0; i++)
        if (reg.msr == msr)
            return reg.name;
    return "-";
}

static void print_registers(const struct caps_options *o, const struct cofi_unit *unit)
{
    struct cofi_unit_field field;
    int has;
    for (unsigned i = 0; (has = cofi_unit_field(unit, i, &field)) >= 0; i++) {
        const char *name = o->rtit ? rtit_register(unit, field.msr) : pt_register(field.msr);
        if (o->json)
            printf("{\"v\":1,\"field\":\"%s\",\"register\":\"%s\",\"msr\":%u,\"lsb\":%u,\"width\":%"
                   "u,\"has\":%s}\n",
                   field.name, name, field.msr, field.lsb, field.width,
                   has ? "true" : "false");
        else
            printf("  %03" PRIX32 "H %-*s %2u:%-2u %-26s %s\n", field.msr, o->rtit ? 19 : 16, name,
                   field.lsb + field.width - 1, field.lsb, field.name, has ? "yes" : "no");
    }
}

/* A leaf of this machine, if it has that. */
static void own_leaf(uint32_t number, uint32_t subleaf, uint32_t regs[4])
{
#ifdef __x86_64__
    if (__get_cpuid_max(0, NULL) >= number)
        __get_cpuid_count(number, subleaf, &regs[0], &regs[1], &regs[2], &regs[3]);
#else
    (void)number, (void)subleaf, (void)regs;
#endif
}

/* A leaf of the model or, without one, of this machine; all zero where there is none. */
static void leaf(const struct cofi_unit *unit, uint32_t number, uint32_t subleaf, uint32_t regs[4])
{
    memset(regs, 0, 4 * sizeof regs[0]);
    if (unit)
        cofi_unit_cpuid(unit, number, subleaf, regs);
    else
        own_leaf(number, subleaf, regs);
}

/* ---- RTIT ---- */

/* Family, model and stepping of this machine, as the reference counts them. */
static void this_cpu(unsigned *family, unsigned *model, unsigned *stepping)
{
    uint32_t regs[4];
    leaf(NULL, 1, 0, regs);
    uint32_t a = regs[0];
    *stepping = a & 15;
    *family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    *model = (a >> 4 & 15) | (a >> 16 & 15) << 4;
}

static int rtit_registers(const struct caps_options *o)
{
    const struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_RTIT};
    struct cofi_unit *unit;
    int status = cofi_unit_open(&unit, &config);
    if (status < 0) {
        complain("caps: %s", cofi_error_text(status));
        return EXIT_ENVIRONMENT;
    }
    print_registers(o, unit);
    cofi_unit_close(unit);
    return EXIT_DONE;
}

static int caps_rtit(const struct caps_options *o)
{
    unsigned family, model, stepping;
    bool here = false;
    this_cpu(&family, &model, &stepping);
    for (size_t i = 0; i < sizeof rtit_parts / sizeof rtit_parts[0]; i++) {
        const struct rtit_part *part = &rtit_parts[i];
        bool same = family == 6 && model == part->model && stepping == part->stepping;
        here |= same;
        if (o->json)
            printf("{\"v\":1,\"unit\":\"rtit\",\"family\":6,\"model\":%u,\"stepping\":%u,\"core\":"
                   "\"%s\",\"this\":%s}\n",
                   part->model, part->stepping, part->core, same ? "true" : "false");
        else
            printf("06_%02XH stepping %u  %s%s\n", part->model, part->stepping, part->core,
                   same ? "  <- this machine" : "");
    }
    if (!o->json && ON_X86)
        printf("This machine is family %u, model %02XH, stepping %u: %s RTIT. ", family, model, stepping,
               here ? "it has" : "it does not have");
    if (!o->json)
        printf("No CPUID bit tells of RTIT; the list is\n"
               "the reference's [RTIT 1.2]. The software unit can do all of it everywhere.\n");
    return o->registers ? rtit_registers(o) : EXIT_DONE;
}

/* ---- PT ---- */

static int list_models(const struct caps_options *o)
{
    const char *name, *text;
    uint32_t cpu;
    for (unsigned i = 0; (name = cofi_unit_model(i, &text, &cpu)); i++) {
        if (o->json)
            printf("{\"v\":1,\"unit\":\"pt\",\"name\":\"%s\",\"text\":\"%s\",\"family\":%u,"
                   "\"model\":%u}\n",
                   name, text, cpu >> 16, cpu & 0xffff);
        else
            printf("%-16s %s\n", name, text);
    }
    return EXIT_DONE;
}

static void print_map(const char *what, uint32_t map)
{
    printf("  %-44s", what);
    for (unsigned i = 0; i < 16; i++)
        if (i == 0 || map >> i & 1)
            printf(" %u", i);
    printf("\n");
}

static bool leaf_bit(const uint32_t regs[4], unsigned i)
{
    /* the order of cofi_unit_capability: EBX bits 0..9, then ECX 0..3 and 31 [SDM CPUID Leaf 14H
     * Enumeration of Intel Processor Trace Capabilities] */
    return i < 10 ? regs[1] >> i & 1 : regs[2] >> (i == 14 ? 31 : i - 10) & 1;
}

static void print_leaves(const struct cofi_unit *unit)
{
    static const uint32_t leaves[][2] = {{7, 0}, {LEAF_PT, 0}, {LEAF_PT, 1}, {LEAF_ART, 0}};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t r[4];
        leaf(unit, leaves[i][0], leaves[i][1], r);
        if (leaves[i][0] == 7)
            printf("CPUID 07H.0   EBX[25]=%u: %s\n", r[1] >> 25 & 1,
                   r[1] >> 25 & 1 ? "Intel PT exists" : "no Intel PT");
        else
            printf("CPUID %02" PRIX32 "H.%" PRIu32 "   EAX=%08" PRIx32 " EBX=%08" PRIx32
                   " ECX=%08" PRIx32 " EDX=%08" PRIx32 "\n",
                   leaves[i][0], leaves[i][1], r[0], r[1], r[2], r[3]);
    }
}

static void print_json(const char *name, const struct cofi_unit *unit,
                       const struct cofi_unit *names)
{
    uint32_t pt[4], maps[4], art[4], seven[4];
    const char *text;
    leaf(unit, 7, 0, seven);
    leaf(unit, LEAF_PT, 0, pt);
    leaf(unit, LEAF_PT, 1, maps);
    leaf(unit, LEAF_ART, 0, art);
    printf("{\"v\":1,\"unit\":\"pt\",\"model\":\"%s\",\"pt\":%s,\"leaf14\":[%u,%u,%u,%u],\"leaf14_"
           "1\":[%u,%u,%u,%u],"
           "\"leaf15\":[%u,%u,%u]",
           name, seven[1] >> 25 & 1 ? "true" : "false", pt[0], pt[1], pt[2], pt[3], maps[0],
           maps[1], maps[2], maps[3], art[0], art[1], art[2]);
    printf(",\"ranges\":%u,\"capabilities\":{", maps[0] & 7);
    for (unsigned i = 0; cofi_unit_capability(names, i, &text) >= 0; i++)
        printf("%s\"%s\":%s", i ? "," : "", text, leaf_bit(pt, i) ? "true" : "false");
    printf("}}\n");
}

static void print_text(const char *name, const struct cofi_unit *unit,
                       const struct cofi_unit *names)
{
    uint32_t pt[4], maps[4], art[4];
    const char *text;
    leaf(unit, LEAF_PT, 0, pt);
    leaf(unit, LEAF_PT, 1, maps);
    leaf(unit, LEAF_ART, 0, art);
    printf("%s\n", name);
    print_leaves(unit);
    if (!pt[1] && !pt[2]) {
        printf(ON_X86 ? "'cofi record' traces with the software unit; --list names the processors that it can be.\n"
                      : "This processor is no x86, and 'cofi record' needs one; what was recorded elsewhere is decoded.\n");
        return;
    }
    for (unsigned i = 0; cofi_unit_capability(names, i, &text) >= 0; i++)
        printf("  %-44s %s\n", text, leaf_bit(pt, i) ? "yes" : "no");
    printf("  %-44s %u\n", "address ranges", maps[0] & 7);
    print_map("mtc_freq encodings", maps[0] >> 16);
    print_map("cyc_thresh encodings", maps[1] & 0xffff);
    print_map("psb_freq encodings", maps[1] >> 16);
    if (art[0] && art[1])
        printf("  %-44s %u/%u\n", "TSC ticks an ART tick", art[1], art[0]);
}

static int caps_pt(const struct caps_options *o)
{
    struct cofi_unit_config config = {.size = sizeof config, .gen = COFI_PT, .model = o->model};
    struct cofi_unit *unit = NULL;
    int status = cofi_unit_open(&unit, &config);
    if (status == COFI_ERR_RANGE) {
        complain("caps: no model '%s'; 'cofi caps --list' names them", o->model);
        return EXIT_USAGE;
    }
    if (status < 0) {
        complain("caps: %s", cofi_error_text(status));
        return EXIT_ENVIRONMENT;
    }
    const struct cofi_unit *asked = o->model ? unit : NULL;
    const char *name = o->model ? o->model : "this machine";
    if (o->json)
        print_json(name, asked, unit);
    else
        print_text(name, asked, unit);
    if (o->registers && o->model)
        print_registers(o, unit);
    cofi_unit_close(unit);
    return EXIT_DONE;
}

int cmd_caps(int argc, char **argv)
{
    struct caps_options options = {0};
    int status = parse(&options, argc, argv);
    if (status)
        return status < 0 ? EXIT_DONE : status;
    if (options.registers && !options.model && !options.rtit)
        options.model = "all";
    if (options.rtit)
        return caps_rtit(&options);
    return options.list ? list_models(&options) : caps_pt(&options);
}
