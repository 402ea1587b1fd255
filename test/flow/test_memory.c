/* SPDX-License-Identifier: MIT
 * Memory of the caches: what is taken holds until it is cleared, and is used again then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "flow/memory.h"

enum { ITEMS = 40000, MOST = 400 };

static uint8_t *items[ITEMS];

static size_t size_of(unsigned i) { return 1 + i * 37 % MOST; }

static void fill(struct chunk_pool *pool, struct arena *arena)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i] = cofi__arena_take(pool, arena, size_of(i));
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 8, 0);
        memset(items[i], (int)i & 0xff, size_of(i));
    }
}

static void items_hold_what_was_written(void **state)
{
    (void)state;
    struct chunk_pool pool = {0};
    struct arena arena = {0};
    fill(&pool, &arena);
    volatile uint8_t behind = 0; /* read for the sanitizer's sake */
    for (unsigned i = 0; i < ITEMS; i++) {
        for (size_t k = 0; k < size_of(i); k++)
            assert_int_equal(items[i][k], i & 0xff);
        behind = items[i][size_of(i) + ARENA_BEHIND - 1];
    }
    (void)behind;
    assert_int_equal(pool.used, arena.bytes);
    assert_true(arena.bytes >= (size_t)ITEMS * (1 + MOST) / 2 && arena.bytes <= (size_t)ITEMS * MOST);
    cofi__pool_free(&pool);
}

static void chunks_that_were_cleared_serve_another_arena(void **state)
{
    (void)state;
    struct chunk_pool pool = {0};
    struct arena one = {0}, other = {0};
    fill(&pool, &one);
    size_t bytes = pool.bytes;
    for (unsigned i = 0; i < 5; i++) {
        cofi__arena_clear(&pool, &one);
        assert_int_equal(pool.used, 0);
        fill(&pool, &other);
        cofi__arena_clear(&pool, &other);
        fill(&pool, &one);
    }
    assert_int_equal(pool.bytes, bytes);
    cofi__pool_free(&pool);
    assert_int_equal(pool.bytes, 0);
}

static void little_takes_one_chunk(void **state)
{
    (void)state;
    struct chunk_pool pool = {0};
    struct arena arena = {0};
    assert_non_null(cofi__arena_take(&pool, &arena, ARENA_MOST));
    assert_true(pool.bytes <= 4 * ARENA_MOST);
    cofi__pool_free(&pool);
}

static bool is_zero(const uint8_t *p, size_t n)
{
    while (n && !*p)
        p++, n--;
    return !n;
}

/* Of all sizes, in pools of both kinds; the memory is what was let go before. */
static void tables_are_zero_and_no_other_ones(void **state)
{
    (void)state;
    enum { TABLES = 11 };
    for (unsigned round = 0; round < 6; round++) {
        struct chunk_pool pool = {.huge = round & 1};
        uint8_t *table[TABLES];
        for (unsigned i = 0; i < TABLES; i++) {
            table[i] = cofi__table_take(&pool, (size_t)4096 << i);
            assert_non_null(table[i]);
            assert_true(is_zero(table[i], (size_t)4096 << i));
            memset(table[i], (int)i + 1, (size_t)4096 << i);
        }
        for (unsigned i = 0; i < TABLES; i++) {
            assert_true(table[i][0] == i + 1 && !memcmp(table[i], table[i] + 1, ((size_t)4096 << i) - 1));
            cofi__table_free(&pool, table[i], (size_t)4096 << i);
        }
        cofi__tables_clear(&pool);
        cofi__pool_free(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_hold_what_was_written),
        cmocka_unit_test(chunks_that_were_cleared_serve_another_arena),
        cmocka_unit_test(little_takes_one_chunk),
        cmocka_unit_test(tables_are_zero_and_no_other_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
