/* SPDX-License-Identifier: MIT
 * Instruction classes, lengths and targets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cofi/event.h>
#include <cofi/insn.h>

#include "base/error.h"

struct row {
    unsigned mode;
    uint8_t bytes[15], length;
    enum cofi_class cls;
    uint64_t target;
};

/* All at 0x401000. */
static const struct row rows[] = {
    {64, {0x90}, 1, COFI_CLASS_OTHER, 0},
    {64, {0x74, 0xfe}, 2, COFI_CLASS_JCC, 0x401000},
    {64, {0x0f, 0x85, 0x00, 0x01, 0, 0}, 6, COFI_CLASS_JCC, 0x401106},
    {64, {0xe3, 0x10}, 2, COFI_CLASS_JCC, 0x401012},
    {64, {0xe2, 0x10}, 2, COFI_CLASS_JCC, 0x401012},
    {64, {0xeb, 0x10}, 2, COFI_CLASS_JMP, 0x401012},
    {64, {0xe8, 0, 0, 0, 0}, 5, COFI_CLASS_CALL, 0x401005},
    {64, {0xff, 0xe0}, 2, COFI_CLASS_JMP_IND, 0},
    {64, {0xff, 0x25, 0, 0, 0, 0}, 6, COFI_CLASS_JMP_IND, 0},
    {64, {0x41, 0xff, 0xd3}, 3, COFI_CLASS_CALL_IND, 0},
    {64, {0xc3}, 1, COFI_CLASS_RET, 0},
    {64, {0xf3, 0xc3}, 2, COFI_CLASS_RET, 0},
    {64, {0xc2, 0x08, 0x00}, 3, COFI_CLASS_RET, 0},
    {64, {0xcb}, 1, COFI_CLASS_FAR_RET, 0},
    {64, {0xff, 0x28}, 2, COFI_CLASS_FAR_JMP, 0},
    {64, {0xff, 0x18}, 2, COFI_CLASS_FAR_CALL, 0},
    {64, {0x0f, 0x05}, 2, COFI_CLASS_FAR_CALL, 0},
    {64, {0xcd, 0x80}, 2, COFI_CLASS_FAR_CALL, 0},
    {64, {0xcc}, 1, COFI_CLASS_FAR_CALL, 0},
    {64, {0x48, 0xcf}, 2, COFI_CLASS_FAR_RET, 0},
    {64, {0x0f, 0x34}, 2, COFI_CLASS_FAR_CALL, 0},
    {64, {0x0f, 0x22, 0xd8}, 3, COFI_CLASS_MOV_CR3, 0},
    {64, {0x0f, 0x22, 0xc0}, 3, COFI_CLASS_OTHER, 0},
    {64, {0xf3, 0x48, 0x0f, 0xae, 0xe0}, 5, COFI_CLASS_PTWRITE, 0},
    {64, {0x0f, 0x01, 0xc2}, 3, COFI_CLASS_VMENTRY, 0},
    {64, {0x0f, 0xc7, 0x30}, 3, COFI_CLASS_VMPTRLD, 0},
    {64, {0xc7, 0xf8, 0x10, 0, 0, 0}, 6, COFI_CLASS_TSX, 0x401016},
    {64, {0xf3, 0x0f, 0x01, 0xca}, 4, COFI_CLASS_FAR_RET, 0},
    {64, {0xf2, 0x0f, 0x01, 0xca}, 4, COFI_CLASS_FAR_RET, 0},
    {64, {0xf2, 0x0f, 0x00, 0xf7}, 4, COFI_CLASS_OTHER, 0},
    {64, {0xf2, 0x48, 0x0f, 0x00, 0xf0}, 5, COFI_CLASS_OTHER, 0},
    {64, {0x0f, 0x01, 0xc6}, 3, COFI_CLASS_OTHER, 0},
    {64, {0xf3, 0x0f, 0x01, 0xc6}, 4, COFI_CLASS_OTHER, 0},
    {64, {0xf2, 0x0f, 0x38, 0xf8, 0xc1}, 5, COFI_CLASS_OTHER, 0},
    /* APX, AVX10 and others that Zydis 4.0 does not know, as binutils 2.44 assembles them. */
    {64, {0xd5, 0x00, 0xa1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}, 11, COFI_CLASS_JMP_IND, 0},
    {64, {0xd5, 0x78, 0x01, 0x04, 0x91}, 5, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0xdc, 0x10, 0x81, 0xc3, 0x78, 0x56, 0x34, 0x12}, 10, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0x5d, 0x10, 0x81, 0xc3, 0x34, 0x12}, 8, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xb4, 0xf0, 0x1c, 0x2b, 0x9c, 0xf8, 0x00, 0x01, 0x00, 0x00}, 11, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0x74, 0x10, 0xff, 0xf0}, 6, COFI_CLASS_OTHER, 0},
    {64, {0xd5, 0x08, 0x53}, 3, COFI_CLASS_OTHER, 0},
    {64, {0xd5, 0x10, 0xff, 0x10}, 4, COFI_CLASS_CALL_IND, 0},
    {64, {0xd5, 0x10, 0xff, 0xe0}, 4, COFI_CLASS_JMP_IND, 0},
    {64, {0x62, 0xf4, 0x0c, 0x0a, 0x83, 0x38, 0x12}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0x84, 0x02, 0xf7, 0xc0, 0x78, 0x56, 0x34, 0x12}, 10, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0x04, 0x02, 0xf6, 0xc0, 0x12}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xf4, 0x84, 0x04, 0x85, 0xd9}, 6, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfc, 0x7f, 0x18, 0x42, 0xc0}, 6, COFI_CLASS_OTHER, 0},
    {64, {0xd5, 0x90, 0x22, 0xd8}, 4, COFI_CLASS_MOV_CR3, 0},
    {64, {0x62, 0xfb, 0xff, 0x08, 0xf0, 0xd8, 0x07}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfa, 0xe7, 0x08, 0xf5, 0x08}, 6, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xf9, 0x70, 0x48, 0x58, 0x14, 0x88}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfb, 0x75, 0x48, 0x25, 0x10, 0x03}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xf9, 0xff, 0x08, 0x92, 0xc8}, 6, COFI_CLASS_OTHER, 0},
    {64, {0xd5, 0x58, 0x69, 0xc8, 0x44, 0x33, 0x22, 0x11}, 8, COFI_CLASS_OTHER, 0},
    {64, {0xf0, 0xd5, 0x48, 0x01, 0x03}, 5, COFI_CLASS_OTHER, 0},
    {64, {0x65, 0xd5, 0x18, 0x8b, 0x00}, 5, COFI_CLASS_OTHER, 0},
    {64, {0xc4, 0xe7, 0x7b, 0xf8, 0xc0, 0x1b, 0x00, 0x00, 0x00}, 9, COFI_CLASS_OTHER, 0},
    {64, {0xc4, 0xe2, 0x68, 0xda, 0xd9}, 5, COFI_CLASS_OTHER, 0},
    {64, {0xc4, 0xe3, 0x69, 0xde, 0xd9, 0x01}, 6, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xf3, 0x6d, 0x48, 0x52, 0xd9, 0x01}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x48, 0x0f, 0x38, 0xfc, 0x03}, 5, COFI_CLASS_OTHER, 0},
    {64, {0x0f, 0x38, 0x8a, 0x18}, 4, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xfa, 0x7f, 0x08, 0x4b, 0x0c, 0x18}, 7, COFI_CLASS_OTHER, 0},
    {64, {0x62, 0xe4, 0xf4, 0x18, 0x24, 0xc3, 0x03}, 7, COFI_CLASS_OTHER, 0},
    {64, {0xd5, 0x08, 0xc3}, 3, COFI_CLASS_RET, 0},
    {64, {0xd5, 0x08, 0xc7, 0xf8, 0x10, 0, 0, 0}, 8, COFI_CLASS_TSX, 0x401018},
    {64, {0xd5, 0x80, 0x05}, 3, COFI_CLASS_FAR_CALL, 0},
    {32, {0x66, 0xeb, 0x10}, 3, COFI_CLASS_JMP, 0x1013},
    {32, {0xeb, 0x10}, 2, COFI_CLASS_JMP, 0x401012},
    {32, {0x9a, 1, 2, 3, 4, 5, 6}, 7, COFI_CLASS_FAR_CALL, 0},
    {32, {0xce}, 1, COFI_CLASS_OTHER, 0}, /* INTO, a branch only where it traps */
    {16, {0xe9, 0x10, 0x00}, 3, COFI_CLASS_JMP, 0x401013},
    {16, {0x74, 0xfe}, 2, COFI_CLASS_JCC, 0x401000},
    {16, {0x66, 0xe8, 0x10, 0x00, 0x01, 0x00}, 6, COFI_CLASS_CALL, 0x411016},
};

