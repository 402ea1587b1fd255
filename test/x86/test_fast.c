/* SPDX-License-Identifier: MIT
 * The table decoder against Zydis: on random bytes, and on the code of the programs installed here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "x86/fast.h"
#include "x86/insn_zydis.h"
#include "x86/usual.h"

static ZydisDecoder decoder;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void print_bytes(const char *what, const uint8_t *p)
{
    fprintf(stderr, "%s:", what);
    for (int i = 0; i < 15; i++)
        fprintf(stderr, " %02x", p[i]);
    fputc('\n', stderr);
}

/* SIB with base 101 under mod 00 has no base, whatever REX.B says (SDM volume 2, 32-bit addressing forms with the SIB byte).
 * Zydis 4.0 names R13D there when the address size is 32; the processor does not add it (measured with LEA). */
static bool has_no_base(const ZydisDecodedInstruction *zy)
{
    return zy->raw.sib.offset && zy->raw.modrm.mod == 0 && zy->raw.sib.base == 5;
}

static uint32_t zydis_registers(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    uint32_t used = zy->mnemonic == ZYDIS_MNEMONIC_PAUSE && zy->raw.rex.B ? 1 << 8 : 0; /* an XCHG to processors */
    for (unsigned i = 0; i < zy->operand_count_visible; i++) {
        ZydisRegister regs[3] = {ops[i].reg.value};
        if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
            regs[0] = has_no_base(zy) ? ZYDIS_REGISTER_NONE : ops[i].mem.base, regs[1] = ops[i].mem.index;
        else if (ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER)
            continue;
        for (unsigned r = 0; r < 2; r++) {
            ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, regs[r]);
            if (wide >= ZYDIS_REGISTER_RAX && wide <= ZYDIS_REGISTER_R15)
                used |= 1u << (wide - ZYDIS_REGISTER_RAX);
        }
    }
    return used;
}

/* RCX and RDX, hidden operands included: bits 1 and 2. */
static uint32_t zydis_touches(const ZydisDecodedInstruction *zy, const ZydisDecodedOperand *ops)
{
    uint32_t used = 0;
    for (unsigned i = 0; i < zy->operand_count; i++) {
        bool memory = ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY;
        ZydisRegister regs[2] = {memory ? ops[i].mem.base : ops[i].reg.value, memory ? ops[i].mem.index : ZYDIS_REGISTER_NONE};
        for (unsigned r = 0; r < 2 && (memory || ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER); r++) {
            ZydisRegister wide = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, regs[r]);
            used |= (wide == ZYDIS_REGISTER_RCX ? 2u : 0) | (wide == ZYDIS_REGISTER_RDX ? 4u : 0);
        }
    }
    return used;
}

/* What the translator relies on: length, and which of r8..r15 are named. Returns whether all agrees. */
static bool layout_agrees(const uint8_t *p, size_t n)
{
    struct cofi__fast x;
    ZydisDecodedInstruction zy;
    ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, p, n, &zy, ops)))
        return true;
    if (zy.encoding == ZYDIS_INSTRUCTION_ENCODING_3DNOW || zy.encoding == ZYDIS_INSTRUCTION_ENCODING_XOP ||
        zy.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX)
        return true;
    if (zy.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX && !zy.raw.vex.m_mmmm)
        return true; /* JKZD and JKNZD of Knights Corner, which no 64-bit Linux program has */
    int length = cofi__fast_decode(&x, p, n);
    bool writes_flags = zy.cpu_flags && zy.cpu_flags->tested;
    return length == zy.length && !(zydis_touches(&zy, ops) & ~cofi__fast_touches(&x, cofi__fast_registers(&x))) &&
           (cofi__fast_registers(&x) & 0xff00) == (zydis_registers(&zy, ops) & 0xff00) &&
           (x.attr & COFI__FAST_MOFFS || (x.imm_bytes != 0) == (zy.raw.imm[0].size != 0)) &&
           (x.attr & COFI__FAST_MOFFS || x.disp == zy.raw.disp.value) &&
           (!writes_flags || x.attr & COFI__FAST_FLAGS_READ);
}

static bool decode_agrees(const uint8_t *p, size_t n)
{
    struct cofi_insn fast = {0}, slow = {0};
    int a = cofi_insn_decode(&fast, 64, 0x401000, p, n);
    int b = cofi__insn_decode_zydis(&slow, 64, 0x401000, p, n);
    return a == b && (a < 0 || memcmp(&fast, &slow, sizeof fast) == 0);
}

/* What is said of usual ones is what is said of any; x is as it was decoded. */
static bool usual_agrees(const uint8_t *p, size_t n)
{
    struct cofi__fast x;
    struct cofi__usual u = n < 15 ? (struct cofi__usual){0} : cofi__usual(p);
    unsigned length = n < 15 ? 0 : cofi__usual_length(p);
    if (!length)
        return !u.length;
    if (cofi__fast_decode(&x, p, n) != (int)length || cofi__fast_class(&x) || x.prefixes || x.attr & COFI__FAST_SLOW)
        return false;
    if (!u.length)
        return x.rip_relative || x.sib_offset;
    uint32_t used = cofi__fast_registers(&x);
    return used == u.registers && cofi__fast_touches(&x, used) == u.touches && u.length == length && !x.rip_relative;
}

