/* SPDX-License-Identifier: MIT
 * Where the kernel's code is found: kcore, a vmlinux moved by KASLR, the cached vDSO; and what is refused. */
#include "sample.h"

#include "base/bytes.h"
#include "trace/perf_data.h"
#include "trace/reader.h"

#include <elf.h>
#include <sys/auxv.h>

#include "base/bytes.h"

#define TEXT UINT64_C(0xffffffff81000000)
static const uint8_t id_bytes[20] = {0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

/* An ELF of 0x2000 bytes: a loadable part of 0x1000 bytes at vaddr, filled with a byte; a build id; _text. */
static void write_elf(const char *path, uint64_t vaddr, uint8_t fill)
{
    static uint8_t file[0x2400];
    Elf64_Ehdr ehdr = {.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64,
                       .e_phentsize = 56, .e_phnum = 2, .e_shentsize = 64, .e_shoff = 0x2000, .e_shnum = 5,
                       .e_shstrndx = 3};
    Elf64_Phdr phdrs[2] = {
        {.p_type = PT_LOAD, .p_flags = 5, .p_offset = 0x1000, .p_vaddr = vaddr, .p_filesz = 0x1000, .p_memsz = 0x1000},
        {.p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = 36, .p_memsz = 36, .p_align = 4}};
    static const char names[] = "\0_text\0.symtab\0.strtab";
    Elf64_Sym symbols[2] = {{0}, {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 2,
                                  .st_value = vaddr, .st_size = 0x100}};
    Elf64_Shdr sections[5] = {
        {0},
        {.sh_type = SHT_SYMTAB, .sh_name = 7, .sh_offset = 0x400, .sh_size = sizeof symbols, .sh_link = 3,
         .sh_info = 1, .sh_entsize = sizeof *symbols, .sh_addralign = 8},
        {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = vaddr, .sh_offset = 0x1000,
         .sh_size = 0x1000},
        {.sh_type = SHT_STRTAB, .sh_name = 15, .sh_offset = 0x500, .sh_size = sizeof names},
        {.sh_type = SHT_NOTE, .sh_flags = SHF_ALLOC, .sh_offset = 0x200, .sh_size = 36, .sh_addralign = 4}};
    memcpy(ehdr.e_ident, "\177ELF\2\1\1", 7);
    memset(file, 0, sizeof file);
    memcpy(file, &ehdr, sizeof ehdr);
    memcpy(file + 64, phdrs, sizeof phdrs);
    memcpy(file + 0x200, "\4\0\0\0\x14\0\0\0\3\0\0\0GNU", 16);
    memcpy(file + 0x210, id_bytes, 20);
    memcpy(file + 0x400, symbols, sizeof symbols);
    memcpy(file + 0x500, names, sizeof names);
    memcpy(file + 0x2000, sections, sizeof sections);
    memset(file + 0x1000, fill, 0x1000);
    write_whole(path, file, sizeof file);
}

static void write_kernel_sample(const char *path, uint64_t text)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    struct cofi_sideband kernel = {.kind = COFI_SB_MMAP, .pid = -1, .tid = 0, .kernel = true, .addr = text,
                                   .len = 0x2000000, .pgoff = text, .name = "[kernel.kallsyms]_text",
                                   .build_id_size = 20};
    struct cofi_sideband module = {.kind = COFI_SB_MMAP, .pid = -1, .tid = 0, .kernel = true,
                                   .addr = 0xffffffffc0000000, .len = 0x1000, .name = "/lib/modules/1/x.ko"};
    struct cofi_sideband vdso = {.kind = COFI_SB_MMAP, .pid = 7, .tid = 7, .addr = 0x7fff00001000, .len = 0x1000,
                                 .name = "[vdso]", .build_id_size = 20};
    memcpy(kernel.build_id, id_bytes, 20);
    memcpy(vdso.build_id, id_bytes, 20);
    put(writer, kernel);
    put(writer, module);
    put(writer, vdso);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_COMM, .pid = 7, .tid = 7, .name = "x"});
    put(writer, (struct cofi_sideband){.kind = COFI_SB_TEXT_POKE, .pid = -1, .kernel = true, .time_ns = 50,
                                       .addr = text + 0x10, .bytes = (const uint8_t *)"\xcc\xcc", .len = 2});
    assert_int_equal(cofi_writer_trace(writer, 7, 7, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
}

/* The byte at an address as process 7 sees it at a time; -1 and *why if none. */
static int byte_at(const char *path, uint64_t time_ns, uint64_t addr, char why[500])
{
    struct cofi_recording *recording;
    struct cofi_view *view;
    struct cofi_code code;
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 7)), 0);
    cofi_view_advance(view, time_ns, NULL, NULL);
    int byte = cofi_view_find(view, addr, &code) < 0 ? -1 : code.bytes[addr - code.start];
    snprintf(why, 500, "%s", cofi_view_why(view));
    cofi_view_close(view);
    cofi_recording_close(recording);
    return byte;
}