static void each_instruction_has_its_class_length_and_target(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cofi_insn insn;
        assert_int_equal(cofi_insn_decode(&insn, rows[i].mode, 0x401000, rows[i].bytes, 15), rows[i].length);
        assert_int_equal(insn.cls, rows[i].cls);
        assert_int_equal(insn.length, rows[i].length);
        assert_int_equal(insn.target, rows[i].target);
    }
}

static void a_branch_in_16_bit_code_wraps_around_only_where_the_segment_has_no_base(void **state)
{
    static const uint8_t back[] = {0xe9, 0x00, 0x80}; /* jmp -8000h */
    struct cofi_insn insn;
    (void)state;
    assert_int_equal(cofi_insn_decode(&insn, 16, 0x1000, back, 3), 3);
    assert_int_equal(insn.target, 0x9003);
    assert_int_equal(cofi_insn_decode(&insn, 16, 0x9f000, back, 3), 3);
    assert_int_equal(insn.target, 0x97003);
}

static void a_strict_prefix_is_truncated(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t n = 0; n < rows[i].length; n++) {
            struct cofi_insn insn;
            assert_int_equal(cofi_insn_decode(&insn, rows[i].mode, 0x401000, rows[i].bytes, n),
                             COFI_ERR_TRUNCATED);
        }
}

