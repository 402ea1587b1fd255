/* SPDX-License-Identifier: MIT
 * PE files: which are taken, and what of them is where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <cofi/image.h>

/* A library of Windows': header, a section that lies elsewhere in memory than in the file, and one that is larger in memory. */
enum { ADDR = 0x10000, BYTES = 0x1a00, HEAD = 0x80, MACHINE = HEAD + 4, SECTIONS = HEAD + 6, OPTIONAL_BYTES = HEAD + 20, OPTIONAL = HEAD + 24,
       IMAGE_BYTES = OPTIONAL + 56, HEADERS_BYTES = OPTIONAL + 60, TEXT = OPTIONAL + 240, DATA = TEXT + 40, SIZE = 8, AT = 12, FILE_BYTES = 16,
       FILE_AT = 20, ROOM = 0x2000 };
static uint8_t file[ROOM];

static void put16(unsigned at, unsigned v) { file[at] = (uint8_t)v, file[at + 1] = (uint8_t)(v >> 8); }

static void put32(unsigned at, uint32_t v)
{
    put16(at, v);
    put16(at + 2, v >> 16);
}

static void section(unsigned at, uint32_t size, uint32_t addr, uint32_t file_bytes, uint32_t file_at)
{
    put32(at + SIZE, size);
    put32(at + AT, addr);
    put32(at + FILE_BYTES, file_bytes);
    put32(at + FILE_AT, file_at);
}

static int begin(void **state)
{
    (void)state;
    memset(file, 0, sizeof file);
    memcpy(file, "MZ", 2);
    file[0x3c] = HEAD;
    memcpy(file + HEAD, "PE\0\0", 4);
    put16(MACHINE, 0x8664);
    put16(SECTIONS, 2);
    put16(OPTIONAL_BYTES, 240);
    put16(OPTIONAL, 0x20b);
    put32(IMAGE_BYTES, 0x5000);
    put32(HEADERS_BYTES, 0x400);
    section(TEXT, 0x1200, 0x1000, 0x1400, 0x400);
    section(DATA, 0x2000, 0x3000, 0x200, 0x1800);
    memset(file + 0x400, 't', 0x1400);
    memset(file + 0x1800, 'd', 0x800);
    return 0;
}

/* What is at an address of the file, mapped; -1: nothing, -2: it is refused. */
static int byte_of(size_t n, uint64_t at)
{
    char path[] = "/tmp/test-pe-XXXXXX";
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_error error;
    struct cofi_code code;
    int fd = mkstemp(path), byte = -2;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, n), n);
    close(fd);
    assert_int_equal(cofi_image_open(&image), 0);
    int status = cofi_image_map_pe_at(image, 0, path, ADDR, &error);
    assert_true(status == 0 || status == COFI_ERR_BAD_FORMAT);
    if (!status) {
        assert_int_equal(cofi_view_open(&view, image), 0);
        byte = cofi_view_find(view, ADDR + at, &code) < 0 ? -1 : code.bytes[ADDR + at - code.start];
        cofi_view_close(view);
    }
    cofi_image_close(image);
    unlink(path);
    return byte;
}

static void it_is_laid_out_as_its_loader_does(void **state)
{
    (void)state;
    static const struct {
        uint64_t at;
        int byte;
    } bytes[] = {{0, 'M'}, {0x3ff, 0}, {0x400, -1}, {0x1000, 't'}, {0x23ff, 't'}, {0x2400, -1}, {0x3000, 'd'}, {0x31ff, 'd'}, {0x3200, -1}};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_int_equal(byte_of(BYTES, bytes[i].at), bytes[i].byte);
}

/* What the file has behind a section's last page is not there; of one without a size all is. */
static void a_section_ends_with_its_last_page(void **state)
{
    (void)state;
    put32(TEXT + SIZE, 0x200);
    assert_int_equal(byte_of(BYTES, 0x1fff), 't');
    assert_int_equal(byte_of(BYTES, 0x2000), -1);
    put32(TEXT + SIZE, 0x1000);
    assert_int_equal(byte_of(BYTES, 0x2000), -1);
    put32(TEXT + SIZE, 0);
    assert_int_equal(byte_of(BYTES, 0x23ff), 't');
    assert_int_equal(byte_of(BYTES, 0x2400), -1);
}

/* Where the file ends, what it would have had is not there, and the rest is. */
static void a_file_that_was_cut_has_what_it_has(void **state)
{
    (void)state;
    assert_int_equal(byte_of(0x1880, 0x307f), 'd');
    assert_int_equal(byte_of(0x1880, 0x3080), -1);
    assert_int_equal(byte_of(0x1800, 0x17ff), 't');
    assert_int_equal(byte_of(0x1800, 0x3000), -1);
    assert_int_equal(byte_of(0x1000, 0x3000), -1);
    assert_int_equal(byte_of(0x300, 0x2ff), 0);
    assert_int_equal(byte_of(0x300, 0x300), -1);
    put32(HEADERS_BYTES, 0);
    assert_int_equal(byte_of(BYTES, 0), -1);
    assert_int_equal(byte_of(BYTES, 0x1000), 't');
}

/* PE32's optional header is smaller, and the sections follow it. */
static void of_32_bit_code_it_is_taken_too(void **state)
{
    (void)state;
    put16(MACHINE, 0x14c);
    put16(OPTIONAL, 0x10b);
    put16(OPTIONAL_BYTES, 224);
    memmove(file + TEXT - 16, file + TEXT, 80);
    assert_int_equal(byte_of(BYTES, 0x1000), 't');
    assert_int_equal(byte_of(BYTES, 0x3000), 'd');
}

/* A copy of what it is in memory is as large as that. */
static void what_is_no_whole_pe_file_is_refused(void **state)
{
    static const struct {
        unsigned at;
        uint16_t value;
    } wrong[] = {{0, 'N'}, {1, 'M'}, {HEAD, 'P'}, {HEAD + 2, 1}, {MACHINE, 0xaa64}, {SECTIONS, 200}, {0x3c, 0x7000}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin(state);
        put16(wrong[i].at, wrong[i].value);
        assert_int_equal(byte_of(BYTES, 0), -2);
    }
    begin(state);
    put32(IMAGE_BYTES, 0x2000);
    assert_int_equal(byte_of(0x2000, 0), -2);
    assert_int_equal(byte_of(60, 0), -2);
    assert_int_equal(byte_of(0, 0), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_is_laid_out_as_its_loader_does, begin),
        cmocka_unit_test_setup(a_section_ends_with_its_last_page, begin),
        cmocka_unit_test_setup(a_file_that_was_cut_has_what_it_has, begin),
        cmocka_unit_test_setup(of_32_bit_code_it_is_taken_too, begin),
        cmocka_unit_test_setup(what_is_no_whole_pe_file_is_refused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
