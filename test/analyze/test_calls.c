/* SPDX-License-Identifier: MIT
 * The call tree: calls, returns, tail calls, recursion, longjmp, signals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include <cofi/analyze.h>

/* Functions are 0x100 long: main at 0x100, f at 0x200, g at 0x300, h at 0x400. */
enum { MAIN = 0x100, F = 0x200, G = 0x300, H = 0x400 };

static const char *const names[] = {"?", "main", "f", "g", "h"};

static const char *library; /* that lies at all these addresses now */

static void function_at(void *opaque, uint64_t address, struct cofi_function *function)
{
    (void)opaque;
    if (address >= 0x1000) { /* code without symbols */
        function->module = "stripped";
        return;
    }
    function->start = address & ~UINT64_C(0xff);
    function->name = names[address >> 8];
    function->module = library;
}

struct fixture {
    struct cofi_calls *calls;
};

static int setup(void **state)
{
    static struct fixture fixture;
    assert_int_equal(cofi_calls_open(&fixture.calls, function_at, NULL), 0);
    assert_int_equal(cofi_calls_insns(fixture.calls, MAIN, 1), 0);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    cofi_calls_close(fixture->calls);
    return 0;
}

/* The node at a path like "main/f/g"; fails the test if there is none. */
static const struct cofi_calls_node *at(struct cofi_calls *calls, const char *path)
{
    size_t n;
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    uint32_t here = 0;
    while (*path) {
        size_t length = strcspn(path, "/");
        uint32_t child = nodes[here].first_child;
        while (child && (strlen(nodes[child].function.name) != length ||
                         strncmp(nodes[child].function.name, path, length)))
            child = nodes[child].next;
        if (!child)
            fail_msg("no node %s", path);
        here = child;
        path += length + (path[length] == '/');
    }
    return &nodes[here];
}

static void a_call_and_its_return_nest(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_insns(calls, F, 10);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 2);
    assert_int_equal(at(calls, "main")->self, 3);
    assert_int_equal(at(calls, "main")->total, 13);
    assert_int_equal(at(calls, "main/f")->self, 10);
    assert_int_equal(at(calls, "main/f")->calls, 1);
}

static void a_tail_call_returns_to_its_callers_caller(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_jump(calls, G);
    cofi_calls_insns(calls, G, 7);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    assert_int_equal(at(calls, "main/f/g")->self, 7);
    assert_int_equal(at(calls, "main")->self, 2);
}

static void a_jump_inside_a_function_changes_nothing(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_jump(calls, MAIN + 0x40);
    cofi_calls_insns(calls, MAIN + 0x40, 4);
    assert_int_equal(at(calls, "main")->self, 5);
    assert_int_equal(at(calls, "main")->calls, 1);
}

static void direct_recursion_is_one_node_however_deep(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_call(calls, MAIN + 5, F);
    for (int i = 0; i < 1000; i++)
        cofi_calls_call(calls, F + 0x20, F);
    for (int i = 0; i < 1000; i++)
        cofi_calls_ret(calls, F + 0x20);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    assert_int_equal(at(calls, "main/f")->calls, 1001);
    assert_int_equal(at(calls, "main/f")->recursions, 1000);
    assert_int_equal(at(calls, "main")->self, 2);
    cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 3);
}

static void mutual_recursion_unwinds_level_by_level(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_call(calls, F + 5, G);
    cofi_calls_call(calls, G + 5, F);
    cofi_calls_call(calls, F + 5, G);
    cofi_calls_ret(calls, F + 5);
    cofi_calls_insns(calls, F + 5, 1);
    cofi_calls_ret(calls, G + 5);
    cofi_calls_insns(calls, G + 5, 10);
    assert_int_equal(at(calls, "main/f/g/f")->self, 1);
    assert_int_equal(at(calls, "main/f/g")->self, 10);
}

static void longjmp_unwinds_to_the_function_it_lands_in(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_call(calls, F + 5, G);
    cofi_calls_call(calls, G + 5, H);
    cofi_calls_jump(calls, MAIN + 0x30); /* jmp *%rdx */
    cofi_calls_insns(calls, MAIN + 0x30, 3);
    assert_int_equal(at(calls, "main")->self, 4);
    cofi_calls_call(calls, MAIN + 0x40, F);
    assert_int_equal(at(calls, "main/f")->calls, 2);
}

static void a_return_to_a_frame_further_up_drops_those_between(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_call(calls, F + 5, G);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    assert_int_equal(at(calls, "main")->self, 2);
}

static void a_call_of_displacement_zero_is_no_call(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    assert_int_equal(at(calls, "main")->self, 2);
    assert_int_equal(at(calls, "main")->calls, 1);
}

