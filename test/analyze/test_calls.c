/* SPDX-License-Identifier: MIT
 * The call tree: calls, returns, tail calls, recursion, longjmp, signals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include <cofi/analyze.h>
#include <cofi/insn.h>

#include "base/index.h"

/* Functions are 0x100 long: main at 0x100, f at 0x200, g at 0x300, h at 0x400, a JIT's code at 0x500; what the linker puts before f. */
enum { MAIN = 0x100, F = 0x200, G = 0x300, H = 0x400, J = 0x500, K = 0x540, STUB = 0x600, PLT = 0x700, BINDER = 0x800 };

static const char *const names[] = {"?", "main", "f", "g", "h", "j", "f@plt", ".plt", "_dl_runtime_resolve_xsave"};
static bool k_is_there; /* the JIT wrote a function k over the rest of j */

static const char *library; /* that lies at all these addresses now */

static void function_at(void *opaque, uint64_t address, struct cofi_function *function)
{
    (void)opaque;
    function->module = library ? library : "program";
    if (address >= 0x1000) /* code without symbols */
        return;
    bool in_k = k_is_there && address >= K && address < J + 0x100;
    function->start = in_k ? K : address & ~UINT64_C(0xff);
    function->name = in_k ? "k" : names[address >> 8];
}

struct fixture {
    struct cofi_calls *calls;
};

static int setup(void **state)
{
    static struct fixture fixture;
    k_is_there = false;
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

/* Python's evaluator is jumped to by what it has called. */
static void without_symbols_a_tail_call_of_a_function_that_has_not_returned_is_one(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_call(calls, MAIN + 5, 0x1000);
    cofi_calls_call(calls, 0x1015, 0x2000);
    cofi_calls_jump(calls, 0x1000);
    cofi_calls_insns(calls, 0x1000, 5);
    cofi_calls_ret(calls, 0x1015);
    cofi_calls_insns(calls, 0x1015, 3);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 1);
    cofi_calls_finish(calls);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 5); /* root, main, 0x1000, 0x2000, 0x1000 */
    assert_int_equal(nodes[4].self, 5);
    assert_int_equal(nodes[2].self, 3);
    assert_int_equal(nodes[1].self, 2);
}

static void without_symbols_two_functions_that_jump_to_each_other_make_no_paths(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_call(calls, MAIN + 5, 0x2000);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_call(calls, MAIN + 15, 0x1000);
    for (int i = 0; i < 1000; i++)
        cofi_calls_jump(calls, i & 1 ? 0x1000 : 0x2000);
    cofi_calls_ret(calls, MAIN + 15);
    cofi_calls_insns(calls, MAIN + 15, 1);
    assert_int_equal(at(calls, "main")->self, 2);
    cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 5); /* root, main, 0x2000, 0x1000, 0x2000 below it */
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

static void code_that_changed_is_asked_for_anew(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, J);
    cofi_calls_jump(calls, K);
    cofi_calls_insns(calls, K, 2);
    cofi_calls_forget(calls);
    k_is_there = true;
    cofi_calls_jump(calls, K); /* the same place, now another function: a tail call */
    cofi_calls_insns(calls, K, 30);
    cofi_calls_forget(calls);
    k_is_there = false;
    cofi_calls_jump(calls, K); /* it is in j again, further up */
    cofi_calls_insns(calls, K, 4);
    assert_int_equal(at(calls, "main/j")->self, 6);
    assert_int_equal(at(calls, "main/j/k")->self, 30);
}

static void what_was_called_is_a_start_though_code_changed(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_call(calls, MAIN + 5, 0x2000);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_forget(calls);
    cofi_calls_call(calls, MAIN + 5, 0x1000);
    cofi_calls_jump(calls, 0x2000);
    cofi_calls_insns(calls, 0x2000, 5);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 5); /* root, main, 0x2000, 0x1000, 0x2000 below it */
    assert_int_equal(nodes[4].self, 5);
}

