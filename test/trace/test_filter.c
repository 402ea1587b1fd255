/* SPDX-License-Identifier: MIT
 * Address filters in perf's syntax: which ranges of this program's own file they are, and what is said of wrong ones. */
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include <cofi/filter.h>

#include "filter_twice.h"
#include "trace/loader_cache.h"

static __attribute__((noinline, used)) int twice(int n) { return n + n; } /* another one is in filter_twice.c */

/* "filter" and the rest, of this program. */
static int parse(struct cofi_filters *filters, struct cofi_error *error, const char *rest)
{
    char text[256];
    *filters = (struct cofi_filters){0};
    snprintf(text, sizeof text, "filter %s", rest);
    return cofi_filters_parse(filters, text, "/proc/self/exe", error);
}

static uint64_t start_of(const char *rest)
{
    struct cofi_filters filters;
    struct cofi_error error = {0};
    if (parse(&filters, &error, rest) < 0)
        fail_msg("%s: %s", rest, error.text);
    uint64_t start = filters.filter[0].start;
    cofi_filters_fini(&filters);
    return start;
}

static void refused(const char *rest, int status, const char *why)
{
    struct cofi_filters filters;
    struct cofi_error error = {0};
    int got = parse(&filters, &error, rest);
    if (got != status || !strstr(error.text, why))
        fail_msg("%s: %d, %s", rest, got, error.text);
    cofi_filters_fini(&filters);
}

static void of_two_functions_of_a_name_one_is_chosen(void **state)
{
    (void)state;
    assert_int_equal(twice(2), filter_twice(2));
    uint64_t first = start_of("twice #1"), second = start_of("twice #2"), global = start_of("twice #g");
    assert_true(first < second);
    assert_int_equal(global, filter_twice_is_first(twice) ? first : second);
    assert_int_equal(start_of("twice #0"), global);
    assert_int_equal(start_of("twice #G"), global);
    assert_int_equal(start_of("twice#2"), second);
    assert_int_equal(start_of("twice #2 / 8 @ /proc/self/exe"), second);
    assert_int_equal(start_of("main #1"), start_of("main"));
}

static void what_cannot_be_chosen_is_told(void **state)
{
    (void)state;
    refused("twice", COFI_ERR_RANGE, "2 functions 'twice'");
    refused("twice #3", COFI_ERR_NOT_FOUND, "'twice #3': there are 2 functions of that name in");
    refused("main #2", COFI_ERR_NOT_FOUND, "'main #2': there is 1 function of that name in");
    refused("nothing #2", COFI_ERR_NOT_FOUND, "no function 'nothing'");
    refused("app::sum", COFI_ERR_NOT_FOUND, "; C++ and Rust: without parameters, or as nm prints its symbol");
    refused("parse #g", COFI_ERR_NOT_FOUND, "no global function 'parse'");
    refused("twice #", COFI_ERR_SYNTAX, "the number of a symbol, or g for a global one, expected at ''");
    refused("twice #2x", COFI_ERR_SYNTAX, "the number of a symbol, or g for a global one, expected at '2x'");
    refused("twice #-1", COFI_ERR_SYNTAX, "expected at '-1'");
    refused("0x1000 #2", COFI_ERR_SYNTAX, "expected at '2'");
}

static void a_range_lies_in_the_address_space(void **state)
{
    (void)state;
    assert_int_equal(start_of("0xfffffffffffff000/0x1000"), UINT64_C(0xfffffffffffff000));
    refused("0xfffffffffffff000/0x1001", COFI_ERR_RANGE, "0xfffffffffffff000/0x1001 goes beyond the last address");
    refused("0x1000/0xffffffffffffffff", COFI_ERR_RANGE, "goes beyond the last address");
    refused("main/0xffffffffffffffff", COFI_ERR_RANGE, "goes beyond the last address");
}

static void a_range_of_no_program_is_not_found(void **state)
{
    (void)state;
    struct cofi_filters filters = {0};
    assert_int_equal(cofi_filters_add(&filters, COFI_FILTER_RANGE, 0x401000, 16, NULL), COFI_ERR_NOT_FOUND);
    assert_int_equal(cofi_filters_add(&filters, COFI_FILTER_RANGE, 0x401000, 16, "/nonexistent"), COFI_ERR_NOT_FOUND);
    assert_int_equal(filters.n, 0);
}

/* The path that FILE means where a process is recorded, this one; empty: not found. */
static const char *file_of_this_process(const char *file)
{
    static char path[4096];
    char program[64], text[256];
    struct cofi_filters filters = {0};
    struct cofi_error error = {0};
    snprintf(program, sizeof program, "/proc/%d/exe", (int)getpid());
    snprintf(text, sizeof text, "filter * @ %s", file);
    int status = cofi_filters_parse(&filters, text, program, &error);
    snprintf(path, sizeof path, "%s", status < 0 ? "" : filters.filter[0].path);
    cofi_filters_fini(&filters);
    return path;
}

