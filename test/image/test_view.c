/* SPDX-License-Identifier: MIT
 * Images over time: what is found, what is told as changed. */
#include <setjmp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <elf.h>
#include <link.h>

#include <cofi/image.h>

#include "image/image.h"

/* Ranges told by cofi_view_advance, as text. */
struct told {
    char text[4096];
};

static void tell(void *opaque, uint64_t addr, uint64_t len)
{
    struct told *told = opaque;
    size_t n = strlen(told->text);
    snprintf(told->text + n, sizeof told->text - n, "%llx+%llx ", (unsigned long long)addr,
             (unsigned long long)len);
}

static void assert_told(struct cofi_view *view, uint64_t time_ns, const char *text)
{
    struct told told = {""};
    assert_true(cofi_view_advance(view, time_ns, tell, &told) >= 0);
    assert_string_equal(told.text, text);
}

static int byte_at(struct cofi_view *view, uint64_t addr)
{
    struct cofi_code code;
    if (cofi_view_find(view, addr, &code) < 0)
        return -1;
    assert_true(code.start <= addr && addr < code.end);
    return code.bytes[addr - code.start];
}

static struct cofi_view *view_of(const struct cofi_image *image)
{
    struct cofi_view *view;
    assert_int_equal(cofi_view_open(&view, image), 0);
    return view;
}

static void later_mappings_cover_earlier_ones_from_their_time_on(void **state)
{
    (void)state;
    struct cofi_image *image;
    uint8_t a[0x100], b[0x10];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_clear(image, 0), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x1000, a, sizeof a, "a"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 10, 0x1040, b, sizeof b, "b"), 0);
    assert_int_equal(cofi_image_unmap(image, 20, 0x1048, 0x10), 0);
    assert_int_equal(cofi_image_clear(image, 30), 0);
    struct cofi_view *view = view_of(image);
    assert_int_equal(byte_at(view, 0x1048), 'a');
    assert_int_equal(byte_at(view, 0xfff), -1);
    assert_int_equal(byte_at(view, 0x1100), -1);
    assert_int_equal(cofi_view_next_change(view), 10);
    assert_told(view, 9, "");
    assert_told(view, 10, "1040+10 ");
    assert_int_equal(byte_at(view, 0x103f), 'a');
    assert_int_equal(byte_at(view, 0x1040), 'b');
    assert_int_equal(byte_at(view, 0x1050), 'a');
    assert_told(view, 20, "1048+8 1050+8 ");
    assert_int_equal(byte_at(view, 0x1047), 'b');
    assert_int_equal(byte_at(view, 0x1048), -1);
    assert_non_null(strstr(cofi_view_why(view), "nothing is mapped at 0x1048"));
    assert_int_equal(byte_at(view, 0x1058), 'a');
    assert_int_equal(cofi_view_cleared(view), 0);
    assert_told(view, 1000, "1000+40 1040+8 1058+a8 ");
    assert_int_equal(cofi_view_cleared(view), 1);
    assert_int_equal(cofi_view_next_change(view), UINT64_MAX);
    cofi_view_close(view);
    cofi_image_close(image);
}

static void only_the_bytes_that_differ_are_told(void **state)
{
    (void)state;
    struct cofi_image *image;
    uint8_t a[0x1000] = {0}, b[0x1000] = {0};
    b[0x123] = 1, b[0x125] = 1, b[0x800] = 1;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, 0x1000, a, sizeof a, "a"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 1, 0x1000, a, sizeof a, "same"), 0);
    assert_int_equal(cofi_image_map_bytes(image, 2, 0x1000, b, sizeof b, "other"), 0);
    struct cofi_view *view = view_of(image);
    assert_told(view, 1, "");
    assert_told(view, 2, "1123+3 1800+1 ");
    cofi_view_close(view);
    cofi_image_close(image);
}

static void a_fork_holds_what_its_parent_held_then(void **state)
{
    (void)state;
    struct cofi_image *parent, *child;
    assert_int_equal(cofi_image_open(&parent), 0);
    assert_int_equal(cofi_image_open(&child), 0);
    cofi_image_map_bytes(parent, 0, 0x1000, (const uint8_t *)"old", 3, "old");
    cofi_image_map_bytes(parent, 5, 0x2000, (const uint8_t *)"new", 3, "new");
    assert_int_equal(cofi_image_fork(child, parent, 4), 0);
    cofi_image_close(parent); /* the child keeps the bytes */
    struct cofi_view *view = view_of(child);
    assert_int_equal(byte_at(view, 0x1000), -1);
    assert_told(view, 100, "1000+3 ");
    assert_int_equal(byte_at(view, 0x1000), 'o');
    assert_int_equal(byte_at(view, 0x2000), -1);
    cofi_view_close(view);
    cofi_image_close(child);
}