static void each_of_many_paths_is_found_again(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    enum { MANY = 20000 };
    size_t n;
    for (uint64_t i = 0; i < 3 * MANY; i++) {
        cofi_calls_call(calls, MAIN + 5, 0x1000 + i % MANY * 16);
        cofi_calls_ret(calls, MAIN + 5);
    }
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 2 + MANY);
    for (size_t i = 2; i < n; i++)
        assert_int_equal(nodes[i].calls, 3);
}

static void a_function_has_a_node_for_each_of_many_callers(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    enum { MANY = 20000 };
    size_t n;
    for (uint64_t i = 0; i < 2 * MANY; i++) {
        uint64_t caller = 0x1000 + i % MANY * 16;
        cofi_calls_call(calls, MAIN + 5, caller);
        cofi_calls_call(calls, caller + 5, F);
        cofi_calls_ret(calls, caller + 5);
        cofi_calls_ret(calls, MAIN + 5);
    }
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 2 + 2 * MANY);
    for (size_t i = 2; i < n; i++)
        assert_int_equal(nodes[i].calls, 2);
}

static void places_of_the_same_hash_are_told_apart(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const uint64_t factor = UINT64_C(0xbf58476d1ce4e5b9), one = 0x1000;
    uint64_t inverse = factor;
    size_t n;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - factor * inverse;
    const uint64_t other = (one * factor ^ 1) * inverse;
    assert_int_equal(cofi__hash(one, 0), cofi__hash(other, 0));
    for (int i = 0; i < 6; i++) {
        cofi_calls_call(calls, MAIN + 5, i % 2 ? one : other);
        cofi_calls_ret(calls, MAIN + 5);
    }
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 4);
    assert_int_equal(nodes[2].function.start, other);
    assert_int_equal(nodes[3].function.start, one);
    assert_int_equal(nodes[3].calls, 3);
}

static void a_jump_from_a_named_function_to_code_without_symbols_leaves_it(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    size_t n;
    cofi_calls_jump(calls, 0x1000);
    cofi_calls_insns(calls, 0x1000, 5);
    const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n);
    assert_int_equal(n, 3);
    assert_int_equal(nodes[2].self, 5);
}

static void address_0_is_a_place_like_others(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    for (int i = 0; i < 2; i++) {
        cofi_calls_call(calls, MAIN + 5, 0);
        cofi_calls_insns(calls, 0, 3);
        cofi_calls_ret(calls, MAIN + 5);
    }
    assert_int_equal(at(calls, "main/?")->calls, 2);
    assert_int_equal(at(calls, "main/?")->self, 6);
}

static void what_the_thread_began_in_may_be_address_0(void **state)
{
    struct cofi_calls *calls;
    (void)state;
    assert_int_equal(cofi_calls_open(&calls, function_at, NULL), 0);
    cofi_calls_insns(calls, 0, 3);
    assert_int_equal(at(calls, "?")->self, 3);
    cofi_calls_close(calls);
}

/* ---- of a flow ---- */

/* A block from ip to end of so many instructions as bytes. */
static struct cofi_flow_block block(uint64_t ip, uint64_t end, enum cofi_class cls)
{
    return (struct cofi_flow_block){.ip = ip, .end = end, .n = (uint32_t)(end - ip), .cls = (uint8_t)cls};
}

/* Show n blocks, as many at a time; what was shown is destroyed. */
static void show(struct cofi_calls *calls, const struct cofi_flow_block *blocks, size_t n, size_t at_a_time)
{
    struct cofi_flow_block shown[16];
    const struct cofi_flow_block *list[16];
    assert_true(at_a_time <= 16);
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 0; k < at_a_time && i + k < n; k++) {
            shown[k] = blocks[i + k];
            list[k] = &shown[k];
        }
        assert_int_equal(cofi_calls_blocks(calls, list, k), 0);
        memset(shown, 0xff, sizeof shown);
        memset(list, 0, sizeof list);
    }
}

static void happen(struct cofi_calls *calls, enum cofi_flow_event_kind kind, uint64_t ip, uint64_t target)
{
    const struct cofi_flow_event event = {.kind = (uint8_t)kind, .ip = ip, .target = target};
    assert_int_equal(cofi_calls_event(calls, &event), 0);
}