static void a_file_is_found_that_the_process_has_mapped(void **state)
{
    (void)state;
    char folder[] = "/tmp/cofi-filter-XXXXXX", path[64], own[4096] = "", copy[4200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libmapped.so", folder);
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    snprintf(copy, sizeof copy, "cp '%s' %s", own, path);
    assert_int_equal(system(copy), 0);
    assert_string_equal(file_of_this_process("libmapped.so"), "");
    int fd = open(path, O_RDONLY);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(mapped != MAP_FAILED);
    assert_string_equal(file_of_this_process("libmapped.so"), path);
    munmap(mapped, 4096);
    close(fd);
    unlink(path);
    rmdir(folder);
}

static void a_process_is_found_by_what_it_is_called(void **state)
{
    (void)state;
    char own[4096] = "";
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    assert_string_equal(file_of_this_process("a name of ours"), "");
    prctl(PR_SET_NAME, "called-so");
    assert_string_equal(file_of_this_process("called-so"), own);
    assert_string_equal(file_of_this_process("called"), "");
}

/* A cache of four entries as ldconfig writes it: flags, name, path, processors. */
struct cache {
    char magic[20];
    uint32_t entries, string_bytes, unused[5];
    struct { uint32_t flags, key, value, os; uint64_t hwcap; } entry[4];
    char strings[64];
};
_Static_assert(sizeof(struct cache) == 48 + 4 * 24 + 64, "as it lies in the file");

enum { A32 = offsetof(struct cache, strings), A = A32 + 9, NAME = A + 7, PATH_V3 = NAME + 7, B = PATH_V3 + 9 };

static struct cache make_cache(void)
{
    struct cache cache = {.magic = "glibc-ld.so.cache1.1", .entries = 4, .string_bytes = sizeof cache.strings};
    memcpy(cache.strings, "/32/liba\0/liba1\0liba.1\0/v3/liba\0libb.1\0/libb1", 46);
    cache.entry[0] = (typeof(cache.entry[0])){0x3, NAME, A32, 0, 0};
    cache.entry[1] = (typeof(cache.entry[0])){0x303, NAME, PATH_V3, 0, UINT64_C(1) << 62};
    cache.entry[2] = (typeof(cache.entry[0])){0x303, NAME, A, 0, 0};
    cache.entry[3] = (typeof(cache.entry[0])){0x303, B, B + 7, 0, 0};
    return cache;
}

static const char *found(const void *bytes, size_t n, const char *name)
{
    static char text[64], path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memfd_create("cache", 0));
    int fd = atoi(strrchr(path, '/') + 1);
    assert_int_equal(write(fd, bytes, n), n);
    char *at = cofi__loader_cache_find(path, name);
    snprintf(text, sizeof text, "%s", at ? at : "none");
    free(at);
    close(fd);
    return text;
}

static void the_loaders_cache_tells_where_a_library_lies(void **state)
{
    (void)state;
    struct cache cache = make_cache();
    assert_string_equal(found(&cache, sizeof cache, "liba.1"), "/liba1");
    assert_string_equal(found(&cache, sizeof cache, "libb.1"), "/libb1");
    assert_string_equal(found(&cache, sizeof cache, "liba"), "none");
    for (size_t n = 0; n < sizeof cache; n++)
        assert_string_equal(found(&cache, n, "liba.1"), n < NAME + strlen("liba.1") ? "none" : "/liba1");
    cache.entries = UINT32_MAX;
    assert_string_equal(found(&cache, sizeof cache, "libc.1"), "none");
    cache.entry[2].key = UINT32_MAX;
    cache.entry[3].value = sizeof cache;
    assert_string_equal(found(&cache, sizeof cache, "liba.1"), "none");
    assert_string_equal(found(&cache, sizeof cache, "libb.1"), "none");
    cache = make_cache();
    cache.magic[0]++;
    assert_string_equal(found(&cache, sizeof cache, "liba.1"), "none");
    assert_null(cofi__loader_cache_find("/nowhere/at/all", "liba.1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_functions_of_a_name_one_is_chosen),
        cmocka_unit_test(the_loaders_cache_tells_where_a_library_lies),
        cmocka_unit_test(what_cannot_be_chosen_is_told),
        cmocka_unit_test(a_range_lies_in_the_address_space),
        cmocka_unit_test(a_range_of_no_program_is_not_found),
        cmocka_unit_test(a_file_is_found_that_the_process_has_mapped),
        cmocka_unit_test(a_process_is_found_by_what_it_is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