static char scratch[64];

static const char *scratch_file(const char *name, const void *bytes, size_t n)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return path;
}

static int make_scratch(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/cofi-image-%d", tmp ? tmp : "/tmp", (int)getpid());
    return mkdir(scratch, 0700);
}

static int remove_scratch(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command);
}

/* A processor's view: a process is switched from, executes another program elsewhere, comes back, and does so here. */
static void an_exec_counts_where_it_is_seen(void **state)
{
    (void)state;
    struct cofi_image *a, *b, *turns;
    uint8_t bytes[16] = {0};
    assert_int_equal(cofi_image_open(&a), 0);
    assert_int_equal(cofi_image_open(&b), 0);
    assert_int_equal(cofi_image_open(&turns), 0);
    assert_int_equal(cofi_image_map_bytes(a, 0, 0x1000, bytes, sizeof bytes, "a"), 0);
    assert_int_equal(cofi_image_map_bytes(b, 0, 0x1000, bytes, sizeof bytes, "b"), 0);
    assert_int_equal(cofi_image_clear(a, 25), 0);
    assert_int_equal(cofi_image_map_bytes(a, 25, 0x2000, bytes, sizeof bytes, "a2"), 0);
    assert_int_equal(cofi_image_clear(a, 35), 0);
    assert_int_equal(cofi__image_turn(turns, 10, a), 0);
    assert_int_equal(cofi__image_turn(turns, 20, b), 0);
    assert_int_equal(cofi__image_turn(turns, 30, a), 0);
    struct cofi_view *view = view_of(turns);
    assert_true(cofi_view_advance(view, 30, NULL, NULL) > 0);
    assert_int_equal(byte_at(view, 0x2000), 0);
    assert_int_equal(cofi_view_cleared(view), 0);
    assert_true(cofi_view_advance(view, 40, NULL, NULL) > 0);
    assert_int_equal(cofi_view_cleared(view), 1);
    cofi_view_close(view);
    cofi_image_close(turns);
    cofi_image_close(b);
    cofi_image_close(a);
}

static void an_instruction_across_two_windows_of_a_file_is_whole_where_it_starts(void **state)
{
    (void)state;
    size_t n = (2 << 20) + 100;
    uint8_t *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    const char *path = scratch_file("big", bytes, n);
    struct cofi_image *image;
    struct cofi_code code;
    assert_int_equal(cofi_image_open(&image), 0);
    cofi_image_map_file(image, 0, 0x10000000, 0x1000000, path, 0x10, NULL, 0);
    struct cofi_view *view = view_of(image);
    for (size_t at = 0x10; at < n; at += at % 4096 < 4000 ? 1000 : 1) {
        uint64_t addr = 0x10000000 + at - 0x10;
        assert_int_equal(cofi_view_find(view, addr, &code), 0);
        assert_true(code.end - addr >= 15 || at + 15 > n);
        assert_memory_equal(code.bytes + (addr - code.start), bytes + at, code.end - addr < 15 ? code.end - addr : 15);
        assert_int_equal(code.pgoff, code.start - 0x10000000 + 0x10);
    }
    assert_int_equal(cofi_view_find(view, 0x10000000 + n, &code), -8);
    assert_non_null(strstr(cofi_view_why(view), "beyond the file's end"));
    cofi_view_close(view);
    cofi_image_close(image);
    free(bytes);
}

static void a_missing_or_changed_file_says_why(void **state)
{
    (void)state;
    struct cofi_image *image;
    struct cofi_code code;
    uint8_t id[20] = {1, 2, 3};
    const char *path = scratch_file("noelf", "0123456789", 10);
    assert_int_equal(cofi_image_open(&image), 0);
    cofi_image_map_file(image, 0, 0x1000, 0x1000, "/nowhere/at/all", 0, NULL, 0);
    cofi_image_map_file(image, 0, 0x2000, 0x1000, "/bin/sh", 0, id, 20);
    cofi_image_map_file(image, 0, 0x3000, 0x1000, "/gone (deleted)", 0, NULL, 0);
    cofi_image_map_file(image, 0, 0x4000, 0x1000, "//anon", 0, NULL, 0);
    cofi_image_map_file(image, 0, 0x5000, 0x1000, path, 0, id, 20);
    cofi_image_map_file(image, 0, 0x6000, 0x1000, "/", 0, NULL, 0);
    struct cofi_view *view = view_of(image);
    static const char *const why[] = {"/nowhere/at/all: no such file", "/bin/sh: build id differs", "deleted",
                                      "memory of no file", "has no build id", "not a regular file"};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(cofi_view_find(view, 0x1000 * (i + 1), &code), -8);
        if (!strstr(cofi_view_why(view), why[i]))
            assert_string_equal(cofi_view_why(view), why[i]);
    }
    cofi_view_close(view);
    cofi_image_close(image);
}

