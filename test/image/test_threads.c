/* SPDX-License-Identifier: MIT
 * Many views of one image, each from its own thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <pthread.h>
#include <cmocka.h>

#include <cofi/image.h>

enum { THREADS = 8, ADDRESSES = 4000 };
static const uint64_t base = 0x7f0000000000;

struct worker {
    const struct cofi_image *image;
    uint64_t hash;
};

/* Everything a walker asks: bytes, symbols and lines, at places in the same order for all. */
static void *work(void *opaque)
{
    struct worker *worker = opaque;
    struct cofi_view *view;
    if (cofi_view_open(&view, worker->image) < 0)
        return NULL;
    for (uint64_t i = 0; i < ADDRESSES; i++) {
        struct cofi_code code;
        struct cofi_symbol symbol;
        uint64_t addr = base + i * 7919 % 0x400000;
        cofi_view_advance(view, i, NULL, NULL);
        if (cofi_view_find(view, addr, &code) == 0)
            worker->hash = worker->hash * 31 + code.bytes[addr - code.start];
        cofi_view_symbol(view, addr, i % 16 == 0, &symbol);
        if (symbol.name)
            worker->hash = worker->hash * 31 + strlen(symbol.name) + symbol.offset + (uint64_t)symbol.line;
    }
    cofi_view_close(view);
    return NULL;
}

static void views_of_one_image_from_many_threads_all_see_the_same(void **state)
{
    (void)state;
    struct cofi_image *image;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    uint8_t bytes[64] = {1};
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, "/proc/self/exe", base, NULL), 0);
    assert_int_equal(cofi_image_map_elf(image, 0, "/bin/sh", base + 0x200000, NULL), 0);
    for (uint64_t i = 1; i < 200; i++)
        assert_int_equal(cofi_image_map_bytes(image, i * 10, base + i * 64, bytes, sizeof bytes, "jit"), 0);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){image, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(workers[0].hash);
    for (size_t i = 1; i < THREADS; i++)
        assert_int_equal(workers[i].hash, workers[0].hash);
    cofi_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_of_one_image_from_many_threads_all_see_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
