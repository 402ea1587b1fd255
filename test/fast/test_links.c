/* SPDX-License-Identifier: MIT
 * Links between blocks: one that dies does not look at the others that lead where it led, and one that wakes has its links again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "host/fast/rt/cache.c"

enum { STORE = 0, JUMP = 3, STUB = 16, COLD = 128 };

/* What cache.c asks of the rest of the runtime. */
struct runtime rt;
char rt_miss_slow[1];
void rt_miss(void) {}
void rt_die(const char *why, uint64_t value) { fail_msg("%s %lx", why, (unsigned long)value); abort(); }
long rt_syscall6(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    (void)nr, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return 0;
}
void arena_init(void) {}
void arena_claim(uint64_t from, uint64_t to) { (void)from, (void)to; }
const struct arena *arena_at(uint64_t address) { (void)address; return NULL; }
bool arena_next_generation(void) { return true; }
void watch_drop(uint64_t start, uint64_t end) { (void)start, (void)end; }
void watch_flush(void) {}
bool trace_all_know(uint64_t since) { (void)since; return true; }

static uint8_t *const descriptors = (uint8_t *)CACHE_DESCRIPTORS; /* a page each */
static _Alignas(64) uint8_t code[64][256];
static struct arena arena;
static unsigned made;

static int map_tables(void **state)
{
    (void)state;
    uint64_t bytes = CACHE_DESCRIPTORS + 64 * PAGE - CACHE_IBL;
    void *got = mmap((void *)CACHE_IBL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    arena.index = (uint32_t *)CACHE_INDEX;
    cache_init();
    return got == (void *)CACHE_IBL ? 0 : -1;
}

/* A block with one exit that can be linked, the only thing on its page. */
static struct block *make(void)
{
    struct block *b = (struct block *)(descriptors + made * PAGE);
    *b = (struct block){.pc = 0x1000 + 16 * made, .code_start = code[made], .cold_start = COLD, .exits = 1, .entry = 8};
    *block_exits(b) = (struct exit){.kind = EXIT_DIRECT, .jump = JUMP, .store = STORE, .stub = STUB};
    made++;
    cache_add(&arena, b);
    return b;
}

static struct block *make_linked(struct block *to)
{
    struct block *b = make();
    cache_link(block_exits(b), to);
    return b;
}

/* Where a block's exit leads. */
static const uint8_t *way_out(const struct block *b)
{
    const uint8_t *jump = b->code_start + STORE + JUMP;
    return jump + 5 + *(const int32_t *)(jump + 1);
}

static const uint8_t *stub(const struct block *b) { return b->code_start + COLD + STUB; }

/* Thousands lead to some blocks: to look for one among them, each time that one dies, takes longer than all else. */
static void a_block_dies_without_a_look_at_the_links_of_others(void **state)
{
    (void)state;
    struct block *to = make(), *first = make_linked(to), *other = make_linked(to), *last = make_linked(to);
    assert_int_equal(mprotect(other, PAGE, PROT_NONE), 0);
    cache_forget(first);
    cache_forget(last);
    assert_int_equal(mprotect(other, PAGE, PROT_READ | PROT_WRITE), 0);
    assert_ptr_equal(way_out(first), stub(first));
    assert_ptr_equal(way_out(last), stub(last));
    assert_ptr_equal(way_out(other), entry_of(to));
    cache_forget(to);
    assert_ptr_equal(way_out(other), stub(other));
}

static void a_block_that_wakes_has_its_links_again(void **state)
{
    (void)state;
    struct block *to = make(), *from = make_linked(to);
    cache_forget(from);
    cache_wake(from);
    assert_ptr_equal(way_out(from), entry_of(to));
    cache_forget(to);
    assert_ptr_equal(way_out(from), stub(from));
}

static void where_what_it_led_to_has_died_meanwhile_it_has_none(void **state)
{
    (void)state;
    struct block *to = make(), *from = make_linked(to), *next = make();
    cache_forget(from);
    cache_forget(to);
    cache_wake(from);
    assert_ptr_equal(way_out(from), stub(from));
    cache_link(block_exits(from), next);
    assert_ptr_equal(way_out(from), entry_of(next));
}

static void who_led_to_a_block_that_is_replaced_leads_to_the_new_one_unless_dead(void **state)
{
    (void)state;
    struct block *to = make(), *dead = make_linked(to), *from = make_linked(to), *new = make();
    cache_forget(dead);
    cache_replace(to, new, true);
    assert_ptr_equal(way_out(from), entry_of(new));
    assert_ptr_equal(way_out(dead), stub(dead));
    cache_wake(dead);
    assert_ptr_equal(way_out(dead), stub(dead));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_dies_without_a_look_at_the_links_of_others),
        cmocka_unit_test(a_block_that_wakes_has_its_links_again),
        cmocka_unit_test(where_what_it_led_to_has_died_meanwhile_it_has_none),
        cmocka_unit_test(who_led_to_a_block_that_is_replaced_leads_to_the_new_one_unless_dead),
    };
    return cmocka_run_group_tests_name("fast-links", tests, map_tables, NULL);
}