/* Of more files than stay open: each is whole, as it was when it was opened, while nobody writes into it. */
static void a_file_is_what_it_was_until_it_is_written_to(void **state)
{
    (void)state;
    enum { N = 1 << 16, FILES = 40 };
    static uint8_t bytes[N], others[N];
    memset(bytes, 1, N);
    memset(others, 2, N);
    struct cofi_image *image;
    struct cofi_code code;
    char name[16], path[FILES][128];
    assert_int_equal(cofi_image_open(&image), 0);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "file%u", i);
        strcpy(path[i], scratch_file(name, bytes, N));
        cofi_image_map_file(image, 0, (i + 1) * UINT64_C(0x100000), N, path[i], 0, NULL, 0);
    }
    struct cofi_view *view = view_of(image);
    for (unsigned i = 0; i < FILES; i++)
        assert_int_equal(byte_at(view, (i + 1) * UINT64_C(0x100000)), 1);
    for (unsigned i = 0; i < FILES; i++)
        assert_int_equal(byte_at(view, (i + 1) * UINT64_C(0x100000) + N / 2), 1);
    assert_int_equal(rename(scratch_file("new", others, N), path[0]), 0);
    assert_int_equal(byte_at(view, 0x100000 + N - 1), 1);
    assert_int_equal(truncate(path[1], N / 2), 0);
    assert_int_equal(utimensat(AT_FDCWD, path[2], (const struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    for (uint64_t base = 0x200000; base <= 0x300000; base += 0x100000) { /* its size, its time */
        assert_int_equal(cofi_view_find(view, base + N - 1, &code), -8);
        assert_non_null(strstr(cofi_view_why(view), "the file changed while it was read"));
    }
    cofi_view_close(view);
    cofi_image_close(image);
}

static void bytes_that_a_file_holds_there_are_the_files_while_it_can_be_read(void **state)
{
    (void)state;
    enum { N = (1 << 20) + 8192, EDGE = 1 << 20 };
    uint8_t *bytes = malloc(N);
    assert_non_null(bytes);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 5 + (i >> 8));
    const char *path = scratch_file("held", bytes, N);
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    cofi_image_map_file(image, 0, 0x10000000, N, path, 0, NULL, 0);
    cofi_image_map_file(image, 0, 0x20000000, N, "/nowhere/at/all", 0, NULL, 0);
    uint64_t in_file = 0x10000000 + EDGE - 1024, in_none = 0x20000000 + EDGE - 1024;
    cofi_image_map_bytes(image, 1, in_file, bytes + EDGE - 1024, 2048, "same");
    cofi_image_map_bytes(image, 1, in_none, bytes + EDGE - 1024, 2048, "kept");
    bytes[EDGE + 1000]++;
    cofi_image_map_bytes(image, 2, in_file, bytes + EDGE - 1024, 2048, "other");
    bytes[EDGE + 1000]--;
    cofi_image_map_bytes(image, 3, in_file, bytes + EDGE - 1024, 2048, "back");
    struct cofi_view *view = view_of(image);
    struct cofi_symbol symbol;
    assert_told(view, 1, "200ffc00+800 ");
    cofi_view_symbol(view, in_file, false, &symbol);
    assert_string_equal(symbol.module, path);
    assert_int_equal(byte_at(view, in_none + 2047), bytes[EDGE + 1023]);
    assert_told(view, 2, "100ffc00+800 ");
    cofi_view_symbol(view, in_file, false, &symbol);
    assert_string_equal(symbol.module, "other");
    assert_told(view, 3, "101003e8+1 ");
    cofi_view_close(view);
    cofi_image_close(image);
    free(bytes);
}

/* The build id of this program. */
static int own_build_id(struct dl_phdr_info *info, size_t size, void *opaque)
{
    uint8_t *id = opaque;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint8_t *at = (const uint8_t *)info->dlpi_addr + p->p_vaddr, *end = at + p->p_memsz;
        while (p->p_type == PT_NOTE && at + 12 < end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz == 20) {
                memcpy(id, at + 16, 20);
                return 1;
            }
            at += 12 + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
        }
    }
    return 1; /* the first one is the program */
}

