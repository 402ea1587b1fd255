/* SPDX-License-Identifier: MIT
 * Code that changes: the blocks that hold any of it are forgotten, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "flow/walker.h"

enum { BASE = 0x400000, SPACE = 1 << 19, CHANGES = 3000 };
static uint64_t seed;

static uint64_t below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 33) % n;
}

/* RETs among NOPs: each block goes up to the next one, or over BLOCK_INSNS of them. NOPs are of 1 byte, or in the upper half
 * of 11, for blocks that are longer than half a page. */
static struct cofi_image *make_image(void)
{
    static const uint8_t nop[] = {0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0};
    uint8_t *code = malloc(SPACE);
    struct cofi_image *image;
    for (size_t at = 0; at < SPACE;) {
        uint64_t nops = below(8) ? below(20) : below(300);
        size_t n = at < SPACE / 2 ? 1 : sizeof nop;
        for (; nops && at + n < SPACE; nops--, at += n)
            memcpy(code + at, n == 1 ? (const uint8_t *)"\x90" : nop, n);
        code[at++] = 0xc3;
    }
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, BASE, code, SPACE, "code"), 0);
    free(code);
    return image;
}

/* Fetch blocks at random places, so that some lie in others. */
static void fetch(struct cofi_flow *flow, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct block *b = cofi__block_at(flow, BASE + below(SPACE));
        if (!b)
            continue; /* no instruction begins there */
        assert_false(b->dead);
        if (b->pub.n > 2 && !below(4))
            assert_non_null(cofi__block_cut(flow, b, b->pub.n / 2));
    }
}

/* Change [addr, addr + len): of all blocks those die that have a byte there. Returns how many. */
static size_t change(struct cofi_flow *flow, uint64_t addr, uint64_t len)
{
    static bool was_dead[CHANGES * 20];
    size_t died = 0;
    assert_true(flow->cache.all_n <= CHANGES * 20);
    for (size_t i = 0; i < flow->cache.all_n; i++)
        was_dead[i] = flow->cache.all[i]->dead;
    cofi__block_changed(flow, addr, len);
    for (size_t i = 0; i < flow->cache.all_n; i++) {
        const struct block *b = flow->cache.all[i];
        bool touched = b->pub.ip < addr + len && b->pub.end > addr;
        if (b->dead != (was_dead[i] || touched))
            fail_msg("block %#lx to %#lx, change %#lx+%#lx: dead %d", b->pub.ip, b->pub.end, addr, len, b->dead);
        died += b->dead && !was_dead[i];
    }
    return died;
}

static void blocks_that_hold_what_changed_die_and_no_others(void **state)
{
    (void)state;
    struct cofi_image *image = make_image();
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    size_t died = 0;
    cofi_flow_config_init(&config, COFI_PT);
    config.image = image;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    change(flow, BASE, SPACE); /* before there is any */
    for (unsigned i = 0; i < CHANGES; i++) {
        fetch(flow, 10);
        uint64_t most = below(50) ? 40 : below(20) ? 3 * 4096 : 4 * SPACE;
        uint64_t at = BASE + below(SPACE);
        died += change(flow, at, 1 + below(most));
    }
    fetch(flow, 10);
    assert_true(died > CHANGES);
    died = change(flow, 1, UINT64_MAX - 1);
    assert_true(died > 0);
    cofi_flow_close(flow);
    cofi_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_that_hold_what_changed_die_and_no_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