static void a_signal_handler_is_a_child_of_what_it_interrupted(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_async(calls, F + 0x10);
    cofi_calls_resume(calls, H);
    cofi_calls_insns(calls, H, 6);
    cofi_calls_resume(calls, F + 0x10); /* sigreturn */
    cofi_calls_insns(calls, F + 0x10, 2);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    assert_int_equal(at(calls, "main/f/h")->self, 6);
    assert_int_equal(at(calls, "main/f")->self, 2);
    assert_int_equal(at(calls, "main")->self, 2);
}

static void without_symbols_calls_tell_where_functions_start(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_call(calls, MAIN + 5, 0x1000);
    cofi_calls_jump(calls, 0x1010); /* a loop in it */
    cofi_calls_jump(calls, 0x1000);
    cofi_calls_call(calls, 0x1015, 0x2000);
    cofi_calls_jump(calls, 0x2040);
    cofi_calls_ret(calls, 0x1015);
    cofi_calls_jump(calls, 0x2000); /* a tail call: 0x2000 was called before */
    cofi_calls_insns(calls, 0x2000, 5);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 4); /* root, main, 0x1000, 0x2000 below it */
    assert_int_equal(nodes[3].self, 5);
    assert_int_equal(nodes[3].calls, 2);
    assert_int_equal(nodes[1].self, 2);
}

static void another_librarys_function_at_the_same_address_is_another_node(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    for (int i = 0; i < 4; i++) {
        library = i % 2 ? "b" : "a";
        cofi_calls_forget(calls);
        cofi_calls_call(calls, MAIN + 5, F);
        cofi_calls_insns(calls, F, 3);
        cofi_calls_ret(calls, MAIN + 5);
    }
    library = NULL;
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 4); /* root, main, f of a, f of b */
    for (int i = 2; i < 4; i++) {
        assert_int_equal(nodes[i].calls, 2);
        assert_int_equal(nodes[i].self, 6);
        assert_string_equal(nodes[i].function.module, i == 2 ? "a" : "b");
    }
}

static void children_are_in_the_order_of_their_totals(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    enum { CHILDREN = 1000 };
    uint32_t order[2][CHILDREN];
    size_t n;
    for (uint64_t i = 0; i < CHILDREN; i++) {
        cofi_calls_call(calls, MAIN + 5, 0x1000 + 16 * i);
        cofi_calls_insns(calls, 0x1000 + 16 * i, i * 7919 % 64);
        cofi_calls_ret(calls, MAIN + 5);
    }
    for (unsigned again = 0; again < 2; again++) {
        cofi_calls_finish(calls);
        const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
        unsigned children = 0;
        for (uint32_t i = nodes[nodes[0].first_child].first_child, before = i; i; before = i, i = nodes[i].next) {
            assert_true(nodes[before].total > nodes[i].total || (nodes[before].total == nodes[i].total && before >= i));
            assert_true(children < CHILDREN);
            order[again][children++] = i;
        }
        assert_int_equal(children, CHILDREN);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]); /* equals stay as they are */
}

static void every_instruction_is_in_one_node(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    uint64_t seed = 1, sum = 0, fed = 1;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t to = MAIN + 0x100 * (seed >> 60 & 3) + (seed >> 56 & 1 ? 0 : 0x10);
        switch (seed >> 33 & 3) {
        case 0: cofi_calls_call(calls, MAIN + 0x100 * (seed >> 50 & 3) + 5, to); break;
        case 1: cofi_calls_ret(calls, MAIN + 0x100 * (seed >> 50 & 3) + 5); break;
        case 2: cofi_calls_jump(calls, to); break;
        case 3: cofi_calls_async(calls, to); break;
        }
        cofi_calls_insns(calls, to, seed >> 40 & 7);
        fed += seed >> 40 & 7;
        if (i % 1000 == 0)
            cofi_calls_forget(calls);
    }
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    for (size_t i = 0; i < n; i++)
        sum += nodes[i].self;
    assert_int_equal(sum, fed);
    assert_int_equal(nodes[0].total, fed);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_call_and_its_return_nest),
        TEST(a_tail_call_returns_to_its_callers_caller),
        TEST(a_jump_inside_a_function_changes_nothing),
        TEST(direct_recursion_is_one_node_however_deep),
        TEST(mutual_recursion_unwinds_level_by_level),
        TEST(longjmp_unwinds_to_the_function_it_lands_in),
        TEST(a_return_to_a_frame_further_up_drops_those_between),
        TEST(a_call_of_displacement_zero_is_no_call),
        TEST(a_signal_handler_is_a_child_of_what_it_interrupted),
        TEST(without_symbols_calls_tell_where_functions_start),
        TEST(another_librarys_function_at_the_same_address_is_another_node),
        TEST(children_are_in_the_order_of_their_totals),
        TEST(every_instruction_is_in_one_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