static void a_file_that_is_gone_is_found_in_perfs_cache(void **state)
{
    (void)state;
    uint8_t id[20] = {0}, none[20] = {0};
    char hex[41], command[400], home[64];
    dl_iterate_phdr(own_build_id, id);
    assert_memory_not_equal(id, none, 20);
    for (int i = 0; i < 20; i++)
        sprintf(hex + 2 * i, "%02x", id[i]);
    snprintf(home, sizeof home, "/tmp/cofi-home-%d", (int)getpid());
    snprintf(command, sizeof command, "mkdir -p %s/.debug/.build-id/%.2s/%s && cp /proc/%d/exe %s/.debug/.build-id/%.2s/%s/elf", home,
             hex, hex + 2, (int)getpid(), home, hex, hex + 2);
    assert_int_equal(system(command), 0);
    setenv("HOME", home, 1);
    struct cofi_image *image;
    struct cofi_view *view;
    struct cofi_code code;
    struct cofi_symbol symbol;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_file(image, 0, 0x10000, 0x1000, "/not/there/any/more", 0, id, 20), 0);
    assert_int_equal(cofi_image_map_file(image, 0, 0x20000, 0x1000, "/bin/sh", 0, id, 20), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    for (uint64_t addr = 0x10000; addr <= 0x20000; addr += 0x10000) {
        assert_int_equal(cofi_view_find(view, addr, &code), 0);
        assert_memory_equal(code.bytes, "\177ELF", 4);
        cofi_view_symbol(view, addr, false, &symbol);
    }
    assert_string_equal(code.path, "/bin/sh"); /* as it was called */
    cofi_view_close(view);
    cofi_image_close(image);
    snprintf(command, sizeof command, "rm -rf %s", home);
    assert_int_equal(system(command), 0);
}

static void page_dumps_show_each_page_at_its_address(void **state)
{
    (void)state;
    static const uint64_t addrs[] = {0x401000, 0x402000, 0xffffffff81000000, 0x5000};
    uint8_t pages[4 * 4096];
    char addr_path[128];
    for (size_t i = 0; i < 4; i++)
        memset(pages + i * 4096, (int)('0' + i), 4096);
    strcpy(addr_path, scratch_file("p.addr", addrs, sizeof addrs));
    const char *dump_path = scratch_file("p.dump", pages, sizeof pages);
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_pages(image, 0, addr_path, dump_path, NULL), 0);
    struct cofi_view *view = view_of(image);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(byte_at(view, addrs[i]), (int)('0' + i));
        assert_int_equal(byte_at(view, addrs[i] + 4095), (int)('0' + i));
    }
    assert_int_equal(byte_at(view, 0x6000), -1);
    cofi_view_close(view);
    cofi_image_close(image);
}

/* Cut while they were written: what is whole is there. */
static void page_dumps_that_were_cut_show_what_is_whole(void **state)
{
    (void)state;
    static const uint64_t addrs[] = {0x401000, 0x402000, 0x401000, 0x5000};
    static const struct { size_t addr_bytes, dump_bytes; int odd, first, last; } rows[] = {
        {32, 4 * 4096 - 1, 1, '0', -1}, {32, 4096, 3, '0', -1}, {31, 4 * 4096, 1, '0', -1}, {8, 4 * 4096 - 1, 3, '0', -1},
        {9, 4096 + 1, 1, '0', -1}, {32, 4 * 4096, 0, '0', '3'}, {32, 0, 4, -1, -1},
    };
    uint8_t pages[4 * 4096];
    char addr_path[128];
    for (size_t i = 0; i < 4; i++)
        memset(pages + i * 4096, (int)('0' + i), 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cofi_image *image;
        strcpy(addr_path, scratch_file("p.addr", addrs, rows[i].addr_bytes));
        const char *dump_path = scratch_file("p.dump", pages, rows[i].dump_bytes);
        assert_int_equal(cofi_image_open(&image), 0);
        assert_int_equal(cofi_image_map_pages(image, 0, addr_path, dump_path, NULL), rows[i].odd);
        struct cofi_view *view = view_of(image);
        assert_int_equal(byte_at(view, 0x401000), rows[i].first);
        assert_int_equal(byte_at(view, 0x5000), rows[i].last);
        cofi_view_close(view);
        cofi_image_close(image);
    }
}

