/* SPDX-License-Identifier: MIT
 * Random changes, against a model that knows what each address shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "image/image.h"

enum { SPACE = 1 << 15, SOURCES = 5, CHANGES = 12000, LEAF_MOST = 64 };

/* What an address shows: source null: nothing. */
struct shown {
    struct cofi__source *source;
    uint64_t offset;
};

struct model {
    struct shown at[SPACE];
    bool told[SPACE];
};

/* Of files, which nobody reads here; of memory, which hides no function of a JIT. */
enum { MEMORY = SOURCES - 2, FUNCTION };
static struct cofi__source sources[SOURCES] = {{.path = "/a"}, {.path = "/b"}, {.path = "/c"}, [MEMORY] = {.path = "//anon"},
                                               [FUNCTION] = {.path = "f", .is_function = true}};
static uint64_t seed;

static uint64_t below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 33) % n;
}

/* Mostly few bytes; now and then much, or all, so that there are many segments and few by turns. */
static struct cofi__change random_change(uint64_t time_ns)
{
    bool all = !below(CHANGES / 3), much = !below(400);
    uint64_t addr = all ? 0 : below(SPACE), most = all ? SPACE : much ? SPACE / 2 : 8, len = all ? SPACE : 1 + below(most);
    if (len > SPACE - addr)
        len = SPACE - addr;
    bool nothing = all || below(4) == 0;
    uint64_t from = below(3) * 4 + addr;
    return (struct cofi__change){time_ns, addr, len, from, nothing ? NULL : &sources[below(SOURCES)]};
}

static bool same(const struct shown *a, const struct shown *b)
{
    return a->source == b->source && (!a->source || a->offset == b->offset);
}

/* Make the change in the model; told: where it shows something else then. all: memory hides functions, too. */
static void change_model(struct model *model, const struct cofi__change *change, bool all)
{
    for (uint64_t i = 0; i < change->len; i++) {
        struct shown *at = &model->at[change->addr + i], now = {change->source, change->pgoff + i};
        bool stays = at->source == &sources[FUNCTION] || at->source == &sources[MEMORY];
        if (!all && now.source == &sources[MEMORY] && stays)
            now = *at;
        model->told[change->addr + i] = !same(at, &now);
        *at = now;
    }
}

static void assert_shows(const struct shown *expected, const struct cofi__segment *segment, uint64_t addr)
{
    struct shown found = {0};
    if (segment) {
        assert_true(segment->start <= addr && addr < segment->end && segment->source);
        found = (struct shown){segment->source, segment->pgoff + (addr - segment->start)};
    }
    assert_true(same(expected, &found));
}

/* Segments in order, each address of them as the model has it, nothing between; and their leaves as they say. */
static void assert_is(const struct cofi__segments *segments, const struct model *model)
{
    struct cofi__place place = {0};
    uint64_t addr = 0;
    for (const struct cofi__segment *s; (s = cofi__segments_next(segments, &place));) {
        assert_true(addr <= s->start && s->start < s->end && s->end <= SPACE);
        for (; addr < s->start; addr++)
            assert_null(model->at[addr].source);
        for (; addr < s->end; addr++)
            assert_shows(&model->at[addr], s, addr);
    }
    for (; addr < SPACE; addr++)
        assert_null(model->at[addr].source);
    for (size_t i = 0; i < segments->n; i++) {
        const struct cofi__leaf *leaf = &segments->leaves[i];
        assert_true(leaf->n > 0 && leaf->n <= LEAF_MOST);
        assert_int_equal(leaf->end, leaf->rows[leaf->n - 1].end);
        assert_true(i == 0 || leaf[-1].n + leaf->n > LEAF_MOST / 2); /* memory follows what is shown */
    }
}

