/* SPDX-License-Identifier: MIT
 * Calls, returns and jumps in order -> the tree of call paths with instruction counts. */
#include <cofi/analyze.h>

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/map.h"

/* A call that has not returned. Tail calls share the return address of the frame below. */
struct frame {
    uint64_t ret;
    uint32_t node;
};

/* Two functions that had the same address one after the other differ in their keys. */
struct known {
    struct cofi_function function;
    uint64_t key;
};

struct cofi_calls {
    cofi_function_at *at;
    void *opaque;
    struct cofi_calls_node *nodes;
    size_t node_count, node_room;
    struct frame *stack;
    size_t depth, stack_room;
    struct known *functions; /* by index in by_address */
    size_t function_count, function_room;
    struct cofi__map by_address; /* (address, 0) -> function */
    struct cofi__map by_path;    /* (parent node, function's key) -> node */
    struct cofi__map called;     /* (address, 0): a CALL went there, so a function starts there */
};

enum {
    MAX_DEPTH = 1 << 20, /* a trace of calls that never return is cut here, at its bottom */
    SEARCH_DEPTH = 4096  /* how far up a return or longjmp looks for its frame */
};

static uint64_t mix(uint64_t key, const char *text)
{
    for (; text && *text; text++)
        key = (key ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return key;
}

static int function_at(struct cofi_calls *calls, uint64_t address, struct known *function)
{
    const uint32_t *known = cofi__map_get(&calls->by_address, address, 0);
    if (known) {
        *function = calls->functions[*known];
        return 0;
    }
    *function = (struct known){.function.start = address};
    calls->at(calls->opaque, address, &function->function);
    function->key = mix(mix(function->function.start, function->function.module), function->function.name);
    COFI_TRY(cofi__array_grow(&calls->functions, &calls->function_room, calls->function_count, sizeof *calls->functions));
    calls->functions[calls->function_count] = *function;
    return cofi__map_put(&calls->by_address, address, 0, (uint32_t)calls->function_count++);
}

static uint32_t current(const struct cofi_calls *calls)
{
    return calls->depth ? calls->stack[calls->depth - 1].node : 0;
}

static int child_of(struct cofi_calls *calls, uint32_t parent, const struct known *function, uint32_t *child)
{
    const uint32_t *known = cofi__map_get(&calls->by_path, parent, function->key);
    if (known) {
        *child = *known;
        return 0;
    }
    COFI_TRY(cofi__array_grow(&calls->nodes, &calls->node_room, calls->node_count, sizeof *calls->nodes));
    *child = (uint32_t)calls->node_count++;
    struct cofi_calls_node *up = &calls->nodes[parent];
    calls->nodes[*child] = (struct cofi_calls_node){.function = function->function, .parent = parent,
                                                    .next = up->first_child, .depth = up->depth + 1};
    up->first_child = *child;
    return cofi__map_put(&calls->by_path, parent, function->key, *child);
}

/* Enter the function at `to`; direct recursion stays in its node, so that depth does not make paths. */
static int push(struct cofi_calls *calls, uint64_t ret, uint64_t to)
{
    struct known function;
    uint32_t node = current(calls);
    COFI_TRY(function_at(calls, to, &function));
    if (node && calls->nodes[node].function.start == function.function.start)
        calls->nodes[node].recursions++;
    else
        COFI_TRY(child_of(calls, node, &function, &node));
    calls->nodes[node].calls++;
    if (calls->depth == MAX_DEPTH)
        calls->depth = 0;
    COFI_TRY(cofi__array_grow(&calls->stack, &calls->stack_room, calls->depth, sizeof *calls->stack));
    calls->stack[calls->depth++] = (struct frame){ret, node};
    return 0;
}

/* Pop the youngest frames down to one that returns to `to`, tail calls with it. */
static bool pop_to_return(struct cofi_calls *calls, uint64_t to)
{
    for (size_t i = 0; i < calls->depth && i < SEARCH_DEPTH; i++) {
        if (calls->stack[calls->depth - 1 - i].ret != to)
            continue;
        calls->depth -= i + 1;
        while (calls->depth && calls->stack[calls->depth - 1].ret == to &&
               calls->stack[calls->depth - 1].node != calls->stack[calls->depth].node)
            calls->depth--;
        return true;
    }
    return false;
}

/* Pop down to the youngest frame whose function holds `to`. */
static bool unwind_to_function(struct cofi_calls *calls, const struct cofi_function *function)
{
    for (size_t i = 0; i < calls->depth && i < SEARCH_DEPTH; i++)
        if (calls->nodes[calls->stack[calls->depth - 1 - i].node].function.start == function->start) {
            calls->depth -= i;
            return true;
        }
    return false;
}

int cofi_calls_open(struct cofi_calls **calls, cofi_function_at *at, void *opaque)
{
    struct cofi_calls *made = calloc(1, sizeof *made);
    if (!made)
        return COFI_ERR_NOMEM;
    made->at = at;
    made->opaque = opaque;
    if (cofi__array_grow(&made->nodes, &made->node_room, 0, sizeof *made->nodes) < 0) {
        free(made);
        return COFI_ERR_NOMEM;
    }
    made->nodes[made->node_count++] = (struct cofi_calls_node){0};
    *calls = made;
    return 0;
}

void cofi_calls_close(struct cofi_calls *calls)
{
    if (!calls)
        return;
    free(calls->nodes);
    free(calls->stack);
    free(calls->functions);
    cofi__map_free(&calls->by_address);
    cofi__map_free(&calls->by_path);
    cofi__map_free(&calls->called);
    free(calls);
}

int cofi_calls_insns(struct cofi_calls *calls, uint64_t ip, uint64_t n)
{
    if (!calls->depth)
        COFI_TRY(push(calls, 0, ip)); /* what the thread began in counts as called by nobody */
    calls->nodes[current(calls)].self += n;
    return 0;
}

int cofi_calls_call(struct cofi_calls *calls, uint64_t next, uint64_t to)
{
    if (to == next) /* call +0 only reads the instruction pointer */
        return 0;
    COFI_TRY(cofi__map_put(&calls->called, to, 0, 1));
    return push(calls, next, to);
}

/* Whether a jump from the current function to `to` leaves it. Without symbols nobody knows where a function
 * ends: then what was called is a start, and a jump elsewhere in the module stays in the function. */
static bool leaves(const struct cofi_calls *calls, const struct cofi_function *function, uint64_t to)
{
    const struct cofi_function *here = &calls->nodes[current(calls)].function;
    if (here->start == function->start && calls->depth)
        return false;
    if (function->name || here->name || !calls->depth)
        return true;
    bool same_module = here->module == function->module ||
                       (here->module && function->module && !strcmp(here->module, function->module));
    return !same_module || cofi__map_get(&calls->called, to, 0);
}

int cofi_calls_ret(struct cofi_calls *calls, uint64_t to)
{
    return pop_to_return(calls, to) ? 0 : cofi_calls_jump(calls, to);
}

int cofi_calls_jump(struct cofi_calls *calls, uint64_t to)
{
    struct known known;
    COFI_TRY(function_at(calls, to, &known));
    const struct cofi_function *function = &known.function;
    if (!leaves(calls, function, to))
        return 0;
    if ((to != function->start || !function->name) && unwind_to_function(calls, function))
        return 0;
    return push(calls, calls->depth ? calls->stack[calls->depth - 1].ret : 0, to);
}

int cofi_calls_async(struct cofi_calls *calls, uint64_t from)
{
    /* The handler returns to where it came from; which function it is, resume tells. */
    if (calls->depth == MAX_DEPTH)
        calls->depth = 0;
    COFI_TRY(cofi__array_grow(&calls->stack, &calls->stack_room, calls->depth, sizeof *calls->stack));
    calls->stack[calls->depth] = (struct frame){from, current(calls)};
    calls->depth++;
    return 0;
}

int cofi_calls_resume(struct cofi_calls *calls, uint64_t to)
{
    return pop_to_return(calls, to) ? 0 : cofi_calls_jump(calls, to);
}

void cofi_calls_forget(struct cofi_calls *calls)
{
    cofi__map_clear(&calls->by_address);
    calls->function_count = 0;
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