static void a_blocks_last_instruction_tells_what_led_to_the_next(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block ran[] = {
        block(MAIN, MAIN + 5, COFI_CLASS_CALL),        /* f */
        block(F, F + 3, COFI_CLASS_JCC),               /* not taken */
        block(F + 3, F + 5, COFI_CLASS_JCC),           /* taken */
        block(F + 0x40, F + 0x45, COFI_CLASS_OTHER),   /* falls through */
        block(F + 0x45, F + 0x47, COFI_CLASS_JMP_IND), /* a tail call: g */
        block(G, G + 30, COFI_CLASS_RET),
        block(MAIN + 5, MAIN + 9, COFI_CLASS_CALL),    /* call +0 */
        block(MAIN + 9, MAIN + 10, COFI_CLASS_OTHER),
    };
    show(calls, ran, 8, 8);
    assert_int_equal(at(calls, "main")->self, 1 + 5 + 4 + 1);
    assert_int_equal(at(calls, "main/f")->self, 3 + 2 + 5 + 2);
    assert_int_equal(at(calls, "main/f/g")->self, 30);
    assert_int_equal(at(calls, "main")->calls, 1);
}

static void a_return_to_behind_itself_is_a_return(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block ran[] = {
        block(MAIN, MAIN + 5, COFI_CLASS_CALL),
        block(F, MAIN + 5, COFI_CLASS_RET), /* overlapping code: it ends where the call did */
        block(MAIN + 5, MAIN + 9, COFI_CLASS_OTHER),
    };
    show(calls, ran, 3, 3);
    assert_int_equal(at(calls, "main")->self, 1 + 5 + 4);
}

static void what_changed_is_asked_for_anew_of_a_flow_too(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block ran[] = {
        block(MAIN, MAIN + 5, COFI_CLASS_CALL),
        block(J, J + 5, COFI_CLASS_JMP),
        block(K, K + 7, COFI_CLASS_JMP),
        block(J, J + 5, COFI_CLASS_JMP),
    };
    const struct cofi_flow_block then[] = {block(K, K + 7, COFI_CLASS_RET), block(MAIN + 5, MAIN + 6, COFI_CLASS_OTHER)};
    show(calls, ran, 4, 4);
    k_is_there = true;
    happen(calls, COFI_FLOW_CODE, COFI_NO_IP, COFI_NO_IP);
    show(calls, then, 2, 2);
    assert_int_equal(at(calls, "main/j")->self, 5 + 7 + 5);
    assert_int_equal(at(calls, "main/j/k")->self, 7);
    assert_int_equal(at(calls, "main")->self, 1 + 5 + 1);
}

static void a_signal_between_blocks_is_a_child_of_where_it_struck(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block before[] = {block(MAIN, MAIN + 5, COFI_CLASS_CALL)};
    const struct cofi_flow_block handler[] = {block(H, H + 6, COFI_CLASS_RET)};
    const struct cofi_flow_block after[] = {block(F, F + 9, COFI_CLASS_RET), block(MAIN + 5, MAIN + 6, COFI_CLASS_OTHER)};
    show(calls, before, 1, 1);
    happen(calls, COFI_FLOW_ASYNC, F, H); /* the call was made, f has not run yet */
    show(calls, handler, 1, 1);
    happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, F);
    show(calls, after, 2, 2);
    assert_int_equal(at(calls, "main/f/h")->self, 6);
    assert_int_equal(at(calls, "main/f")->self, 9);
    assert_int_equal(at(calls, "main")->self, 1 + 5 + 1);
}