/* As kAFL and Nyx write and read them: low bits mark a page that was not there, the first copy of a page counts. */
static void page_dumps_of_fuzzers_show_what_fuzzers_read(void **state)
{
    (void)state;
    static uint64_t addrs[1200] = {0x401001, 0xffff81000000, 0x402000, 0x403000, 0x402000, 0x401000, 0x5fff, 0xff11000000001000};
    static uint8_t pages[1200 * 4096];
    char addr_path[128];
    for (size_t i = 0; i < 1200; i++)
        memset(pages + i * 4096, (int)(i % 256), 4096);
    for (size_t i = 8; i < 1200; i++)
        addrs[i] = 0x10000000 + i * 4096;
    strcpy(addr_path, scratch_file("p.addr", addrs, sizeof addrs));
    const char *dump_path = scratch_file("p.dump", pages, sizeof pages);
    struct cofi_image *image;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_pages(image, 0, addr_path, dump_path, NULL), 2);
    struct cofi_view *view = view_of(image);
    static const struct { uint64_t ip; int byte; } rows[] = {
        {0x401000, 5}, {0xffff81000000, -1}, {0xffffffff81000fff, 1}, {0x402000, 2}, {0x403fff, 3}, {0x5000, -1}, {0xff11000000001000, 7},
        {0x10000000 + 511 * 4096, 255}, {0x10000000 + 512 * 4096, 0}, {0x10000000 + 1199 * 4096, 1199 % 256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(byte_at(view, rows[i].ip), rows[i].byte);
    cofi_view_close(view);
    cofi_image_close(image);
}

static void a_page_dump_without_addresses_of_pages_is_none(void **state)
{
    (void)state;
    static const char text[] = "0x401000\n0x402000\n";
    struct cofi_error error;
    struct cofi_image *image;
    char addr_path[128];
    strcpy(addr_path, scratch_file("p.addr", text, sizeof text - 1));
    const char *dump_path = scratch_file("p.dump", (uint8_t[8192]){0}, 8192);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_pages(image, 0, addr_path, dump_path, &error), COFI_ERR_BAD_FORMAT);
    assert_non_null(strstr(error.text, "no addresses of pages"));
    cofi_image_close(image);
}

/* A folder has a size, too; a FIFO waits for whoever writes to it. */
static void page_dumps_are_regular_files(void **state)
{
    (void)state;
    const char *const file = scratch_file("p.dump", "", 0);
    char fifo[160];
    snprintf(fifo, sizeof fifo, "%s.fifo", file);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const rows[][2] = {{"/tmp", file}, {file, "/tmp"}, {fifo, file}, {file, fifo}, {"/dev/null", file}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cofi_image *image;
        assert_int_equal(cofi_image_open(&image), 0);
        assert_int_equal(cofi_image_map_pages(image, 0, rows[i][0], rows[i][1], NULL), COFI_ERR_IO);
        cofi_image_close(image);
    }
    unlink(fifo);
}

static void an_elf_is_mapped_where_it_says_or_at_a_base(void **state)
{
    (void)state;
    struct cofi_image *image;
    struct cofi_code code;
    struct cofi_error error;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, "/bin/sh", 0x7f0000000000, &error), 0);
    struct cofi_view *view = view_of(image);
    assert_int_equal(cofi_view_find(view, 0x7f0000000000, &code), 0);
    assert_memory_equal(code.bytes, "\177ELF", 4);
    assert_int_equal(code.base, 0x7f0000000000);
    cofi_view_close(view);
    const char *path = scratch_file("text", "no elf", 6);
    assert_int_equal(cofi_image_map_elf(image, 0, path, 0, &error), COFI_ERR_BAD_FORMAT);
    cofi_image_close(image);
}

