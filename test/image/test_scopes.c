/* SPDX-License-Identifier: MIT
 * Which functions of the source this very program's code is of; what discriminators mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <link.h>
#include <cmocka.h>

#include <cofi/image.h>

#include "image/symbols.h"

static volatile int sink;

static const int inner_line = __LINE__ + 1;
static inline int __attribute__((always_inline)) inner_function(int n)
{
    sink = n;
    return n + 1;
}

static const int outer_line = __LINE__ + 1;
static int __attribute__((noinline)) outer_function(int n)
{
    return inner_function(n);
}

/* What is told of the two. */
struct seen {
    struct cofi_module_scope outer, inner;
    uint32_t last;
    size_t n, stop;
};

static int see(void *opaque, const struct cofi_module_scope *scope)
{
    struct seen *seen = opaque;
    assert_true(scope->start < scope->end && scope->outer < scope->number && scope->number >= seen->last);
    seen->last = scope->number;
    if (!strcmp(scope->function, "outer_function"))
        seen->outer = *scope;
    if (!strcmp(scope->function, "inner_function") && scope->outer == seen->outer.number)
        seen->inner = *scope;
    return ++seen->n == seen->stop ? 7 : 0;
}

static int find_base(struct dl_phdr_info *info, size_t size, void *opaque)
{
    (void)size;
    *(uint64_t *)opaque = info->dlpi_addr;
    return 1; /* the first one is the program */
}

static void an_inlined_function_is_inside_of_the_one_that_called_it(void **state)
{
    (void)state;
    uint64_t base, own, addr = (uint64_t)(uintptr_t)outer_function;
    struct cofi_image *image;
    struct cofi_view *view;
    struct seen seen = {.n = 0};
    dl_iterate_phdr(find_base, &base);
    assert_int_equal(outer_function(1), 2);
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, "/proc/self/exe", base, NULL), 0);
    assert_int_equal(cofi_view_open(&view, image), 0);
    const struct cofi_module *module = cofi_view_module(view, addr, &own);
    assert_int_equal(cofi_module_scopes(module, see, &seen), 0);
    assert_int_equal(seen.outer.outer, 0);
    assert_int_equal(seen.outer.entry, addr - own);
    assert_int_equal(seen.outer.start, addr - own);
    assert_in_range(seen.outer.declared, outer_line, outer_line + 1); /* compilers differ in which line an attribute makes it */
    assert_true(seen.inner.outer && seen.inner.start >= seen.outer.start && seen.inner.end <= seen.outer.end);
    assert_in_range(seen.inner.declared, inner_line, inner_line + 1);
    assert_int_equal(seen.inner.call_line, outer_line + 2);
    struct seen part = {.stop = 3};
    assert_int_equal(cofi_module_scopes(module, see, &part), 7);
    assert_int_equal(part.n, 3);
    cofi_view_close(view);
    cofi_image_close(image);
}

static void assert_means(uint32_t told, bool llvm, uint32_t base, uint32_t copies)
{
    struct cofi__discriminator means = cofi__discriminator(told, llvm);
    assert_int_equal(means.base, base);
    assert_int_equal(means.copies, copies);
}

/* The first ones were read in line tables that clang 14 wrote, of loops that it unrolled ten times and vectorized by eight. */
static void llvm_puts_three_numbers_into_a_discriminator(void **state)
{
    (void)state;
    assert_means(0, true, 0, 1);
    assert_means(2, true, 1, 1);
    assert_means(14, true, 7, 1);
    assert_means(2566, true, 3, 10);
    assert_means(2572, true, 6, 10);
    assert_means(0x21, true, 0, 8);                     /* no path, 8 copies */
    assert_means(0x40 | 1 << 7, true, 32, 1);           /* 32: in 12 bits */
    assert_means(0x3ffe, true, 0xfff, 1);
    assert_means(0x3ffe | 0x3ffeu << 14, true, 0xfff, 0xfff);
    assert_means(7, true, 0, 1);
    assert_means(UINT32_MAX, true, 0, 1);
}

static void gcc_counts_on(void **state)
{
    (void)state;
    assert_means(0, false, 0, 1);
    assert_means(2566, false, 2566, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_inlined_function_is_inside_of_the_one_that_called_it),
        cmocka_unit_test(llvm_puts_three_numbers_into_a_discriminator),
        cmocka_unit_test(gcc_counts_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