static void a_return_into_what_is_filtered_out_returns_once(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block before[] = {
        block(MAIN, MAIN + 5, COFI_CLASS_CALL), block(F, F + 5, COFI_CLASS_CALL), block(G, G + 5, COFI_CLASS_CALL),
        block(F, F + 5, COFI_CLASS_CALL), block(G, G + 5, COFI_CLASS_RET),
    };
    const struct cofi_flow_block after[] = {block(F + 5, F + 12, COFI_CLASS_OTHER)};
    show(calls, before, 5, 5);
    happen(calls, COFI_FLOW_DISABLED, G + 4, COFI_NO_IP);
    happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, F + 5);
    show(calls, after, 1, 1);
    assert_int_equal(at(calls, "main/f")->self, 5);
    assert_int_equal(at(calls, "main/f/g/f")->self, 5 + 7);
}

static void who_the_beginning_returns_to_stands_beside_it(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls; /* main is what the trace began in */
    const struct cofi_flow_block ran[] = {
        block(MAIN, MAIN + 5, COFI_CLASS_JMP), block(H, H + 2, COFI_CLASS_RET), /* main's caller was called by f, which calls g */
        block(G + 9, G + 12, COFI_CLASS_RET), block(F + 5, F + 6, COFI_CLASS_CALL), block(G, G + 4, COFI_CLASS_RET),
        block(F + 6, F + 8, COFI_CLASS_OTHER),
    };
    show(calls, ran, 6, 1);
    assert_int_equal(at(calls, "main/h")->self, 2);
    assert_int_equal(at(calls, "g")->total, 3);
    assert_int_equal(at(calls, "f")->self, 1 + 2);
    assert_int_equal(at(calls, "f/g")->calls, 1);
}

static void what_a_filter_shows_alone_is_called_as_often_as_it_began(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block ran[] = {block(F, F + 9, COFI_CLASS_RET)};
    happen(calls, COFI_FLOW_DISABLED, MAIN, COFI_NO_IP);
    for (int i = 0; i < 3; i++) {
        happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, F);
        show(calls, ran, 1, 1);
        happen(calls, COFI_FLOW_DISABLED, F + 8, i ? COFI_NO_IP : G + 7);
    }
    assert_int_equal(at(calls, "main/f")->calls, 1); /* main did not return: f is taken for a tail call */
    assert_int_equal(at(calls, "f")->calls, 2);
}

/* main calls f, which calls g: that is out of sight, or jumps there from f's stub; and g calls back h, or f itself. */
static void check_calls_back(void **state, bool by_stub, uint64_t back, const char *path)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block call[] = {block(MAIN, MAIN + 5, COFI_CLASS_CALL), block(F, F + 5, COFI_CLASS_CALL),
                                           block(STUB, STUB + 6, COFI_CLASS_JMP_IND)};
    const struct cofi_flow_block called[] = {block(back, back + 3, COFI_CLASS_RET)};
    const struct cofi_flow_block after[] = {block(F + 5, F + 9, COFI_CLASS_RET), block(MAIN + 5, MAIN + 6, COFI_CLASS_OTHER)};
    show(calls, call, by_stub ? 3 : 2, 1);
    happen(calls, COFI_FLOW_DISABLED, by_stub ? STUB : F, G);
    for (int i = 0; i < 4; i++) {
        happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, back);
        show(calls, called, 1, 1);
        happen(calls, COFI_FLOW_DISABLED, back + 2, G + 20);
    }
    happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, F + 5);
    show(calls, after, 2, 2);
    assert_int_equal(at(calls, path)->calls, back == F ? 5 : 4);
    assert_int_equal(at(calls, path)->self, back == F ? 5 + 4 * 3 + 4 : 4 * 3);
    assert_int_equal(at(calls, "main")->self, 1 + 5 + 1);
}

static void what_is_called_back_from_out_of_sight_is_called_by_who_called_that(void **state)
{
    check_calls_back(state, false, H, "main/f/h");
}

static void what_a_stubs_function_out_of_sight_calls_back_is_called_by_its_caller(void **state)
{
    check_calls_back(state, true, H, "main/f/h");
}

static void what_calls_itself_back_from_out_of_sight_is_recursive(void **state) { check_calls_back(state, false, F, "main/f"); }