/* As snprintf has it: the whole length, whatever there is room for. */
static void text_is_cut_as_by_snprintf(void **state)
{
    static const uint8_t nop[] = {0x90};
    (void)state;
    assert_int_equal(cofi_insn_print(64, 0x401000, nop, 1, NULL, 0), 3);
    for (size_t size = 0; size < 6; size++) {
        char text[6] = "?????";
        assert_int_equal(cofi_insn_print(64, 0x401000, nop, 1, text, size), 3);
        assert_int_equal(text[size < 4 ? size : 4], '?');
        if (size)
            assert_string_equal(text, size == 1 ? "" : size == 2 ? "n" : size == 3 ? "no" : "nop");
    }
}

/* What none of both knows: ERETU in 32-bit code, WRMSRNS behind 66, ModRM of other instructions. */
static void what_is_no_instruction_is_refused(void **state)
{
    static const struct row bad[] = {
        {32, {0xf3, 0x0f, 0x01, 0xca}, 4, 0, 0}, {64, {0x66, 0x0f, 0x01, 0xc6}, 4, 0, 0},
        {64, {0xf2, 0x0f, 0x00, 0xf8}, 4, 0, 0}, {64, {0x0f, 0x01, 0xcc}, 3, 0, 0},
        /* REX2 before Jcc, a JMP, a prefix, an escape and more than 15 bytes; EVEX behind 66; VEX's map 4; AADD of registers */
        {64, {0xd5, 0x00, 0x74}, 3, 0, 0}, {64, {0xd5, 0x00, 0xe9}, 3, 0, 0}, {64, {0xd5, 0x80, 0x84}, 3, 0, 0}, {64, {0xd5, 0x00, 0x66}, 3, 0, 0},
        {64, {0xd5, 0x00, 0x0f}, 3, 0, 0}, {64, {0x67, 0x67, 0x67, 0x65, 0xd5, 0x00, 0x69, 0x84, 0x24}, 9, 0, 0},
        {64, {0x66, 0x62, 0xfc, 0xdc, 0x10, 0x81}, 6, 0, 0}, {64, {0xc4, 0xe4, 0x79, 0x01}, 4, 0, 0},
        {64, {0x48, 0x0f, 0x38, 0xfc, 0xc3}, 5, 0, 0}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct cofi_insn insn;
        char text[20];
        assert_int_equal(cofi_insn_decode(&insn, bad[i].mode, 0x401000, bad[i].bytes, 15), COFI_ERR_BAD_INSN);
        assert_int_equal(cofi_insn_print(bad[i].mode, 0, bad[i].bytes, 15, text, sizeof text), COFI_ERR_BAD_INSN);
    }
    char text[20];
    assert_int_equal(cofi_insn_print(64, 0, (const uint8_t[]){0xf3, 0x0f, 0x01, 0xca}, 4, text, sizeof text), 5);
    assert_string_equal(text, "eretu");
    assert_int_equal(cofi_insn_print(64, 0, (const uint8_t[]){0xd5, 0x00, 0xa1, 1, 2, 0, 0, 0, 0, 0, 0}, 11, text, sizeof text), 12);
    assert_string_equal(text, "jmpabs 0x201");
    assert_true(cofi_insn_print(64, 0, (const uint8_t[]){0xd5, 0x58, 0x01, 0xc1}, 4, NULL, 0) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_instruction_has_its_class_length_and_target),
        cmocka_unit_test(a_branch_in_16_bit_code_wraps_around_only_where_the_segment_has_no_base),
        cmocka_unit_test(a_strict_prefix_is_truncated),
        cmocka_unit_test(what_is_no_instruction_is_refused),
        cmocka_unit_test(text_is_cut_as_by_snprintf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
