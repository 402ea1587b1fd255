/* SPDX-License-Identifier: MIT
 * pt.def and rtit.def -> docs/packets.md (argument "md") or a libFuzzer dictionary ("dict"). */
#include <stdio.h>
#include <string.h>

#include "packet/row.h"

static const struct {
    unsigned trait;
    const char *word;
} traits[] = {
    {COFI_TRAIT_PSB_PLUS, "PSB+"}, {COFI_TRAIT_TIMING, "timing"}, {COFI_TRAIT_HAS_IP, "IP"},
    {COFI_TRAIT_CYC_ELIGIBLE, "cyc"}, {COFI_TRAIT_LEAVES_BLOCK, "ends block"},
};

static const char *const bindings[] = {
    [COFI_BINDS_STANDALONE] = "nothing", [COFI_BINDS_BRANCH] = "next branch that needs it",
    [COFI_BINDS_ITS_IP] = "its address", [COFI_BINDS_TARGET] = "target of the next transfer",
    [COFI_BINDS_NEXT_IP] = "address of the next TIP, TIP.PGE", [COFI_BINDS_NEXT_FUP] = "next FUP, if IP",
    [COFI_BINDS_NEXT_CFE] = "next CFE", [COFI_BINDS_PTWRITE] = "next PTWRITE, or FUP if IP",
};

static const char *size_of(const struct row *r, char *out, size_t n)
{
    switch ((enum shape)r->shape) {
    case SHAPE_IP: return "1, 3, 5, 7, 9";
    case SHAPE_RTIT_IP: return "3, 5, 7";
    case SHAPE_CYC: return "1 to 10";
    case SHAPE_PTW: return "6, 10";
    case SHAPE_BIP: return "5, 9";
    case SHAPE_TRIG: return "3, 5";
    case SHAPE_FIXED: case SHAPE_MODE: case SHAPE_TNT: case SHAPE_TNT64: case SHAPE_PSB: case SHAPE_RTIT_TNT: break;
    }
    snprintf(out, n, "%u", r->size);
    return out;
}

/* The bits that are fixed, byte by byte, as 0 and 1; others '-'. */
static void print_header(const struct row *r)
{
    printf("`");
    for (unsigned byte = 0; byte < 3; byte++) {
        unsigned mask = r->mask >> 8 * byte & 0xff, value = r->header >> 8 * byte & 0xff;
        if (!mask)
            break;
        printf("%s", byte ? " " : "");
        if (mask == 0xff)
            printf("%02x", value);
        else
            for (int bit = 7; bit >= 0; bit--)
                printf("%c", mask >> bit & 1 ? '0' + (int)(value >> bit & 1) : '-');
    }
    printf("`");
}

/* Name as in struct cofi_packet, and where: byte.bit of the lowest, width. */
static void print_fields(const struct row *r)
{
    const char *joint = "";
    for (unsigned i = 0; i < r->field_count; i++) {
        const struct field *f = &r->fields[i];
        if (!f->name)
            continue;
        const char *dot = strchr(f->name, '.');
        printf("%s%s %u.%u:%u", joint, dot ? dot + 1 : f->name, f->lsb / 8, f->lsb % 8, f->width);
        if (f->left)
            printf(" <<%u", f->left);
        joint = ", ";
    }
}

static void print_table(enum cofi_gen gen)
{
    char size[16];
    printf("| packet | first bytes | size | fields | is | binds to | rule |\n|---|---|---|---|---|---|---|\n");
    for (unsigned kind = 1; kind < COFI_PKT_KINDS; kind++) {
        const struct row *r = &cofi__packet_rows[kind];
        if (r->gen != gen)
            continue;
        printf("| %s | ", r->name);
        print_header(r);
        printf(" | %s | ", size_of(r, size, sizeof size));
        print_fields(r);
        printf(" |");
        const char *joint = " ";
        for (unsigned i = 0; i < sizeof traits / sizeof *traits; i++)
            if (r->traits & traits[i].trait) {
                printf("%s%s", joint, traits[i].word);
                joint = ", ";
            }
        printf(" | %s | %s |\n", bindings[r->binds], r->tag);
    }
}

static void print_markdown(void)
{
    printf(
        "# Packets\n\n"
        "Made from `src/packet/pt.def` and `src/packet/rtit.def` by `scripts/packets-md`; a test holds it current.\n\n"
        "*First bytes*: hex, or the bits that are fixed, `-` for those that are not. *Fields*: name, byte.bit of the\n"
        "lowest bit : width, `<<` how far left the value belongs. *Is*: PSB+ allowed between PSB and PSBEND; IP\n"
        "carries an address; cyc: PT: a CYC may stand before it, RTIT: a cycle count follows it; ends block.\n\n"
        "## Intel PT\n\n");
    print_table(COFI_PT);
    printf(
        "\nShort TNT is a byte with bit 0 clear that is nothing else: zeros, a stop bit 1, 1 to 6 results, then the 0.\n"
        "BIP comes first inside of a block, where `tnt.8` of the same low bits cannot stand.\n\n## RTIT\n\n");
    print_table(COFI_RTIT);
    printf(
        "\nTNT is a byte with bit 7 clear: zeros, a stop bit 1, 1 to 6 results. With cycle accuracy packets of 'cyc'\n"
        "(of TNT only that of 6 results) are followed by a cycle count of 1 to 3 bytes: low two bits its length, 22\n"
        "bits of count above them [RTIT 4.2.14].\n\n"
        "## Text\n\n"
        "`cofi dump` prints and `cofi asm` reads a packet a line: an offset, the name, the payload.\n\n"
        "- TNT: `!` taken, `.` not, oldest first; RTIT `T` and `NT`.\n"
        "- Addresses: the code (PT: IPBytes; RTIT: CNT, and `z` for Zext), then the digits that are in the packet and\n"
        "  `?` for those that LastIP has. Code 3 is printed sign-extended.\n"
        "- `cyc 5/3`: a count in more bytes than it needs, here 3; `CCP 3/2` likewise.\n"
        "- `ptw 1: ...`: payload of 8 bytes, `0:` of 4; `bip`: as many digits as the item has.\n"
        "- `pwre`, `pwrx`: C-states in decimal, as ptdump counts them (encoding + 1, 4 bits).\n"
        "- All numbers else are hex. Two blanks, `#` or `;` after a payload begin a comment.\n"
        "- `.gen rtit` (or `pt`) says what follows; `.bytes 01 02` are bytes that are no packet; `.back 5` takes five\n"
        "  bytes back, where a damaged packet had swallowed the beginning of the PSB that follows.\n");
}

static void print_dict(void)
{
    for (unsigned kind = 1; kind < COFI_PKT_KINDS; kind++) {
        const struct row *r = &cofi__packet_rows[kind];
        printf("name_%u=\"%s\"\nheader_%u=\"", kind, r->name, kind);
        for (unsigned byte = 0; byte < 3 && r->mask >> 8 * byte; byte++)
            printf("\\x%02x", r->header >> 8 * byte & 0xff);
        printf("\"\n");
    }
    printf(
        "psb_pt=\"\\x02\\x82\\x02\\x82\\x02\\x82\\x02\\x82\\x02\\x82\\x02\\x82\\x02\\x82\\x02\\x82\"\n"
        "psb_rtit=\"\\xc0\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"\nccp=\", CCP \"\nicnt=\", icnt: \"\nip=\", ip\"\n");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "dict"))
        print_dict();
    else
        print_markdown();
    return 0;
}