static void a_kcore_beside_the_data_shows_the_kernel_and_its_modules(void **state)
{
    (void)state;
    char why[500];
    assert_int_equal(mkdir(scratch_path("k.data"), 0700), 0);
    assert_int_equal(mkdir(scratch_path("k.data/kcore_dir"), 0700), 0);
    write_kernel_sample(scratch_path("k.data/data"), TEXT);
    write_elf(scratch_path("k.data/kcore_dir/kcore"), TEXT, 'k');
    assert_int_equal(byte_at(scratch_path("k.data"), 0, TEXT + 0x10, why), 'k');
    assert_int_equal(byte_at(scratch_path("k.data"), 50, TEXT + 0x10, why), 0xcc);
    assert_int_equal(byte_at(scratch_path("k.data"), 50, TEXT + 0x12, why), 'k');
}

/* Code that the kernel pokes where no file is, and what it calls it (a BPF program). */
static void code_that_the_kernel_made_has_its_name(void **state)
{
    (void)state;
    static const uint8_t ksymbol[72] = {PERF_KSYMBOL, 0, 0, 0, 0, 0, 72, 0, [16] = 0x20, [20] = 1,
                                        [24] = 'b', 'p', 'f', '_', 'p', 'r', 'o', 'g', [64] = ID_SIDEBAND};
    const char *path = scratch_path("bpf.data");
    struct cofi_recording *recording;
    struct cofi_view *view;
    struct cofi_symbol symbol;
    size_t n;
    write_kernel_sample(path, TEXT);
    uint8_t *bytes = read_whole(path, &n), *more;
    n = le64(bytes + 40) + le64(bytes + 48); /* as a recorder leaves it that was killed */
    put_le(bytes + 48, 0, 8);
    memset(bytes + 72, 0, 32);
    more = realloc(bytes, n + sizeof ksymbol);
    assert_non_null(more);
    memcpy(more + n, ksymbol, sizeof ksymbol);
    put_le(more + n + 8, TEXT + 0x10, 8);
    write_whole(path, more, n + sizeof ksymbol);
    free(more);
    assert_int_equal(cofi_recording_open(&recording, path, NULL), 0);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 7)), 0);
    cofi_view_advance(view, 50, NULL, NULL);
    cofi_view_symbol(view, TEXT + 0x11, false, &symbol);
    assert_non_null(symbol.name);
    assert_string_equal(symbol.name, "bpf_prog");
    assert_int_equal(symbol.offset, 1);
    cofi_view_close(view);
    cofi_recording_close(recording);
}

static void without_a_kernel_the_reason_says_what_to_record(void **state)
{
    (void)state;
    char why[500];
    setenv("HOME", scratch, 1);
    write_kernel_sample(scratch_path("n.data"), TEXT);
    assert_int_equal(byte_at(scratch_path("n.data"), 0, TEXT, why), -1);
    assert_non_null(strstr(why, "perf record --kcore"));
    assert_int_equal(byte_at(scratch_path("n.data"), 0, 0xffffffffc0000010, why), -1);
    assert_non_null(strstr(why, "no such file"));
    assert_int_equal(byte_at(scratch_path("n.data"), 0, 0x7fff00001000, why), -1);
    assert_non_null(strstr(why, "[vdso]"));
}

