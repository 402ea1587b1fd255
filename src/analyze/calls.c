/* SPDX-License-Identifier: MIT
 * Calls, returns and jumps in order -> the tree of call paths with instruction counts. */
#include "analyze/calls.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"

enum {
    MAX_DEPTH = 1 << 20, /* a trace of calls that never return is cut here, at its bottom */
    SEARCH_DEPTH = 4096  /* how far up a return or longjmp looks for its frame */
};

static uint32_t current(const struct cofi_calls *calls)
{
    return calls->depth ? calls->stack[calls->depth - 1].node : 0;
}

/* A new child, or 0: out of memory. */
static uint32_t add_child(struct cofi_calls *calls, uint32_t parent, const struct cofi_function *function,
                          uint32_t hash)
{
    if (cofi__array_grow(&calls->nodes, &calls->node_room, calls->node_count, sizeof *calls->nodes) < 0 ||
        cofi__index_add(&calls->by_path, hash, (uint32_t)calls->node_count) < 0)
        return 0;
    uint32_t child = (uint32_t)calls->node_count++;
    struct cofi_calls_node *up = &calls->nodes[parent];
    calls->nodes[child] = (struct cofi_calls_node){.function = *function, .parent = parent,
                                                   .next = up->first_child, .depth = up->depth + 1};
    up->first_child = child;
    return child;
}

/* Two functions that had the same address one after the other differ in their names. */
static inline bool is_same(const struct cofi_function *a, const struct cofi_function *b)
{
    return a->start == b->start && cofi__same_text(a->module, b->module) && cofi__same_text(a->name, b->name);
}

/* Whether a node is the child of a parent that a function has. Row 0, the root, is no child. */
static inline bool is_child(const struct cofi_calls *calls, uint32_t node, uint32_t parent,
                            const struct cofi_function *function)
{
    return node && calls->nodes[node].parent == parent && is_same(&calls->nodes[node].function, function);
}

static __attribute__((noinline)) uint32_t find_child(struct cofi_calls *calls, uint32_t parent,
                                                     const struct cofi_function *function, uint32_t hash)
{
    uint32_t at = hash, node;
    do
        node = cofi__index_next(&calls->by_path, hash, &at);
    while (node && !is_child(calls, node, parent, function));
    if (!node)
        node = add_child(calls, parent, function, hash);
    cofi__index_note(&calls->by_path, hash, node);
    return node;
}

/* The node of a function called by another node, known or new. 0: out of memory. */
static uint32_t child_of(struct cofi_calls *calls, uint32_t parent, const struct cofi_function *function)
{
    uint32_t hash = cofi__hash(function->start, parent), node = cofi__index_recent(&calls->by_path, hash);
    return is_child(calls, node, parent, function) ? node : find_child(calls, parent, function, hash);
}

/* Drop all frames but so many. */
static void drop_to(struct cofi_calls *calls, size_t depth)
{
    if (!calls->watcher.leave) {
        calls->depth = depth;
        return;
    }
    while (calls->depth > depth)
        if (!calls->stack[--calls->depth].interrupted)
            calls->watcher.leave(calls->watcher.opaque, calls->insns);
}

/* Have room for one more frame. */
static int grow_stack(struct cofi_calls *calls)
{
    if (calls->depth == MAX_DEPTH)
        drop_to(calls, 0);
    return cofi__array_grow(&calls->stack, &calls->stack_room, calls->depth, sizeof *calls->stack);
}

/* Enter the function at a place; direct recursion stays in its node, so that depth does not make paths. */
static int push(struct cofi_calls *calls, uint64_t ret, const struct place *to, bool called)
{
    uint32_t node = current(calls);
    if (node && cofi__calls_top(calls)->start == to->function.start)
        calls->nodes[node].recursions++;
    else if (!(node = child_of(calls, node, &to->function)))
        return COFI_ERR_NOMEM;
    calls->nodes[node].calls++;
    COFI_TRY(grow_stack(calls));
    calls->stack[calls->depth++] = (struct frame){.ret = ret, .start = to->function.start, .node = node,
                                                  .called = called, .stub = to->stub};
    return 0;
}

/* The same, and whoever watches is told. next: behind the call, 0 if it was none. */
static int enter(struct cofi_calls *calls, uint64_t ret, const struct place *to, uint64_t next)
{
    COFI_TRY(push(calls, ret, to, next));
    if (!calls->watcher.enter)
        return 0;
    return calls->watcher.enter(calls->watcher.opaque, &to->function, calls->depth - 1, next, calls->insns);
}

