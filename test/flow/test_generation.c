/* SPDX-License-Identifier: MIT
 * What a consumer remembers of blocks by their ids holds until cofi_flow_generation counts up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cofi/flow.h>
#include <cofi/image.h>

/* JUMPS indirect jumps, each of which leads to another one. */
enum { BASE = 0x401000, STRIDE = 8, JUMPS = 30000, IDS = JUMPS + 16 };
static const size_t small = 1 << 16; /* bytes of a cache that does not hold them all */

static uint8_t trace[32 + 5 * JUMPS];

/* Visited in an order that comes to each of them. */
static uint64_t jump_at(unsigned i) { return BASE + (uint64_t)STRIDE * (i * 7919u % JUMPS); }

static struct cofi_image *make_image(void)
{
    struct cofi_image *image;
    uint8_t *code = malloc(STRIDE * JUMPS);
    memset(code, 0x90, STRIDE * JUMPS);
    for (size_t i = 0; i < JUMPS; i++)
        memcpy(code + STRIDE * i, "\xff\xe0", 2); /* jmp rax */
    assert_int_equal(cofi_image_open(&image), 0);
    assert_int_equal(cofi_image_map_bytes(image, 0, BASE, code, STRIDE * JUMPS, "code"), 0);
    free(code);
    return image;
}

/* PSB, PSBEND, MODE.Exec, TIP.PGE to the first; a TIP of 4 bytes to each of the others. */
static size_t make_trace(void)
{
    static const uint8_t rest[] = {0x02, 0x23, 0x99, 0x01, 0x71, BASE & 0xff, BASE >> 8 & 0xff, BASE >> 16, 0, 0, 0};
    size_t n = 0;
    for (; n < 16; n += 2)
        memcpy(trace + n, "\x02\x82", 2);
    memcpy(trace + n, rest, sizeof rest);
    n += sizeof rest;
    for (unsigned i = 1; i < JUMPS; i++, n += 5) {
        trace[n] = 0x4d;
        for (unsigned k = 0; k < 4; k++)
            trace[n + 1 + k] = (uint8_t)(jump_at(i) >> 8 * k);
    }
    return n;
}

/* What was seen of a decode by who remembers blocks by their ids. */
struct seen {
    unsigned blocks;
    uint32_t generations; /* how often it was told to forget */
    bool reused;          /* an id meant another block than long before */
};

struct memory {
    uint64_t now[IDS], ever[IDS]; /* address by id, 0: none */
    const struct cofi_flow_block *block[IDS];
};

static void note(struct memory *memory, const struct cofi_flow_block *block, struct seen *seen)
{
    assert_true(block->id < IDS);
    assert_int_equal(block->ip, jump_at(seen->blocks++));
    if (memory->now[block->id])
        assert_int_equal(memory->now[block->id], block->ip);
    seen->reused |= memory->ever[block->id] && memory->ever[block->id] != block->ip;
    memory->now[block->id] = memory->ever[block->id] = block->ip;
    memory->block[block->id] = block;
}

/* Blocks of this generation are what they were when they were shown first. */
static void look_again(const struct memory *memory)
{
    for (size_t id = 0; id < IDS; id++)
        if (memory->now[id]) {
            assert_int_equal(memory->block[id]->ip, memory->now[id]);
            assert_int_equal(memory->block[id]->id, id);
        }
}

static void decode(struct cofi_flow *flow, struct seen *seen)
{
    static const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    struct memory *memory = calloc(1, sizeof *memory);
    uint32_t generation = cofi_flow_generation(flow);
    while (cofi_flow_next(flow, &batch) > 0) {
        assert_true(cofi_flow_generation(flow) >= generation);
        if (cofi_flow_generation(flow) != generation) {
            memset(memory->now, 0, sizeof memory->now);
            seen->generations++;
        }
        generation = cofi_flow_generation(flow);
        for (size_t i = 0; i < batch.blocks_n; i++)
            note(memory, blocks[i], seen);
        look_again(memory);
    }
    free(memory);
}

static struct seen run(size_t cache_bytes, bool twice)
{
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    struct seen seen = {0};
    struct cofi_image *image = make_image();
    cofi_flow_config_init(&config, COFI_PT);
    config.image = image;
    config.bytes = trace;
    config.n = make_trace();
    config.cache_bytes = cache_bytes;
    assert_int_equal(cofi_flow_open(&flow, &config), 0);
    assert_int_equal(cofi_flow_generation(flow), 0);
    decode(flow, &seen);
    assert_int_equal(seen.blocks, JUMPS - 1); /* nothing tells where the last one leads */
    if (twice) {
        assert_int_equal(cofi_flow_seek(flow, 0), 0);
        seen.blocks = 0;
        decode(flow, &seen);
        assert_int_equal(seen.blocks, JUMPS - 1);
    }
    cofi_flow_close(flow);
    cofi_image_close(image);
    return seen;
}

static void it_counts_up_when_the_cache_was_emptied(void **state)
{
    (void)state;
    struct seen seen = run(small, false);
    assert_true(seen.generations > 10);
    assert_true(seen.reused);
}

static void it_stays_while_the_cache_holds_all(void **state)
{
    (void)state;
    struct seen seen = run(0, true);
    assert_int_equal(seen.generations, 0);
    assert_false(seen.reused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_counts_up_when_the_cache_was_emptied),
        cmocka_unit_test(it_stays_while_the_cache_holds_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