static void a_cached_vmlinux_is_moved_to_where_the_kernel_was(void **state)
{
    (void)state;
    char why[500], folder[200];
    setenv("HOME", scratch, 1);
    snprintf(folder, sizeof folder, "mkdir -p %s/.debug/.build-id/ab/cd0102030405060708090a0b0c0d0e0f101112", scratch);
    assert_int_equal(system(folder), 0);
    write_elf(scratch_path(".debug/.build-id/ab/cd0102030405060708090a0b0c0d0e0f101112/elf"), TEXT, 'v');
    write_elf(scratch_path(".debug/.build-id/ab/cd0102030405060708090a0b0c0d0e0f101112/vdso"), 0, 'd');
    write_kernel_sample(scratch_path("v.data"), TEXT + 0x1a000000);
    assert_int_equal(byte_at(scratch_path("v.data"), 0, TEXT + 0x1a000000, why), 'v');
    assert_int_equal(byte_at(scratch_path("v.data"), 0, TEXT + 0x1a000fff, why), 'v');
    assert_int_equal(byte_at(scratch_path("v.data"), 50, TEXT + 0x1a000011, why), 0xcc);
    assert_int_equal(byte_at(scratch_path("v.data"), 0, TEXT, why), -1);
    assert_int_equal(byte_at(scratch_path("v.data"), 0, 0x7fff00001000, why), 0x7f); /* its ELF header */
}

/* With a build id, the file is as a recorder leaves it that was killed. */
static void write_vdso_sample(const char *path, uint64_t addr, const char *build_id_name)
{
    struct cofi_recording_info info = sample_info();
    struct cofi_writer *writer;
    uint8_t id[48] = {PERF_HEADER_BUILD_ID, 0, 0, 0, 0, 0, 48};
    size_t n;
    assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = 7, .tid = 7, .addr = addr, .len = 0x1000, .name = "[vdso]"});
    assert_int_equal(cofi_writer_trace(writer, 7, 7, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    if (!build_id_name)
        return;
    uint8_t *bytes = read_whole(path, &n), *more;
    n = le64(bytes + 40);
    more = malloc(le64(bytes + 48) + n + sizeof id);
    assert_non_null(more);
    memcpy(id + 12, id_bytes, 20);
    memcpy(id + 36, build_id_name, strlen(build_id_name));
    memcpy(more, bytes, n);
    memcpy(more + n, id, sizeof id);
    memcpy(more + n + sizeof id, bytes + n, le64(bytes + 48));
    n += le64(bytes + 48) + sizeof id;
    put_le(more + 48, 0, 8);
    memset(more + 72, 0, 32);
    write_whole(path, more, n);
    free(bytes);
    free(more);
}

/* This process's own is a 64-bit program's, and so is the one that the table has under that name. */
static void the_vdso_of_a_32_bit_program_is_not_a_64_bit_programs(void **state)
{
    (void)state;
    char why[500];
    const char *path = scratch_path("vdso.data");
    setenv("HOME", scratch, 1);
    run_command("mkdir -p %s/.debug/.build-id/ab/cd0102030405060708090a0b0c0d0e0f101112", scratch);
    write_elf(scratch_path(".debug/.build-id/ab/cd0102030405060708090a0b0c0d0e0f101112/vdso"), 0, 'd');
    write_vdso_sample(path, 0xf7fc1000, NULL);
    assert_int_equal(byte_at(path, 0, 0xf7fc1000, why), -1);
    assert_non_null(strstr(why, "32-bit"));
    write_vdso_sample(path, 0xf7fc1000, "[vdso]");
    assert_int_equal(byte_at(path, 0, 0xf7fc1000, why), -1);
    write_vdso_sample(path, 0xf7fc1000, "[vdso32]");
    assert_int_equal(byte_at(path, 0, 0xf7fc1000, why), 0x7f);
    write_vdso_sample(path, 0x7ffff7fc1000, "[vdso]");
    assert_int_equal(byte_at(path, 0, 0x7ffff7fc1000, why), 0x7f);
    write_vdso_sample(path, 0x7ffff7fc1000, NULL);
    assert_int_equal(byte_at(path, 0, 0x7ffff7fc1000, why), 0x7f);
}

/* On another processor this process's own is none of a recorded program's. */
static void another_processor_s_vdso_is_no_code(void **state)
{
    (void)state;
    static _Alignas(8) uint8_t page[4096];
    Elf64_Ehdr ehdr = {.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64,
                       .e_phentsize = 56, .e_phnum = 1};
    Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = 5, .p_filesz = 0x1234, .p_memsz = 0x1234};
    memcpy(ehdr.e_ident, "\177ELF\2\1\1", 7);
    memcpy(page, &ehdr, sizeof ehdr);
    memcpy(page + 64, &load, sizeof load);
    assert_int_equal(cofi__vdso_bytes(page), 0x2000);
    ehdr.e_machine = EM_AARCH64;
    memcpy(page, &ehdr, sizeof ehdr);
    assert_int_equal(cofi__vdso_bytes(page), 0);
    assert_int_equal(cofi__vdso_bytes(NULL), 0);
}