static void a_jump_within_a_function_that_a_filter_hides_a_part_of_is_no_call(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block ran[] = {block(MAIN, MAIN + 5, COFI_CLASS_CALL), block(F + 3, F + 9, COFI_CLASS_JCC)};
    show(calls, ran, 1, 1);
    for (int i = 0; i < 3; i++) {
        show(calls, ran + 1, 1, 1);
        happen(calls, COFI_FLOW_DISABLED, F + 8, F + 20);
        happen(calls, COFI_FLOW_ENABLED, COFI_NO_IP, F + 3);
    }
    assert_int_equal(at(calls, "main/f")->calls, 1);
    assert_int_equal(at(calls, "main/f")->self, 3 * 6);
}

static void nothing_is_known_of_what_led_over_a_gap(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block before[] = {block(MAIN, MAIN + 5, COFI_CLASS_CALL)};
    const struct cofi_flow_block after[] = {block(MAIN + 0x40, MAIN + 0x42, COFI_CLASS_OTHER)};
    for (int i = 0; i < 2; i++) {
        show(calls, before, 1, 1);
        happen(calls, i ? COFI_FLOW_OVERFLOW : COFI_FLOW_GAP, COFI_NO_IP, COFI_NO_IP);
        show(calls, after, 1, 1);
    }
    assert_int_equal(at(calls, "main")->calls, 1);
    assert_int_equal(at(calls, "main")->self, 1 + 2 * (5 + 2));
}

/* The same by what a block's class means, one at a time. */
static void feed_plainly(struct cofi_calls *calls, const struct cofi_flow_block *blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t next = i ? blocks[i - 1].end : 0, to = blocks[i].ip;
        uint8_t cls = i ? blocks[i - 1].cls : (uint8_t)COFI_CLASS_OTHER;
        if (i && cls == COFI_CLASS_CALL)
            cofi_calls_call(calls, next, to);
        else if (i && cls == COFI_CLASS_RET)
            cofi_calls_ret(calls, to);
        else if (i && to != next && cls == COFI_CLASS_OTHER)
            cofi_calls_resume(calls, to);
        else if (i && to != next)
            cofi_calls_jump(calls, to);
        cofi_calls_insns(calls, to, blocks[i].n);
    }
}

/* Blocks of a program that goes anywhere, in code with and without symbols. */
static void make_blocks(struct cofi_flow_block *blocks, size_t n, uint64_t *seed)
{
    static const enum cofi_class classes[] = {COFI_CLASS_CALL, COFI_CLASS_RET, COFI_CLASS_JCC, COFI_CLASS_JMP,
                                              COFI_CLASS_OTHER, COFI_CLASS_JCC, COFI_CLASS_JMP_IND, COFI_CLASS_JCC};
    uint64_t ip = MAIN;
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = block(ip, ip + 1 + (*seed >> 40 & 7), classes[*seed >> 61]);
        uint64_t base = *seed >> 44 & 1 ? 0x1000 : MAIN;
        if (*seed >> 45 & 1)
            ip = blocks[i].end;
        else
            ip = base + 0x100 * (*seed >> 50 & 3) + 0x10 * (*seed >> 55 & 1);
    }
}

static void blocks_make_the_same_tree_however_they_are_cut(void **state)
{
    enum { N = 20000 };
    static struct cofi_flow_block blocks[N];
    uint64_t seed = 1;
    size_t n, plain_n;
    (void)state;
    make_blocks(blocks, N, &seed);
    for (size_t at_a_time = 1; at_a_time <= 16; at_a_time += 5) {
        struct cofi_calls *calls, *plain;
        assert_int_equal(cofi_calls_open(&calls, function_at, NULL), 0);
        assert_int_equal(cofi_calls_open(&plain, function_at, NULL), 0);
        show(calls, blocks, N, at_a_time);
        feed_plainly(plain, blocks, N);
        const struct cofi_calls_node *nodes = cofi_calls_nodes(calls, &n), *same = cofi_calls_nodes(plain, &plain_n);
        assert_int_equal(n, plain_n);
        assert_memory_equal(nodes, same, n * sizeof *nodes);
        cofi_calls_close(calls);
        cofi_calls_close(plain);
    }
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

/* ---- who watches: "1 f:105@3, -@9": how deep, who, behind which address of a call, when; who was entered last is left ---- */

struct watched {
    char text[400];
    int status;
};

static int entered(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next, uint64_t insns)
{
    struct watched *watched = opaque;
    size_t n = strlen(watched->text);
    snprintf(watched->text + n, sizeof watched->text - n, "%s%zu %s:%x@%d", n ? ", " : "", depth, function->name ? function->name : "?",
             (unsigned)next, (int)insns);
    return watched->status;
}

static void left(void *opaque, uint64_t insns)
{
    struct watched *watched = opaque;
    size_t n = strlen(watched->text);
    snprintf(watched->text + n, sizeof watched->text - n, ", -@%d", (int)insns);
}

static struct cofi_calls *watch(void **state, struct watched *watched)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_watch(calls, &(struct cofi_calls_watcher){entered, left, watched});
    return calls;
}

