/* SPDX-License-Identifier: MIT
 * Instruction bytes -> length, class, direct target, text. Zydis behind it. */
#include <stdio.h>

#include <cofi/event.h>
#include <cofi/insn.h>

#include "base/error.h"
#include "x86/insn_zydis.h"
#include "x86/newer.h"
#include "x86/shapes.h"

const char *cofi_class_name(enum cofi_class cls)
{
    switch (cls) {
#define X(name, text) case COFI_CLASS_##name: return text;
    COFI_CLASSES(X)
#undef X
    case COFI_CLASS_KINDS: break;
    }
    return "?";
}

static int init_decoder(ZydisDecoder *decoder, unsigned mode)
{
    ZyanStatus status;
    if (mode == 64)
        status = ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    else if (mode == 32)
        status = ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
    else
        status = ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16);
    return ZYAN_SUCCESS(status) ? 0 : COFI_ERR_RANGE;
}

struct mnemonic_class {
    uint16_t mnemonic; /* ZydisMnemonic */
    uint8_t cls, far;
};

/* What its mnemonic alone decides [SDM COFI Type for Branch Instructions]. Near and far JMP, CALL, RET
 * share mnemonics and are told apart by their branch type. */
static const struct mnemonic_class classes[] = {
    {ZYDIS_MNEMONIC_SYSCALL, COFI_CLASS_FAR_CALL, COFI_FAR_SYSCALL},
    {ZYDIS_MNEMONIC_SYSENTER, COFI_CLASS_FAR_CALL, COFI_FAR_SYSENTER},
    {ZYDIS_MNEMONIC_INT, COFI_CLASS_FAR_CALL, COFI_FAR_INT},
    {ZYDIS_MNEMONIC_INT1, COFI_CLASS_FAR_CALL, COFI_FAR_INT},
    {ZYDIS_MNEMONIC_INT3, COFI_CLASS_FAR_CALL, COFI_FAR_INT},
    {ZYDIS_MNEMONIC_INTO, COFI_CLASS_OTHER, COFI_FAR_INT}, /* not a branch unless OF is set; then a trace
                                                            * tells it by its address, as an exception */
    {ZYDIS_MNEMONIC_SYSRET, COFI_CLASS_FAR_RET, COFI_FAR_SYSRET},
    {ZYDIS_MNEMONIC_SYSEXIT, COFI_CLASS_FAR_RET, COFI_FAR_SYSEXIT},
    {ZYDIS_MNEMONIC_IRET, COFI_CLASS_FAR_RET, COFI_FAR_IRET},
    {ZYDIS_MNEMONIC_IRETD, COFI_CLASS_FAR_RET, COFI_FAR_IRET},
    {ZYDIS_MNEMONIC_IRETQ, COFI_CLASS_FAR_RET, COFI_FAR_IRET},
    {ZYDIS_MNEMONIC_UIRET, COFI_CLASS_FAR_RET, COFI_FAR_UIRET},
    {ZYDIS_MNEMONIC_RSM, COFI_CLASS_FAR_RET, COFI_FAR_RSM},
    {ZYDIS_MNEMONIC_VMLAUNCH, COFI_CLASS_VMENTRY, COFI_FAR_VMENTRY},
    {ZYDIS_MNEMONIC_VMRESUME, COFI_CLASS_VMENTRY, COFI_FAR_VMENTRY},
    {ZYDIS_MNEMONIC_VMPTRLD, COFI_CLASS_VMPTRLD, 0},
    {ZYDIS_MNEMONIC_PTWRITE, COFI_CLASS_PTWRITE, 0},
    {ZYDIS_MNEMONIC_XBEGIN, COFI_CLASS_TSX, 0},
    {ZYDIS_MNEMONIC_XEND, COFI_CLASS_TSX, 0},
    {ZYDIS_MNEMONIC_XABORT, COFI_CLASS_TSX, 0},
};

static bool is_far(const ZydisDecodedInstruction *zy)
{
    return zy->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
}

static bool is_indirect(const ZydisDecodedInstruction *zy)
{
    return !zy->raw.imm[0].is_relative;
}

static void classify_branch(const ZydisDecodedInstruction *zy, struct cofi_insn *insn)
{
    ZydisInstructionCategory category = zy->meta.category;
    if (category == ZYDIS_CATEGORY_COND_BR) {
        insn->cls = COFI_CLASS_JCC;
    } else if (category == ZYDIS_CATEGORY_UNCOND_BR) {
        insn->cls = is_far(zy) ? COFI_CLASS_FAR_JMP : is_indirect(zy) ? COFI_CLASS_JMP_IND : COFI_CLASS_JMP;
        insn->far = COFI_FAR_JMP;
    } else if (category == ZYDIS_CATEGORY_CALL) {
        insn->cls = is_far(zy) ? COFI_CLASS_FAR_CALL : is_indirect(zy) ? COFI_CLASS_CALL_IND : COFI_CLASS_CALL;
        insn->far = COFI_FAR_CALL;
    } else if (category == ZYDIS_CATEGORY_RET) {
        insn->cls = is_far(zy) ? COFI_CLASS_FAR_RET : COFI_CLASS_RET;
        insn->far = COFI_FAR_RET;
    }
}