/* Where the record itself has a build id (perf record --buildid-mmap), this process's own is taken if it has that one. */
static void this_process_s_vdso_is_taken_by_its_build_id(void **state)
{
    (void)state;
    char why[500];
    const char *path = scratch_path("own.data");
    const uint8_t *own = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
    const uint8_t *note = own ? memmem(own, 4096, "\4\0\0\0\x14\0\0\0\3\0\0\0GNU", 16) : NULL;
    if (!note)
        skip();
    setenv("HOME", scratch_path("nobody"), 1);
    for (int other = 0; other < 2; other++) {
        struct cofi_recording_info info = sample_info();
        struct cofi_writer *writer;
        struct cofi_sideband vdso = {.kind = COFI_SB_MMAP, .pid = 7, .tid = 7, .addr = 0x7fff00001000, .len = 0x4000, .name = "[vdso]",
                                     .build_id_size = 20};
        memcpy(vdso.build_id, note + 16, 20);
        vdso.build_id[19] ^= (uint8_t)other;
        assert_int_equal(cofi_writer_open(&writer, path, &info, NULL), 0);
        put(writer, vdso);
        assert_int_equal(cofi_writer_trace(writer, 7, 7, sample_trace, sizeof sample_trace, 1), 0);
        assert_int_equal(cofi_writer_close(writer, NULL), 0);
        assert_int_equal(byte_at(path, 0, 0x7fff00001000, why), other ? -1 : 0x7f);
    }
}

/* A vDSO that was recorded page by page is one file, which has names; another process's pieces lie between. */
static void a_vdso_in_pieces_has_names(void **state)
{
    (void)state;
    enum { PAGE = 0x1000, BASE = 0x7ff000 };
    struct cofi_recording_info info = sample_info();
    struct cofi_recording *recording;
    struct cofi_writer *writer;
    struct cofi_view *view;
    struct cofi_symbol symbol;
    size_t n;
    write_elf(scratch_path("pieces"), PAGE, 'p');
    uint8_t *file = read_whole(scratch_path("pieces"), &n);
    assert_int_equal(cofi_writer_open(&writer, scratch_path("pieces.data"), &info, NULL), 0);
    put(writer, (struct cofi_sideband){.kind = COFI_SB_MMAP, .pid = 7, .tid = 7, .addr = BASE, .len = 3 * PAGE, .name = "[vdso]"});
    for (size_t at = 0; at < n; at += PAGE) {
        put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 7, .tid = 7, .addr = BASE + at, .bytes = file + at,
                                           .len = n - at < PAGE ? n - at : PAGE});
        put(writer, (struct cofi_sideband){.kind = COFI_SB_CODE, .pid = 8, .tid = 8, .addr = BASE + at + PAGE, .bytes = file, .len = 16});
    }
    assert_int_equal(cofi_writer_trace(writer, 7, 7, sample_trace, sizeof sample_trace, 1), 0);
    assert_int_equal(cofi_writer_close(writer, NULL), 0);
    free(file);
    assert_int_equal(cofi_recording_open(&recording, scratch_path("pieces.data"), NULL), 0);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 7)), 0);
    cofi_view_advance(view, 1000, NULL, NULL);
    cofi_view_symbol(view, BASE + PAGE + 0x10, false, &symbol);
    assert_string_equal(symbol.name, "_text");
    assert_int_equal(symbol.offset, 0x10);
    cofi_view_close(view);
    cofi_recording_close(recording);
}