static void who_is_entered_and_left_is_told(void **state)
{
    struct watched watched = {.text = ""};
    struct cofi_calls *calls = watch(state, &watched);
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_insns(calls, F, 10);
    cofi_calls_jump(calls, F + 8);     /* within f */
    cofi_calls_call(calls, F + 9, F);  /* itself */
    cofi_calls_insns(calls, F, 1);
    cofi_calls_jump(calls, G);         /* a tail call */
    cofi_calls_insns(calls, G, 2);
    cofi_calls_ret(calls, F + 9);
    cofi_calls_insns(calls, F + 9, 4);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_call(calls, MAIN + 6, MAIN + 6); /* +0 */
    cofi_calls_finish(calls);
    assert_string_equal(watched.text, "1 f:105@1, 2 f:209@11, 3 g:0@12, -@14, -@14, -@18");
}

static void who_jumps_far_leaves_all_between(void **state)
{
    struct watched watched = {.text = ""};
    struct cofi_calls *calls = watch(state, &watched);
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_call(calls, F + 5, G);
    cofi_calls_call(calls, G + 5, H);
    cofi_calls_insns(calls, H, 5);
    cofi_calls_jump(calls, F + 0x30);
    assert_string_equal(watched.text, "1 f:105@1, 2 g:205@1, 3 h:305@1, -@6, -@6");
}

static void a_handler_is_entered_and_what_it_interrupted_is_not_left(void **state)
{
    struct watched watched = {.text = ""};
    struct cofi_calls *calls = watch(state, &watched);
    cofi_calls_call(calls, MAIN + 5, F);
    cofi_calls_async(calls, F + 0x10);
    cofi_calls_resume(calls, H);
    cofi_calls_insns(calls, H, 6);
    cofi_calls_resume(calls, F + 0x10);
    cofi_calls_insns(calls, F + 0x10, 2);
    cofi_calls_ret(calls, MAIN + 5);
    assert_string_equal(watched.text, "1 f:105@1, 3 h:0@1, -@7, -@9");
}

static void a_watchers_error_is_that_of_what_was_fed(void **state)
{
    struct watched watched = {.text = "", .status = COFI_ERR_IO};
    struct cofi_calls *calls = watch(state, &watched);
    assert_int_equal(cofi_calls_call(calls, MAIN + 7, H), COFI_ERR_IO);
    cofi_calls_watch(calls, &(struct cofi_calls_watcher){0});
    assert_int_equal(cofi_calls_call(calls, H + 7, G), 0);
    assert_int_equal(cofi_calls_ret(calls, H + 7), 0);
}

static void where_the_thread_begins_is_entered(void **state)
{
    struct watched watched = {.text = ""};
    struct cofi_calls *calls;
    (void)state;
    assert_int_equal(cofi_calls_open(&calls, function_at, NULL), 0);
    cofi_calls_watch(calls, &(struct cofi_calls_watcher){entered, left, &watched});
    cofi_calls_insns(calls, MAIN, 1);
    assert_string_equal(watched.text, "0 main:0@0");
    cofi_calls_close(calls);
}