static void each_address_shows_what_was_put_there_last(void **state)
{
    (void)state;
    static struct model model;
    for (uint64_t run = 0; run < 4; run++) {
        struct cofi__segments segments = {0};
        size_t most = 0;
        seed = run;
        memset(&model, 0, sizeof model);
        for (unsigned i = 0; i < CHANGES; i++) {
            struct cofi__change change = random_change(0);
            const struct cofi__segment segment = {change.addr, change.addr + change.len, change.pgoff, change.source};
            change_model(&model, &change, true);
            assert_int_equal(cofi__segments_put(&segments, &segment), 0);
            for (uint64_t at = change.addr ? change.addr - 1 : 0; at < change.addr + 2; at++)
                assert_shows(&model.at[at % SPACE], cofi__segments_find(&segments, at % SPACE), at % SPACE);
            uint64_t other = below(SPACE);
            assert_shows(&model.at[other], cofi__segments_find(&segments, other), other);
            most = segments.n > most ? segments.n : most;
            if (i % 128 == 0)
                assert_is(&segments, &model);
        }
        assert_is(&segments, &model);
        assert_true(most > 10); /* so that leaves were split */
        cofi__segments_free(&segments);
    }
}

/* Addresses that are told as changed: each at most once. */
static void take_told(void *opaque, uint64_t addr, uint64_t len)
{
    struct model *model = opaque;
    for (uint64_t i = addr; i < addr + len; i++) {
        assert_true(i < SPACE && model->told[i]);
        model->told[i] = false;
    }
}

static void assert_all_told(const struct model *model)
{
    for (uint64_t i = 0; i < SPACE; i++)
        assert_false(model->told[i]);
}

static void a_change_tells_what_it_changes(void **state)
{
    (void)state;
    static struct model model;
    struct cofi_image *image;
    seed = 5;
    assert_int_equal(cofi_image_open(&image), 0);
    struct cofi__table table = {.image = image};
    memset(&model, 0, sizeof model);
    for (uint64_t i = 1; i <= CHANGES; i++) {
        struct cofi__change change = random_change(i);
        assert_int_equal(cofi__image_add(image, i, change.addr, change.len, change.source, change.pgoff), 0);
        change_model(&model, &change, false);
        assert_true(cofi__table_advance(&table, i, take_told, &model) >= 0);
        for (uint64_t k = 0; k < change.len; k++)
            assert_false(model.told[change.addr + k]);
        if (i % 512 == 0)
            assert_is(&table.segments, &model);
    }
    cofi__segments_free(&table.segments);
    cofi_image_close(image);
}

/* A fork shows what its parent showed then, and two tables differ in what the model says. */
static void forks_and_differences_are_those_of_the_model(void **state)
{
    (void)state;
    static struct model model, then;
    struct cofi_image *image, *child;
    seed = 6;
    assert_int_equal(cofi_image_open(&image), 0);
    memset(&model, 0, sizeof model);
    struct cofi__table before = {.image = image}, after = {.image = image};
    for (uint64_t i = 1; i <= CHANGES; i++) {
        struct cofi__change change = random_change(i);
        assert_int_equal(cofi__image_add(image, i, change.addr, change.len, change.source, change.pgoff), 0);
        change_model(&model, &change, false);
        if (i == CHANGES / 2)
            then = model;
    }
    assert_int_equal(cofi__table_forward(&before, CHANGES / 2), 0);
    assert_int_equal(cofi__table_forward(&after, CHANGES), 0);
    for (uint64_t i = 0; i < SPACE; i++)
        model.told[i] = !same(&model.at[i], &then.at[i]);
    assert_true(cofi__table_differences(&before, &after, take_told, &model) > 0);
    assert_all_told(&model);
    assert_int_equal(cofi_image_open(&child), 0);
    assert_int_equal(cofi_image_fork(child, image, CHANGES / 2), 0);
    struct cofi__table forked = {.image = child};
    assert_int_equal(cofi__table_forward(&forked, CHANGES), 0);
    assert_is(&forked.segments, &then);
    cofi__segments_free(&before.segments);
    cofi__segments_free(&after.segments);
    cofi__segments_free(&forked.segments);
    cofi_image_close(child);
    cofi_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_shows_what_was_put_there_last),
        cmocka_unit_test(a_change_tells_what_it_changes),
        cmocka_unit_test(forks_and_differences_are_those_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