/* --kallsyms: of that boot, or of the build, below which the kernel was moved. */
static void names_that_are_told_are_moved_to_where_the_kernel_was(void **state)
{
    (void)state;
    static const char map[] = "ffffffff81000000 T _text\nffffffff81000010 T poked\nffffffff81000020 t next\nffffffffc0000000 T other\t[module]\n";
    const char *path = scratch_path("names.data");
    struct cofi_recording_options options = {.size = sizeof options, .kallsyms = scratch_path("System.map")};
    struct cofi_recording *recording;
    struct cofi_view *view;
    struct cofi_symbol symbol;
    write_kernel_sample(path, TEXT + 0x3a000000);
    write_whole(options.kallsyms, (const uint8_t *)map, sizeof map - 1);
    assert_int_equal(cofi_recording_open_with(&recording, path, &options, NULL), 0);
    assert_int_equal(cofi_view_open(&view, cofi_recording_image(recording, 7)), 0);
    cofi_view_advance(view, 50, NULL, NULL);
    cofi_view_symbol(view, TEXT + 0x3a000011, false, &symbol);
    assert_non_null(symbol.name);
    assert_string_equal(symbol.name, "poked");
    assert_int_equal(symbol.offset, 1);
    cofi_view_symbol(view, UINT64_C(0xffffffffc0000000) + 0x3a000000, false, &symbol);
    assert_null(symbol.name); /* a module's place has nothing to do with the kernel's */
    cofi_view_close(view);
    cofi_recording_close(recording);
}

static void names_that_cannot_be_told_are_said_to_be_missing(void **state)
{
    (void)state;
    static const char stand_in[] = "ffffffffffffffff B The real System.map is in another package\n";
    const char *path = scratch_path("nameless.data");
    struct cofi_recording_options options = {.size = sizeof options, .kallsyms = scratch_path("stand-in")};
    struct cofi_recording *recording;
    write_kernel_sample(path, TEXT + 0x3a000000);
    write_whole(options.kallsyms, (const uint8_t *)stand_in, sizeof stand_in - 1);
    assert_int_equal(cofi_recording_open_with(&recording, path, &options, NULL), 0);
    assert_non_null(cofi_recording_warning(recording, 0));
    assert_non_null(strstr(cofi_recording_warning(recording, 0), "stand-in: no address of _text in it"));
    assert_null(cofi_recording_warning(recording, 1));
    cofi_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kcore_beside_the_data_shows_the_kernel_and_its_modules),
        cmocka_unit_test(code_that_the_kernel_made_has_its_name),
        cmocka_unit_test(without_a_kernel_the_reason_says_what_to_record),
        cmocka_unit_test(a_cached_vmlinux_is_moved_to_where_the_kernel_was),
        cmocka_unit_test(the_vdso_of_a_32_bit_program_is_not_a_64_bit_programs),
        cmocka_unit_test(another_processor_s_vdso_is_no_code),
        cmocka_unit_test(this_process_s_vdso_is_taken_by_its_build_id),
        cmocka_unit_test(a_vdso_in_pieces_has_names),
        cmocka_unit_test(names_that_are_told_are_moved_to_where_the_kernel_was),
        cmocka_unit_test(names_that_cannot_be_told_are_said_to_be_missing),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