static unsigned disagreements;

static void check(const uint8_t *p, size_t n)
{
    bool layout = layout_agrees(p, n), decode = decode_agrees(p, n);
    bool usual = usual_agrees(p, n);
    if (layout && decode && usual)
        return;
    if (++disagreements <= 20)
        print_bytes(!usual ? "usual" : layout ? "decode" : "layout", p);
}

static void none_disagreed(void)
{
    unsigned n = disagreements;
    disagreements = 0;
    assert_int_equal(n, 0);
}

/* Bytes that look like code: prefixes now and then, all maps, every ModRM. */
static void random_code(uint64_t *state, uint8_t *p)
{
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x67, 0x64, 0x65, 0x2e, 0xf0, 0x48, 0x4c, 0x41, 0x44, 0x4f};
    unsigned n = 0;
    uint64_t r = next_random(state);
    for (unsigned i = 0; i < 15; i++)
        p[i] = (uint8_t)next_random(state);
    for (; (r & 3) == 0 && n < 4; r >>= 2)
        p[n++] = prefixes[next_random(state) % sizeof prefixes];
    switch (next_random(state) % 6) {
    case 0: p[n++] = 0x0f; break;
    case 1: p[n++] = 0x0f; p[n++] = 0x38; break;
    case 2: p[n++] = 0x0f; p[n++] = 0x3a; break;
    case 3: p[n++] = 0xc4; p[n] = (p[n] & 0xe0) | (1 + p[n] % 3); break;
    case 4: p[n++] = 0x62; p[n] = (p[n] & 0xf0) | (1 + p[n] % 6); p[n + 1] |= 4; break;
    default: break; /* one-byte opcodes */
    }
}

static void random_encodings_decode_as_zydis_decodes_them(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    uint8_t p[16];
    for (int i = 0; i < 1000000; i++) {
        random_code(&seed, p);
        check(p, 15);
    }
    none_disagreed();
}

static void truncated_encodings_are_refused_as_zydis_refuses_them(void **state)
{
    (void)state;
    uint64_t seed = 1234567;
    uint8_t p[16];
    for (int i = 0; i < 100000; i++) {
        random_code(&seed, p);
        check(p, next_random(&seed) % 15);
    }
    none_disagreed();
}

static void check_32(const uint8_t *p, size_t n)
{
    struct cofi_insn fast = {0}, slow = {0};
    int a = cofi_insn_decode(&fast, 32, 0xfffff000, p, n), b = cofi__insn_decode_zydis(&slow, 32, 0xfffff000, p, n);
    if ((a != b || (a > 0 && memcmp(&fast, &slow, sizeof fast))) && ++disagreements <= 20)
        print_bytes("32-bit", p);
}

/* 40h to 4Fh, which are no prefixes there, among them. */
static void random_32_bit_encodings_decode_as_zydis_decodes_them(void **state)
{
    (void)state;
    uint64_t seed = 362436069;
    uint8_t p[16];
    for (int i = 0; i < 1000000; i++) {
        random_code(&seed, p);
        check_32(p, i % 8 ? 15 : next_random(&seed) % 15);
    }
    none_disagreed();
}

/* Every opcode of every map with each ModRM byte, under each prefix that may change what it is. */
static void all_32_bit_opcodes_decode_as_zydis_decodes_them(void **state)
{
    static const uint8_t escapes[][2] = {{0}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}}, prefixes[] = {0, 0x66, 0xf2, 0xf3, 0x67, 0xf0, 0x2e};
    (void)state;
    for (unsigned i = 0; i < 4 * 7 * 65536; i++) {
        uint8_t p[15] = {0};
        unsigned n = 0, map = i >> 16 & 3;
        if (prefixes[i >> 18])
            p[n++] = prefixes[i >> 18];
        for (unsigned e = 0; e < map && e < 2; e++)
            p[n++] = escapes[map][e];
        p[n++] = (uint8_t)(i >> 8);
        p[n++] = (uint8_t)i;
        memcpy(p + n, "\x1d\x9c\xf1\x7e\x81\x92", 6);
        check_32(p, 15);
    }
    none_disagreed();
}

static uint64_t swept_bytes, sweep_limit;

static void sweep(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i + 15 <= n;) {
        struct cofi_insn insn;
        check(p + i, n - i < 15 ? n - i : 15);
        int length = cofi_insn_decode(&insn, 64, 0x401000, p + i, n - i);
        i += length > 0 ? (size_t)length : 1;
    }
    swept_bytes += n;
}