/* Pop the youngest frames down to one that returns to `to`, tail calls with it. */
static bool pop_to_return(struct cofi_calls *calls, uint64_t to)
{
    for (size_t i = 0; i < calls->depth && i < SEARCH_DEPTH; i++) {
        if (calls->stack[calls->depth - 1 - i].ret != to)
            continue;
        uint32_t node = calls->stack[calls->depth - 1 - i].node;
        drop_to(calls, calls->depth - i - 1);
        while (calls->depth && cofi__calls_top(calls)->ret == to && cofi__calls_top(calls)->node != node) {
            node = cofi__calls_top(calls)->node;
            drop_to(calls, calls->depth - 1);
        }
        return true;
    }
    return false;
}

/* Pop down to the youngest frame whose function holds `to`; tails: only through tail calls, all of which
 * return to where that frame does. */
static bool unwind_to_function(struct cofi_calls *calls, const struct cofi_function *function, bool tails)
{
    for (size_t i = 0; i < calls->depth && i < SEARCH_DEPTH; i++) {
        const struct frame *frame = &calls->stack[calls->depth - 1 - i];
        if (tails && frame->ret != cofi__calls_top(calls)->ret)
            return false;
        if (frame->start == function->start) {
            drop_to(calls, calls->depth - i);
            return true;
        }
    }
    return false;
}

static int init(struct cofi_calls *calls, cofi_function_at *at, void *opaque)
{
    COFI_TRY(cofi__places_init(&calls->places, at, opaque));
    COFI_TRY(cofi__index_init(&calls->by_path));
    COFI_TRY(cofi__array_grow(&calls->nodes, &calls->node_room, 0, sizeof *calls->nodes));
    calls->nodes[calls->node_count++] = (struct cofi_calls_node){0};
    return 0;
}

int cofi_calls_open(struct cofi_calls **calls, cofi_function_at *at, void *opaque)
{
    struct cofi_calls *made = calloc(1, sizeof *made);
    if (!made)
        return COFI_ERR_NOMEM;
    if (init(made, at, opaque) < 0) {
        cofi_calls_close(made);
        return COFI_ERR_NOMEM;
    }
    *calls = made;
    return 0;
}

void cofi_calls_close(struct cofi_calls *calls)
{
    if (!calls)
        return;
    cofi__places_fini(&calls->places);
    cofi__index_free(&calls->by_path);
    free(calls->nodes);
    free(calls->stack);
    free(calls);
}

void cofi_calls_watch(struct cofi_calls *calls, const struct cofi_calls_watcher *watcher) { calls->watcher = *watcher; }

int cofi__calls_first(struct cofi_calls *calls, uint64_t ip)
{
    const struct place *place = cofi__place(&calls->places, ip);
    return place ? enter(calls, 0, place, 0) : COFI_ERR_NOMEM;
}

int cofi_calls_insns(struct cofi_calls *calls, uint64_t ip, uint64_t n)
{
    COFI_TRY(cofi__calls_begin(calls, ip));
    cofi__calls_count(calls, current(calls), n);
    return 0;
}

int cofi_calls_call(struct cofi_calls *calls, uint64_t next, uint64_t to)
{
    if (to == next) /* call +0 only reads the instruction pointer */
        return 0;
    struct place *place = cofi__place(&calls->places, to);
    if (!place)
        return COFI_ERR_NOMEM;
    place->called = true;
    return enter(calls, next, place, next);
}

/* What the trace began in returned: its caller, seen only now, is no callee of it. */
static int return_to_unseen(struct cofi_calls *calls, uint64_t to)
{
    const struct place *place = cofi__place(&calls->places, to);
    if (!place)
        return COFI_ERR_NOMEM;
    if (unwind_to_function(calls, &place->function, false))
        return 0;
    drop_to(calls, 0);
    return enter(calls, 0, place, 0);
}

int cofi_calls_ret(struct cofi_calls *calls, uint64_t to)
{
    if (pop_to_return(calls, to))
        return 0;
    return calls->depth && !cofi__calls_top(calls)->ret ? return_to_unseen(calls, to) : cofi_calls_jump(calls, to);
}

/* A tail call. A stub of the linker's is through then: whoever called it has called the place. What all
 * of PLT shares (".plt") leads to who binds, whatever its name is. */
static int jump_to(struct cofi_calls *calls, struct place *place)
{
    struct frame from = *cofi__calls_top(calls);
    if (from.stub) {
        place->stub |= cofi__same_text(calls->nodes[from.node].function.name, ".plt");
        drop_to(calls, calls->depth - 1);
    }
    return enter(calls, from.ret, place, from.stub && from.called ? from.ret : 0);
}

