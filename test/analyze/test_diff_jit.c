/* SPDX-License-Identifier: MIT
 * Two runs of code that a JIT made, which lies elsewhere in each and is made in another order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <cofi/diff.h>
#include <cofi/insn.h>

#include "image/image.h"

enum { CODE = 16 /* bytes of a function */ };

struct fixture {
    struct cofi_image *images[2];
    struct cofi_view *views[2];
    struct cofi_diff *diff;
    uint64_t at[2], loop[2], alone[2]; /* at: where the next function goes */
};

static int more(void *opaque, unsigned of)
{
    (void)opaque, (void)of;
    return 0;
}

static int parted(void *opaque)
{
    (void)opaque;
    return 0;
}

static int alone(void *opaque, unsigned of, const struct cofi_diff_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((struct fixture *)opaque)->alone[of] += steps[i].insns;
    return 0;
}

static int joined(void *opaque, const struct cofi_diff_step *const at[2])
{
    (void)opaque, (void)at;
    return 0;
}

/* A function of the JIT's of one run. Returns where it is. */
static uint64_t make(struct fixture *f, unsigned of, const char *name)
{
    uint8_t code[CODE];
    memset(code, 0x90, sizeof code);
    uint64_t at = f->at[of];
    f->at[of] += 2 * CODE;
    assert_int_equal(cofi__image_named_bytes(f->images[of], 0, at, code, sizeof code, name), 0);
    return at;
}

static void begin(struct fixture *f)
{
    const struct cofi_diff_options options = {.size = sizeof options};
    *f = (struct fixture){.at = {0x10000, 0x7000000}};
    assert_int_equal(cofi_diff_open(&f->diff, &options), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(cofi_image_open(&f->images[i]), 0);
        f->loop[i] = make(f, i, "loop");
    }
}

static void see(struct fixture *f)
{
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(cofi_view_open(&f->views[i], f->images[i]), 0);
}

static void block(struct fixture *f, unsigned of, uint64_t ip, uint32_t n, uint8_t cls)
{
    const struct cofi_flow_block block = {.ip = ip, .end = ip + n, .n = n, .cls = cls, .mode = 64}, *blocks = &block;
    assert_int_equal(cofi_diff_blocks(f->diff, of, f->views[of], &blocks, 1), 0);
}

/* The first function, which is a loop, calls another one. */
static void run(struct fixture *f, unsigned of, uint64_t ip)
{
    block(f, of, f->loop[of], CODE / 2, COFI_CLASS_CALL_IND);
    block(f, of, ip, CODE, COFI_CLASS_RET);
    block(f, of, f->loop[of] + CODE / 2, CODE / 2, COFI_CLASS_JMP);
}

static void end(struct fixture *f, uint64_t both)
{
    struct cofi_diff_visitor visitor = {more, parted, alone, joined, f};
    assert_int_equal(cofi_diff_run(f->diff, &visitor), 0);
    assert_int_equal(cofi_diff_insns(f->diff, 0) - f->alone[0], both * 2 * CODE);
    assert_int_equal(cofi_diff_insns(f->diff, 1) - f->alone[1], both * 2 * CODE);
    cofi_diff_close(f->diff);
    for (unsigned i = 0; i < 2; i++) {
        cofi_view_close(f->views[i]);
        cofi_image_close(f->images[i]);
    }
}

static void a_function_is_the_same_whatever_was_made_before_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    uint64_t extra = make(&f, 0, "extra"), g[2] = {make(&f, 0, "g"), make(&f, 1, "g")}, h[2] = {make(&f, 0, "h"), make(&f, 1, "h")};
    see(&f);
    for (unsigned of = 0; of < 2; of++)
        for (int i = 0; i < 40; i++) {
            if (!of && i == 8)
                run(&f, of, extra);
            run(&f, of, i % 4 == 3 || i < 8 ? g[of] : h[of]);
        }
    end(&f, 40);
    assert_int_equal(f.alone[0], 2 * CODE);
    assert_int_equal(f.alone[1], 0);
}

static void functions_of_one_name_are_told_apart(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    uint64_t slow[2] = {make(&f, 0, "f"), make(&f, 1, "f")}, fast[2] = {make(&f, 0, "f"), make(&f, 1, "f")};
    see(&f);
    for (unsigned of = 0; of < 2; of++)
        for (int i = 0; i < 40; i++)
            run(&f, of, i < 8 + 4 * (int)of ? slow[of] : fast[of]);
    end(&f, 36);
}

/* (To look for each among all others would take minutes.) */
static void a_jit_may_make_much_code(void **state)
{
    (void)state;
    enum { FUNCTIONS = 200000 };
    struct fixture f;
    char name[32];
    begin(&f);
    for (int i = 0; i < FUNCTIONS; i++)
        for (unsigned of = 0; of < 2; of++) {
            snprintf(name, sizeof name, "f%d", i / 2);
            make(&f, of, i % 4 ? name : "g");
        }
    see(&f);
    for (unsigned of = 0; of < 2; of++)
        for (int i = 0; i < FUNCTIONS; i++)
            run(&f, of, f.at[of] - 2 * CODE * (uint64_t)(FUNCTIONS - i));
    end(&f, FUNCTIONS);
    assert_int_equal(f.alone[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_is_the_same_whatever_was_made_before_it),
        cmocka_unit_test(functions_of_one_name_are_told_apart),
        cmocka_unit_test(a_jit_may_make_much_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