static void another_program_begins_at_the_root(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    const struct cofi_flow_block before[] = {block(MAIN, MAIN + 5, COFI_CLASS_CALL), block(F, F + 9, COFI_CLASS_FAR_CALL)};
    const struct cofi_flow_block after[] = {block(G, G + 4, COFI_CLASS_CALL), block(H, H + 2, COFI_CLASS_RET),
                                            block(G + 4, G + 5, COFI_CLASS_OTHER)};
    show(calls, before, 2, 2);
    happen(calls, COFI_FLOW_DISABLED, F + 9, COFI_NO_IP);
    cofi_calls_event(calls, &(struct cofi_flow_event){.kind = COFI_FLOW_CODE, .value = 3, .a = 1, .ip = COFI_NO_IP, .target = COFI_NO_IP});
    happen(calls, COFI_FLOW_ENABLED, F + 9, G);
    show(calls, after, 3, 3);
    assert_int_equal(at(calls, "main/f")->total, 9);
    assert_int_equal(at(calls, "main/f")->first_child, 0);
    assert_int_equal(at(calls, "g")->self, 5);
    assert_int_equal(at(calls, "g")->calls, 1);
    assert_int_equal(at(calls, "g/h")->self, 2);
}

/* The first call of f, in a program that the linker binds as it runs, then another one. */
static void call_f_by_its_stub(struct cofi_calls *calls)
{
    cofi_calls_call(calls, MAIN + 5, STUB);
    cofi_calls_jump(calls, PLT);
    cofi_calls_jump(calls, BINDER);
    cofi_calls_insns(calls, BINDER, 4);
    cofi_calls_call(calls, BINDER + 5, H);
    cofi_calls_insns(calls, H, 8);
    cofi_calls_ret(calls, BINDER + 5);
    cofi_calls_jump(calls, F);
    cofi_calls_insns(calls, F, 16);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 32);
    cofi_calls_call(calls, MAIN + 15, STUB);
    cofi_calls_insns(calls, STUB, 1);
    cofi_calls_jump(calls, F);
    cofi_calls_insns(calls, F, 64);
    cofi_calls_ret(calls, MAIN + 15);
}

static void who_a_stub_leads_to_was_called_by_its_caller(void **state)
{
    struct watched watched = {0};
    struct cofi_calls *calls = watch(state, &watched);
    call_f_by_its_stub(calls);
    assert_int_equal(at(calls, "main/f")->self, 16 + 64);
    assert_int_equal(at(calls, "main/f")->calls, 2);
    assert_int_equal(at(calls, "main/f@plt")->total, 1);
    assert_int_equal(at(calls, "main/.plt")->calls, 1);
    assert_int_equal(at(calls, "main/_dl_runtime_resolve_xsave")->self, 4);
    assert_int_equal(at(calls, "main/_dl_runtime_resolve_xsave/h")->self, 8);
    assert_int_equal(at(calls, "main")->self, 1 + 32);
    assert_string_equal(watched.text, "1 f@plt:105@1, -@1, 1 .plt:105@1, -@1, 1 _dl_runtime_resolve_xsave:105@1, 2 h:805@5, -@13, -@13, 1 f:105@13, -@29, "
                                      "1 f@plt:10f@61, -@62, 1 f:10f@62, -@126");
}

static void a_stub_that_was_jumped_to_is_a_tail_call(void **state)
{
    struct watched watched = {0};
    struct cofi_calls *calls = watch(state, &watched);
    cofi_calls_call(calls, MAIN + 5, G);
    cofi_calls_jump(calls, STUB);
    cofi_calls_jump(calls, F);
    cofi_calls_insns(calls, F, 2);
    cofi_calls_ret(calls, MAIN + 5);
    assert_int_equal(at(calls, "main/g/f")->self, 2);
    assert_string_equal(watched.text, "1 g:105@1, 2 f@plt:0@1, -@1, 2 f:0@1, -@3, -@3");
}