/* Whether what interrupted a function enters it itself. */
static bool enters_anew(const struct frame *top, const struct place *place, uint64_t to)
{
    return top->interrupted && place->function.name && to == place->function.start;
}

int cofi_calls_jump(struct cofi_calls *calls, uint64_t to)
{
    struct place *place = cofi__place(&calls->places, to);
    if (!place)
        return COFI_ERR_NOMEM;
    const struct cofi_function *function = &place->function;
    if (calls->depth && cofi__calls_holds(calls, cofi__calls_top(calls), place) &&
        !enters_anew(cofi__calls_top(calls), place, to))
        return 0;
    if ((to != function->start || !function->name) &&
        unwind_to_function(calls, function, to == function->start && place->called))
        return 0;
    return calls->depth ? jump_to(calls, place) : enter(calls, 0, place, 0);
}

int cofi_calls_async(struct cofi_calls *calls, uint64_t from)
{
    /* The handler returns to where it came from; which function it is, resume tells. */
    COFI_TRY(grow_stack(calls));
    uint32_t node = current(calls);
    calls->stack[calls->depth++] = (struct frame){.ret = from, .start = calls->nodes[node].function.start, .node = node,
                                                  .interrupted = true};
    return 0;
}

uint64_t cofi__calls_return_unseen(struct cofi_calls *calls)
{
    struct frame over = {.interrupted = true};
    while (calls->depth) {
        const struct frame *top = cofi__calls_top(calls);
        if (!over.interrupted && (top->interrupted || top->ret != over.ret || top->node == over.node))
            break;
        over = *top;
        drop_to(calls, calls->depth - 1);
    }
    return over.ret;
}

int cofi__calls_jump_unseen(struct cofi_calls *calls, uint64_t to)
{
    const struct place *place = cofi__place(&calls->places, to);
    if (!place)
        return COFI_ERR_NOMEM;
    if (!calls->depth || cofi__calls_holds(calls, cofi__calls_top(calls), place))
        return 0;
    uint64_t ret = cofi__calls_return_unseen(calls);
    return calls->depth ? cofi_calls_async(calls, ret) : 0;
}

int cofi_calls_resume(struct cofi_calls *calls, uint64_t to)
{
    return pop_to_return(calls, to) ? 0 : cofi_calls_jump(calls, to);
}

void cofi_calls_exec(struct cofi_calls *calls)
{
    calls->pending = false;
    drop_to(calls, 0);
}

void cofi_calls_forget(struct cofi_calls *calls)
{
    calls->places.generation++;
}

/* Two lists by total, largest first, as one; of equals those of a come first. */
static uint32_t merge(struct cofi_calls *calls, uint32_t a, uint32_t b)
{
    uint32_t first = 0, *place = &first;
    while (a && b) {
        uint32_t *from = calls->nodes[b].total > calls->nodes[a].total ? &b : &a;
        *place = *from;
        place = &calls->nodes[*from].next;
        *from = *place;
    }
    *place = a ? a : b;
    return first;
}

/* Children sorted by total, largest first: lists of 1, 2, 4… of them, merged where there are two of a length. */
static void sort_children(struct cofi_calls *calls, uint32_t parent)
{
    uint32_t lists[32] = {0}, sorted = 0;
    for (uint32_t child = calls->nodes[parent].first_child, next; child; child = next) {
        uint32_t list = child;
        unsigned i = 0;
        next = calls->nodes[child].next;
        calls->nodes[child].next = 0;
        for (; lists[i]; lists[i++] = 0)
            list = merge(calls, lists[i], list);
        lists[i] = list;
    }
    for (unsigned i = 0; i < ARRAY_LEN(lists); i++)
        sorted = merge(calls, lists[i], sorted);
    calls->nodes[parent].first_child = sorted;
}

void cofi_calls_finish(struct cofi_calls *calls)
{
    for (size_t i = 0; i < calls->node_count; i++)
        calls->nodes[i].total = calls->nodes[i].self;
    for (size_t i = calls->node_count; i-- > 1;) /* children come after their parents */
        calls->nodes[calls->nodes[i].parent].total += calls->nodes[i].total;
    for (size_t i = 0; i < calls->node_count; i++)
        sort_children(calls, (uint32_t)i);
}

const struct cofi_calls_node *cofi_calls_nodes(const struct cofi_calls *calls, size_t *n)
{
    *n = calls->node_count;
    return calls->nodes;
}