static bool writes_memory(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *operands)
{
    for (unsigned i = 0; i < zy->operand_count; i++)
        if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
            return true;
    return false;
}

/* Where a relative branch at ip leads. In 16-bit code above 64 KiB the segment has a base, which no
 * packet tells: there the offset in it is taken not to wrap around. */
static uint64_t truncate_ip(unsigned mode, unsigned operand_width, uint64_t ip, uint64_t target)
{
    unsigned width = mode == 64 ? 64 : mode == 16 && ip >> 16 ? 32 : operand_width;
    return width == 64 ? target : target & ((UINT64_C(1) << width) - 1);
}

void cofi__insn_from_zydis(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *operands, unsigned mode,
                           uint64_t ip, struct cofi_insn *insn)
{
    *insn = (struct cofi_insn){.length = zy->length, .cls = COFI_CLASS_OTHER};
    classify_branch(zy, insn);
    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (classes[i].mnemonic == zy->mnemonic) {
            insn->cls = classes[i].cls;
            insn->far = classes[i].far;
        }
    if (zy->mnemonic == ZYDIS_MNEMONIC_MOV && operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        operands[0].reg.value == ZYDIS_REGISTER_CR3)
        insn->cls = COFI_CLASS_MOV_CR3;
    if (zy->raw.imm[0].is_relative)
        insn->target = truncate_ip(mode, zy->operand_width, ip, ip + zy->length + (uint64_t)zy->raw.imm[0].value.s);
    insn->writes = writes_memory(zy, operands);
    if (insn->cls >= COFI_CLASS_FAR_JMP && insn->cls <= COFI_CLASS_VMENTRY)
        insn->prefixes = zy->raw.prefix_count; /* REX is one of them */
}

int cofi__insn_decode_known(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    COFI_TRY(init_decoder(&decoder, mode));
    if (!n) /* bytes may be null */
        return COFI_ERR_TRUNCATED;
    ZyanStatus status = ZydisDecoderDecodeFull(&decoder, bytes, n, &zy, operands);
    if (status == ZYDIS_STATUS_NO_MORE_DATA)
        return COFI_ERR_TRUNCATED;
    if (!ZYAN_SUCCESS(status))
        return cofi__insn_newer(insn, mode, bytes, n) ? insn->length : COFI_ERR_BAD_INSN;
    cofi__insn_from_zydis(&zy, operands, mode, ip, insn);
    return zy.length;
}

int cofi__insn_decode_zydis(struct cofi_insn *insn, unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n)
{
    int length = cofi__insn_decode_known(insn, mode, ip, bytes, n);
    return length == COFI_ERR_BAD_INSN && mode == 64 ? cofi__insn_by_shape(insn, ip, bytes, n) : length;
}

/* What Zydis cannot print. */
static int print_newer(unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n, char *out, size_t size)
{
    struct cofi_insn insn;
    const char *name = cofi__insn_newer(&insn, mode, bytes, n);
    if (name)
        return snprintf(out, size, "%s", name);
    bool shaped = mode == 64 && cofi__insn_by_shape(&insn, ip, bytes, n) > 0;
    return shaped ? cofi__shape_print(bytes, n, out, size) : COFI_ERR_BAD_INSN;
}

enum { ZYDIS_TEXT_MOST = 256 };

/* Numbers as debuggers write them: 0x7f12, no padding. */
static void init_formatter(ZydisFormatter *formatter)
{
    static const ZydisFormatterProperty paddings[] = {
        ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
        ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_FORMATTER_PROP_IMM_PADDING};
    ZydisFormatterInit(formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    for (size_t i = 0; i < ARRAY_LEN(paddings); i++)
        ZydisFormatterSetProperty(formatter, paddings[i], ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
}

int cofi_insn_print(unsigned mode, uint64_t ip, const uint8_t *bytes, size_t n, char *out, size_t size)
{
    ZydisDecoder decoder;
    ZydisFormatter formatter;
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    COFI_TRY(init_decoder(&decoder, mode));
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &zy, operands)))
        return print_newer(mode, ip, bytes, n, out, size);
    init_formatter(&formatter);
    char text[ZYDIS_TEXT_MOST]; /* Zydis refuses what has no room, where snprintf cuts */
    if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &zy, operands,
                                                      zy.operand_count_visible, text, sizeof text, ip, NULL)))
        return COFI_ERR_BAD_INSN;
    return snprintf(out, size, "%s", text);
}