static void a_signal_in_a_stub_comes_back_to_it(void **state)
{
    struct cofi_calls *calls = ((struct fixture *)*state)->calls;
    cofi_calls_call(calls, MAIN + 5, STUB);
    cofi_calls_async(calls, STUB + 2);
    cofi_calls_resume(calls, H);
    cofi_calls_insns(calls, H, 3);
    cofi_calls_resume(calls, STUB + 2);
    cofi_calls_insns(calls, STUB + 2, 1);
    cofi_calls_jump(calls, F);
    cofi_calls_insns(calls, F, 2);
    cofi_calls_ret(calls, MAIN + 5);
    cofi_calls_insns(calls, MAIN + 5, 4);
    assert_int_equal(at(calls, "main/f@plt/h")->self, 3);
    assert_int_equal(at(calls, "main/f")->self, 2);
    assert_int_equal(at(calls, "main")->self, 5);
}

/* By processor all threads of the recording have one at a time. */
static void a_thread_that_ran_little_has_a_small_tree(void **state)
{
    (void)state;
    enum { TREES = 1000, MOST = 20000 };
    static struct cofi_calls *trees[TREES];
    size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < TREES; i++) {
        assert_int_equal(cofi_calls_open(&trees[i], function_at, NULL), 0);
        assert_int_equal(cofi_calls_insns(trees[i], MAIN, 1), 0);
        assert_int_equal(cofi_calls_call(trees[i], MAIN + 5, F), 0);
    }
    size_t each = (mallinfo2().uordblks - before) / TREES;
    assert_in_range(each, 0, MOST);
    for (size_t i = 0; i < TREES; i++)
        cofi_calls_close(trees[i]);
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
        TEST(without_symbols_a_tail_call_of_a_function_that_has_not_returned_is_one),
        TEST(without_symbols_two_functions_that_jump_to_each_other_make_no_paths),
        TEST(another_librarys_function_at_the_same_address_is_another_node),
        TEST(children_are_in_the_order_of_their_totals),
        TEST(code_that_changed_is_asked_for_anew),
        TEST(what_was_called_is_a_start_though_code_changed),
        TEST(each_of_many_paths_is_found_again),
        TEST(a_function_has_a_node_for_each_of_many_callers),
        TEST(places_of_the_same_hash_are_told_apart),
        TEST(a_jump_from_a_named_function_to_code_without_symbols_leaves_it),
        TEST(address_0_is_a_place_like_others),
        TEST(what_the_thread_began_in_may_be_address_0),
        TEST(a_blocks_last_instruction_tells_what_led_to_the_next),
        TEST(a_return_to_behind_itself_is_a_return),
        TEST(what_changed_is_asked_for_anew_of_a_flow_too),
        TEST(who_a_stub_leads_to_was_called_by_its_caller),
        TEST(a_stub_that_was_jumped_to_is_a_tail_call),
        TEST(a_signal_in_a_stub_comes_back_to_it),
        TEST(another_program_begins_at_the_root),
        TEST(a_signal_between_blocks_is_a_child_of_where_it_struck),
        TEST(a_return_into_what_is_filtered_out_returns_once),
        TEST(who_the_beginning_returns_to_stands_beside_it),
        TEST(what_a_filter_shows_alone_is_called_as_often_as_it_began),
        TEST(what_is_called_back_from_out_of_sight_is_called_by_who_called_that),
        TEST(what_a_stubs_function_out_of_sight_calls_back_is_called_by_its_caller),
        TEST(what_calls_itself_back_from_out_of_sight_is_recursive),
        TEST(a_jump_within_a_function_that_a_filter_hides_a_part_of_is_no_call),
        TEST(nothing_is_known_of_what_led_over_a_gap),
        TEST(blocks_make_the_same_tree_however_they_are_cut),
        TEST(who_is_entered_and_left_is_told),
        TEST(who_jumps_far_leaves_all_between),
        TEST(a_handler_is_entered_and_what_it_interrupted_is_not_left),
        TEST(a_watchers_error_is_that_of_what_was_fed),
        TEST(where_the_thread_begins_is_entered),
        TEST(every_instruction_is_in_one_node),
        cmocka_unit_test(a_thread_that_ran_little_has_a_small_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