/* Two parts, the second of which lies elsewhere in memory than in the file; the table of sections behind them. */
static void an_elf_is_mapped_at_where_it_was_loaded(void **state)
{
    (void)state;
    static uint8_t file[0x2200];
    static const char names[] = "\0.shstrtab";
    Elf64_Ehdr ehdr = {.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64, .e_phentsize = 56,
                       .e_phnum = 2, .e_shentsize = 64, .e_shoff = 0x2000, .e_shnum = 2, .e_shstrndx = 1};
    Elf64_Phdr phdrs[2] = {{.p_type = PT_LOAD, .p_flags = 4, .p_vaddr = 0x10000, .p_filesz = 0x1000, .p_memsz = 0x1000},
                           {.p_type = PT_LOAD, .p_flags = 5, .p_offset = 0x1000, .p_vaddr = 0x13000, .p_filesz = 0x1000,
                            .p_memsz = 0x1000}};
    Elf64_Shdr sections[2] = {{0}, {.sh_type = SHT_STRTAB, .sh_name = 1, .sh_offset = 0x2100, .sh_size = sizeof names}};
    memcpy(ehdr.e_ident, "\177ELF\2\1\1", 7);
    memset(file + 0x1000, 'c', 0x1000);
    memcpy(file, &ehdr, sizeof ehdr);
    memcpy(file + 64, phdrs, sizeof phdrs);
    memcpy(file + 0x2000, sections, sizeof sections);
    memcpy(file + 0x2100, names, sizeof names);
    struct cofi_image *image;
    struct cofi_code code;
    struct cofi_error error;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf_at(image, 0, scratch_file("moved", file, sizeof file), 0x7f0000000000, &error), 0);
    struct cofi_view *view = view_of(image);
    assert_int_equal(byte_at(view, 0x7f0000000000), 0x7f);
    assert_int_equal(byte_at(view, 0x7f0000001000), -1);
    assert_int_equal(byte_at(view, 0x7f0000003000), 'c');
    assert_int_equal(cofi_view_find(view, 0x7f0000003000, &code), 0);
    assert_int_equal(0x7f0000003000 - code.base, 0x13000);
    cofi_view_close(view);
    /* What is no whole file may be a copy of memory. */
    assert_int_equal(cofi_image_map_elf_at(image, 0, scratch_file("copy", file, 0x2000), 0x7f0000000000, &error), COFI_ERR_BAD_FORMAT);
    assert_int_equal(cofi_image_map_elf_at(image, 0, scratch_file("text", "no elf", 6), 0, &error), COFI_ERR_BAD_FORMAT);
    assert_int_equal(cofi_image_map_elf_at(image, 0, "/nowhere", 0, &error), COFI_ERR_NO_CODE);
    assert_string_equal(error.text, "/nowhere: No such file or directory");
    cofi_image_close(image);
}

/* As lld and mold lay out a small program: the file's one page is mapped once for each part. */
static void code_belongs_to_the_executable_part_of_a_page(void **state)
{
    (void)state;
    static uint8_t file[0x1000];
    Elf64_Ehdr ehdr = {.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1, .e_phoff = 64, .e_ehsize = 64, .e_phentsize = 56, .e_phnum = 3};
    Elf64_Phdr phdrs[3] = {{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x800, .p_memsz = 0x800},
                           {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x800, .p_vaddr = 0x1800, .p_filesz = 0x400, .p_memsz = 0x400},
                           {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = 0xc00, .p_vaddr = 0x2c00, .p_filesz = 0x400, .p_memsz = 0x400}};
    memcpy(ehdr.e_ident, "\177ELF\2\1\1", 7);
    memcpy(file, &ehdr, sizeof ehdr);
    memcpy(file + 64, phdrs, sizeof phdrs);
    struct cofi_image *image;
    struct cofi_code code;
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_file(image, 0, 0x7f0000001000, 0x1000, scratch_file("packed", file, sizeof file), 0, NULL, 0), 0);
    for (uint64_t at = 0x7f0000001000; at < 0x7f0000001c00; at += 0x400) {
        struct cofi_view *view = view_of(image);
        assert_int_equal(cofi_view_find(view, at, &code), 0);
        assert_int_equal(code.base, 0x7f0000000000);
        cofi_view_close(view);
    }
    cofi_image_close(image);
}