static int sweep_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || (size_t)st->st_size < sizeof(Elf64_Ehdr) || swept_bytes > sweep_limit)
        return swept_bytes > sweep_limit;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t size = (size_t)st->st_size;
    uint8_t *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return 0;
    Elf64_Ehdr eh;
    memcpy(&eh, p, sizeof eh);
    if (!memcmp(eh.e_ident, ELFMAG "\2", 5) && eh.e_machine == EM_X86_64)
        for (unsigned i = 0; i < eh.e_phnum; i++) {
            Elf64_Phdr ph;
            if (eh.e_phoff + (i + 1) * sizeof ph > size)
                break;
            memcpy(&ph, p + eh.e_phoff + i * sizeof ph, sizeof ph);
            if (ph.p_type == PT_LOAD && ph.p_flags & PF_X && ph.p_offset + ph.p_filesz <= size)
                sweep(p + ph.p_offset, ph.p_filesz);
        }
    munmap(p, size);
    return 0;
}

static void pause_with_rex_b_names_r8_as_processors_exchange_it(void **state)
{
    static const uint8_t plain[] = {0xf3, 0x90}, b[] = {0xf3, 0x49, 0x90};
    struct cofi__fast x;
    (void)state;
    assert_int_equal(cofi__fast_decode(&x, b, sizeof b), 3);
    assert_int_equal(cofi__fast_registers(&x) & 0xff00, 1 << 8);
    assert_int_equal(cofi__fast_decode(&x, plain, sizeof plain), 2);
    assert_int_equal(cofi__fast_registers(&x) & 0xff00, 0);
}

/* VADDPS zmm0, zmm1, [rax], and [r16] (APX), whose register the table's user would take for another. */
static void evex_with_registers_of_apx_is_not_in_the_table(void **state)
{
    static const uint8_t plain[] = {0x62, 0xf1, 0x74, 0x48, 0x58, 0x00}, apx[] = {0x62, 0xf9, 0x74, 0x48, 0x58, 0x00};
    struct cofi__fast x;
    (void)state;
    assert_int_equal(cofi__fast_decode(&x, plain, sizeof plain), 6);
    assert_int_equal(cofi__fast_decode(&x, apx, sizeof apx), -1);
}

/* COFI_SWEEP_MB sets how much of the installed code is compared; all of it by hand. */
/* SDM volume 2, ModR/M and SIB Bytes. */
static void usual_ones_have_their_length_with_and_without_a_base(void **state)
{
    static const struct {
        uint8_t bytes[15];
        unsigned length, registers_too;
    } cases[] = {
        {{0x48, 0x89, 0xd8}, 3, 1},                        /* mov rax, rbx */
        {{0x8b, 0x44, 0x88, 0x10}, 4, 1},                  /* mov eax, [rax + rcx * 4 + 16] */
        {{0x8b, 0x05, 1, 0, 0, 0}, 6, 0},                  /* mov eax, [rip + 1] */
        {{0x8b, 0x04, 0x25, 1, 0, 0, 0}, 7, 0},            /* mov eax, [1] */
        {{0x4a, 0x8b, 0x04, 0xe5, 1, 0, 0, 0}, 8, 0},      /* mov rax, [r12 * 8 + 1] */
        {{0xc7, 0x04, 0x25, 1, 0, 0, 0, 2, 0, 0, 0}, 11, 0}, /* mov dword [1], 2 */
        {{0x8b, 0x44, 0x25, 1}, 4, 1},                     /* mov eax, [rbp + 1]: a base after all */
        {{0x0f, 0xb6, 0x05, 1, 0, 0, 0}, 7, 0},            /* movzx eax, byte [rip + 1] */
        {{0x74, 0}, 0, 0}, {{0xc3}, 0, 0}, {{0x66, 0x90}, 0, 0}, {{0x0f, 0x05}, 0, 0}, {{0xf0, 0xff, 0x00}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(cofi__usual_length(cases[i].bytes), cases[i].length);
        assert_int_equal(cofi__usual(cases[i].bytes).length, cases[i].registers_too * cases[i].length);
    }
    (void)state;
}

static void installed_programs_decode_as_zydis_decodes_them(void **state)
{
    (void)state;
    const char *mb = getenv("COFI_SWEEP_MB");
    sweep_limit = (mb ? strtoull(mb, NULL, 0) : 4) << 20;
    nftw("/usr/bin", sweep_file, 16, FTW_PHYS);
    nftw("/usr/lib", sweep_file, 16, FTW_PHYS);
    print_message("# %llu bytes of code\n", (unsigned long long)swept_bytes);
    none_disagreed();
    assert_true(swept_bytes > 0);
}

int main(void)
{
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_encodings_decode_as_zydis_decodes_them),
        cmocka_unit_test(truncated_encodings_are_refused_as_zydis_refuses_them),
        cmocka_unit_test(random_32_bit_encodings_decode_as_zydis_decodes_them),
        cmocka_unit_test(all_32_bit_opcodes_decode_as_zydis_decodes_them),
        cmocka_unit_test(pause_with_rex_b_names_r8_as_processors_exchange_it),
        cmocka_unit_test(evex_with_registers_of_apx_is_not_in_the_table),
        cmocka_unit_test(usual_ones_have_their_length_with_and_without_a_base),
        cmocka_unit_test(installed_programs_decode_as_zydis_decodes_them),
    };
#ifndef __x86_64__ /* they may be another processor's */
    cmocka_set_skip_filter("installed_*");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
