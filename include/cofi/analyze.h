/* SPDX-License-Identifier: MIT
 * Views of a flow that add it up: the call tree. */
#ifndef COFI_ANALYZE_H
#define COFI_ANALYZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/flow.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the call tree of one thread ---- */

struct cofi_calls;

/* The function an address belongs to: its start (any number that stands for it), its name and its module,
 * which the tree keeps pointers to. Without a name the start is the address itself; the tree then goes by
 * where calls went. Called once per address until cofi_calls_forget. */
struct cofi_function {
    uint64_t start;
    const char *name; /* null: none known, the address is printed */
    const char *module;
    uint64_t offset;  /* of start in the module, for those without a name */
};
typedef void cofi_function_at(void *opaque, uint64_t address, struct cofi_function *function);

/* One function as called on one path. Node 0 is the root: what ran before any call was seen. */
struct cofi_calls_node {
    struct cofi_function function;
    uint32_t parent, first_child, next; /* indices, 0: none */
    uint32_t depth;
    uint64_t calls;
    uint64_t recursions; /* of these, direct calls to itself, which are folded into the node */
    uint64_t self;       /* instructions in the function itself */
    uint64_t total;      /* and in all it called; filled by cofi_calls_finish */
};

/* Errors: COFI_ERR_NOMEM. Memory grows with the number of distinct call paths, of places that were jumped to and with
 * the depth. */
int cofi_calls_open(struct cofi_calls **calls, cofi_function_at *at, void *opaque);
void cofi_calls_close(struct cofi_calls *calls);

/* What ran, in order. insns: n instructions from ip on, all in one block. call: at `from`, returning to
 * `next`, to `to`. ret: to `to`. jump: any other transfer to `to` (a jump to the start of another
 * function is a tail call; one into a function further up the stack unwinds to it, as longjmp and
 * exceptions do). async: a signal or interrupt left `from` for `to`. resume: tracing went on at `to`
 * after it had stopped (a system call returned, a handler ended, a thread began). All return 0 or
 * COFI_ERR_NOMEM. */
int cofi_calls_insns(struct cofi_calls *calls, uint64_t ip, uint64_t n);
int cofi_calls_call(struct cofi_calls *calls, uint64_t next, uint64_t to);
int cofi_calls_ret(struct cofi_calls *calls, uint64_t to);
int cofi_calls_jump(struct cofi_calls *calls, uint64_t to);
int cofi_calls_async(struct cofi_calls *calls, uint64_t from);
int cofi_calls_resume(struct cofi_calls *calls, uint64_t to);
/* The same of a flow, its blocks and events in the order it shows them. Where the last block led is known when the next
 * item comes; of a block nothing is needed behind the call. Errors: as above. */
int cofi_calls_blocks(struct cofi_calls *calls, const struct cofi_flow_block *const *blocks, size_t n);
int cofi_calls_event(struct cofi_calls *calls, const struct cofi_flow_event *event);
/* Code changed (cofi_calls_event does it): ask anew which function an address belongs to. */
void cofi_calls_forget(struct cofi_calls *calls);

/* Fill totals; then the tree, children of a node in the order of their totals. */
void cofi_calls_finish(struct cofi_calls *calls);
const struct cofi_calls_node *cofi_calls_nodes(const struct cofi_calls *calls, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