/* Each has its own byte at one place. (To look for the one whose turn it is among all would take minutes.) */
static void a_processor_that_runs_many_processes(void **state)
{
    (void)state;
    enum { IMAGES = 50000, ROUNDS = 4, AT = 0x1000 };
    struct cofi_image *processor, *kernel, **images = calloc(IMAGES, sizeof *images);
    assert_non_null(images);
    assert_int_equal(cofi_image_open(&processor), 0);
    assert_int_equal(cofi_image_open(&kernel), 0);
    cofi__image_set_kernel(processor, kernel);
    for (size_t i = 0; i < IMAGES; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(cofi_image_open(&images[i]), 0);
        assert_int_equal(cofi_image_map_bytes(images[i], 0, AT, &byte, 1, "process"), 0);
    }
    for (size_t turn = 0; turn < IMAGES * ROUNDS; turn++)
        assert_int_equal(cofi__image_turn(processor, turn + 1, images[turn % IMAGES]), 0);
    struct cofi_view *view = view_of(processor);
    for (size_t turn = 0; turn < IMAGES * ROUNDS; turn++) {
        assert_true(cofi_view_advance(view, turn + 1, NULL, NULL) >= 0);
        assert_int_equal(byte_at(view, AT), (uint8_t)(turn % IMAGES));
    }
    cofi_view_close(view);
    cofi_image_close(processor);
    cofi_image_close(kernel);
    for (size_t i = 0; i < IMAGES; i++)
        cofi_image_close(images[i]);
    free(images);
}

static void count(void *opaque, uint64_t addr, uint64_t len)
{
    (void)addr, (void)len;
    ++*(size_t *)opaque;
}

/* (To go through all turns in between would take minutes.) */
static void turns_that_nobody_looks_at_are_not_told(void **state)
{
    (void)state;
    enum { PIECES = 20000, TURNS = 200000, FROM = 0x10000 };
    struct cofi_image *processor, *images[2];
    size_t told = 0;
    assert_int_equal(cofi_image_open(&processor), 0);
    for (uint8_t i = 0; i < 2; i++) {
        assert_int_equal(cofi_image_open(&images[i]), 0);
        for (uint64_t k = 0; k < PIECES; k++)
            assert_int_equal(cofi_image_map_bytes(images[i], 0, FROM + 0x100 * k, &i, 1, "process"), 0);
    }
    for (size_t turn = 0; turn < TURNS; turn++)
        assert_int_equal(cofi__image_turn(processor, turn + 1, images[turn % 2]), 0);
    struct cofi_view *view = view_of(processor);
    assert_true(cofi_view_advance(view, 1, count, &told) >= 0);
    assert_int_equal(byte_at(view, FROM), 0);
    told = 0;
    assert_int_equal(cofi_view_advance(view, TURNS / 2 + 1, count, &told), 0);
    assert_int_equal(byte_at(view, FROM), 0);
    assert_int_equal(told, 0);
    assert_int_equal(cofi_view_advance(view, TURNS, count, &told), PIECES);
    assert_int_equal(byte_at(view, FROM), 1);
    assert_int_equal(told, PIECES);
    assert_true(cofi_view_next_change(view) == UINT64_MAX);
    cofi_view_close(view);
    cofi_image_close(processor);
    for (unsigned i = 0; i < 2; i++)
        cofi_image_close(images[i]);
}

enum { PLACES = 8, TIMES = 200 };

/* What lies at each place, -1: nothing. */
static void look(struct cofi_view *view, int bytes[PLACES])
{
    struct cofi_code code;
    for (uint64_t i = 0; i < PLACES; i++)
        bytes[i] = cofi_view_find(view, 0x1000 * i, &code) < 0 ? -1 : code.bytes[0x1000 * i - code.start];
}

static void mark(void *opaque, uint64_t addr, uint64_t len)
{
    for (uint64_t i = 0; i < PLACES; i++)
        if (0x1000 * i - addr < len)
            ((bool *)opaque)[i] = true;
}

static uint32_t next_random(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 16; }

/* Processes that map and execute something now and then, and have turns. */
static void make_random(struct cofi_image *images[3], struct cofi_image *processor, uint32_t *seed)
{
    for (uint64_t time = 1; time < TIMES; time++) {
        uint8_t byte = (uint8_t)time;
        struct cofi_image *image = images[next_random(seed) % 3];
        uint64_t at = 0x1000 * (next_random(seed) % PLACES);
        switch (next_random(seed) % 8) {
        case 0: assert_int_equal(cofi_image_clear(image, time), 0); break;
        case 1: assert_int_equal(cofi_image_unmap(image, time, at, 0x1000), 0); break;
        case 2:
        case 3: assert_int_equal(cofi_image_map_bytes(image, time, at, &byte, 1, "code"), 0); break;
        case 4:
        case 5: assert_int_equal(cofi__image_turn(processor, time, image), 0); break;
        }
    }
}

