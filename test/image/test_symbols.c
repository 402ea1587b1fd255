/* SPDX-License-Identifier: MIT
 * Symbols and source lines of this very program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <link.h>
#include <cmocka.h>

#include <cofi/image.h>

/* A function of a known name and line. */
static int known_line = __LINE__ + 1;
static int __attribute__((noinline)) known_function(int n)
{
    __asm__ volatile("");
    return n + 1;
}

/* What linkers and startup files call places in data; symbols without a type, as those of assembly are. */
static const char *const data_labels[] = {"__GNU_EH_FRAME_HDR", "data_start", "__data_start", "__bss_start", "_edata", "_end"};

static int find_base(struct dl_phdr_info *info, size_t size, void *opaque)
{
    (void)size;
    *(uint64_t *)opaque = info->dlpi_addr;
    return 1; /* the first one is the program */
}

static struct cofi_image *own_image(uint64_t *base)
{
    struct cofi_image *image;
    dl_iterate_phdr(find_base, base);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, "/proc/self/exe", *base, NULL), 0);
    return image;
}

static void a_function_has_its_name_offset_file_and_line(void **state)
{
    (void)state;
    uint64_t base, addr = (uint64_t)(uintptr_t)known_function;
    struct cofi_image *image = own_image(&base);
    struct cofi_view *view;
    struct cofi_symbol symbol;
    assert_int_equal(known_function(1), 2);
    assert_int_equal(cofi_view_open(&view, image), 0);
    cofi_view_symbol(view, addr + 1, true, &symbol);
    assert_string_equal(symbol.name, "known_function");
    assert_int_equal(symbol.offset, 1);
    assert_string_equal(symbol.module, "/proc/self/exe");
    assert_non_null(symbol.file);
    assert_non_null(strstr(symbol.file, "test_symbols.c"));
    assert_in_range(symbol.line, known_line, known_line + 3);
    struct cofi_code code;
    assert_int_equal(cofi_view_find(view, addr, &code), 0);
    assert_memory_equal(code.bytes + (addr - code.start), (const void *)known_function, 8);
    cofi_view_close(view);
    cofi_image_close(image);
}

static int look(void *opaque, const struct cofi_module_function *function)
{
    bool *found = opaque;
    if (function->name && !strcmp(function->name, "known_function"))
        *found = true;
    for (size_t i = 0; function->name && i < sizeof data_labels / sizeof *data_labels; i++)
        if (!strcmp(function->name, data_labels[i]))
            fail_msg("%s is no function", function->name);
    return 0;
}

static void labels_of_data_are_no_functions(void **state)
{
    (void)state;
    uint64_t base, own;
    bool found = false;
    struct cofi_image *image = own_image(&base);
    struct cofi_view *view;
    assert_int_equal(cofi_view_open(&view, image), 0);
    const struct cofi_module *module = cofi_view_module(view, (uint64_t)(uintptr_t)known_function, &own);
    assert_int_equal(cofi_module_functions(module, look, &found), 0);
    assert_true(found);
    cofi_view_close(view);
    cofi_image_close(image);
}

/* Its pages, as the kernel says. */
static size_t vdso_bytes(void)
{
    char line[512];
    unsigned long start, end, found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            found = end - start;
    if (maps)
        fclose(maps);
    return found;
}

static void the_vdso_has_symbols_from_its_bytes_alone(void **state)
{
    (void)state;
    const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
    if (!vdso)
        return; /* booted with vdso=0 */
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_symbol symbol;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x7ffff7fc0000, vdso, vdso_bytes(), "[vdso]"), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    bool found = false;
    for (uint64_t i = 0; i < 0x2000 && !found; i++) {
        cofi_view_symbol(view, 0x7ffff7fc0000 + i, true, &symbol);
        found = symbol.name && strstr(symbol.name, "gettime");
    }
    assert_true(found);
    assert_string_equal(symbol.module, "[vdso]");
    cofi_view_close(view);
    cofi_image_close(image);
}

static void a_stub_of_the_plt_is_named_after_what_it_calls(void **state)
{
    (void)state;
    uint64_t base;
    struct cofi_image *image = own_image(&base);
    struct cofi_view *view;
    struct cofi_symbol symbol;
    assert_int_equal(cofi_view_open(&view, image), 0);
    bool stub = false, first = false;
    for (uint64_t i = 0x1000; i < 0x400000 && !(stub && first); i += 16) {
        cofi_view_symbol(view, base + i, false, &symbol);
        stub |= symbol.name && !strcmp(symbol.name, "dl_iterate_phdr@plt");
        first |= symbol.name && !strcmp(symbol.name, ".plt") && !symbol.offset;
    }
    assert_true(stub);
    assert_true(first);
    cofi_view_close(view);
    cofi_image_close(image);
}

/* How many bytes of a file's first pages are in a function of that name. */
static unsigned bytes_of(const char *path, const char *name)
{
    enum { AT = 0x10000000 };
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_symbol symbol;
    unsigned n = 0;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, path, AT, NULL), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    for (uint64_t i = 0; i < 0x4000; i++) {
        cofi_view_symbol(view, AT + i, false, &symbol);
        n += symbol.name && !strcmp(symbol.name, name);
    }
    cofi_view_close(view);
    cofi_image_close(image);
    return n;
}

/* Their relocations are shorter (REL), and position-independent stubs jump by EBX. */
static void stubs_of_a_32_bit_library_are_named_too(void **state)
{
    (void)state;
    char folder[] = "/tmp/cofi-plt-XXXXXX", command[400], path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cd %s && echo '.globl f; f: call first@PLT; call second@PLT; ret' | as --32 -o f.o - && "
             "ld -m elf_i386 -shared -z lazy -o f.so f.o", folder);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/f.so", folder);
    assert_int_equal(bytes_of(path, "first@plt"), 16);
    assert_int_equal(bytes_of(path, "second@plt"), 16);
    assert_int_equal(bytes_of(path, ".plt"), 16);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_has_its_name_offset_file_and_line),
        cmocka_unit_test(labels_of_data_are_no_functions),
        cmocka_unit_test(the_vdso_has_symbols_from_its_bytes_alone),
        cmocka_unit_test(a_stub_of_the_plt_is_named_after_what_it_calls),
        cmocka_unit_test(stubs_of_a_32_bit_library_are_named_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