/* One view comes to each time, one to some only: they show the same, and the second is told all that differs. */
static void whoever_skips_turns_sees_what_others_see(void **state)
{
    (void)state;
    for (uint32_t seed = 1, round = 0; round < 2000; round++) {
        struct cofi_image *images[3], *processor;
        int before[PLACES], now[PLACES], steps[PLACES];
        assert_int_equal(cofi_image_open(&processor), 0);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(cofi_image_open(&images[i]), 0);
        make_random(images, processor, &seed);
        struct cofi_view *view = view_of(processor), *other = view_of(processor);
        uint64_t at = 0, due;
        while (at < TIMES) {
            bool told[PLACES] = {false};
            at += 1 + next_random(&seed) % 60;
            look(view, before);
            assert_true(cofi_view_advance(view, at, mark, told) >= 0);
            while ((due = cofi_view_next_change(other)) <= at)
                assert_true(cofi_view_advance(other, due, NULL, NULL) >= 0);
            look(view, now);
            look(other, steps);
            assert_memory_equal(now, steps, sizeof now);
            for (size_t i = 0; i < PLACES; i++)
                assert_true(told[i] || now[i] == before[i]);
            assert_true(cofi_view_cleared(view) <= cofi_view_cleared(other));
        }
        cofi_view_close(view);
        cofi_view_close(other);
        cofi_image_close(processor);
        for (size_t i = 0; i < 3; i++)
            cofi_image_close(images[i]);
    }
}

/* In a turn that nobody has looked at an exec counts if it is of who has the last one. */
static void an_exec_in_a_turn_that_is_skipped_counts(void **state)
{
    (void)state;
    struct cofi_image *a, *b, *turns;
    uint8_t byte = 0;
    assert_int_equal(cofi_image_open(&a), 0);
    assert_int_equal(cofi_image_open(&b), 0);
    assert_int_equal(cofi_image_open(&turns), 0);
    assert_int_equal(cofi_image_map_bytes(a, 0, 0x1000, &byte, 1, "a"), 0);
    assert_int_equal(cofi_image_map_bytes(b, 0, 0x1000, &byte, 1, "b"), 0);
    assert_int_equal(cofi_image_clear(a, 35), 0);
    assert_int_equal(cofi_image_clear(b, 45), 0);
    for (uint64_t time = 10; time <= 50; time += 10)
        assert_int_equal(cofi__image_turn(turns, time, time / 10 & 1 ? a : b), 0);
    struct cofi_view *view = view_of(turns);
    assert_true(cofi_view_advance(view, 15, NULL, NULL) >= 0);
    assert_true(cofi_view_advance(view, 55, NULL, NULL) > 0);
    assert_int_equal(cofi_view_cleared(view), 1);
    cofi_view_close(view);
    cofi_image_close(turns);
    cofi_image_close(b);
    cofi_image_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_mappings_cover_earlier_ones_from_their_time_on),
        cmocka_unit_test(only_the_bytes_that_differ_are_told),
        cmocka_unit_test(a_fork_holds_what_its_parent_held_then),
        cmocka_unit_test(an_exec_counts_where_it_is_seen),
        cmocka_unit_test(an_instruction_across_two_windows_of_a_file_is_whole_where_it_starts),
        cmocka_unit_test(a_missing_or_changed_file_says_why),
        cmocka_unit_test(a_file_is_what_it_was_until_it_is_written_to),
        cmocka_unit_test(bytes_that_a_file_holds_there_are_the_files_while_it_can_be_read),
        cmocka_unit_test(a_file_that_is_gone_is_found_in_perfs_cache),
        cmocka_unit_test(page_dumps_show_each_page_at_its_address),
        cmocka_unit_test(page_dumps_that_were_cut_show_what_is_whole),
        cmocka_unit_test(page_dumps_of_fuzzers_show_what_fuzzers_read),
        cmocka_unit_test(a_page_dump_without_addresses_of_pages_is_none),
        cmocka_unit_test(page_dumps_are_regular_files),
        cmocka_unit_test(an_elf_is_mapped_where_it_says_or_at_a_base),
        cmocka_unit_test(an_elf_is_mapped_at_where_it_was_loaded),
        cmocka_unit_test(code_belongs_to_the_executable_part_of_a_page),
        cmocka_unit_test(a_processor_that_runs_many_processes),
        cmocka_unit_test(turns_that_nobody_looks_at_are_not_told),
        cmocka_unit_test(whoever_skips_turns_sees_what_others_see),
        cmocka_unit_test(an_exec_in_a_turn_that_is_skipped_counts),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
