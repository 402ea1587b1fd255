/* SPDX-License-Identifier: MIT
 * Views of a flow that add it up: the call tree, coverage. */
#ifndef COFI_ANALYZE_H
#define COFI_ANALYZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cofi/demangle.h>
#include <cofi/flow.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the call tree of one thread ---- */

struct cofi_calls;

/* The function an address belongs to: its start (any number that stands for it), its name and
 * its module, which the tree keeps pointers to. Without a name the start is the address itself;
 * the tree then goes by where calls went. Called once per address until cofi_calls_forget. */
struct cofi_function {
    uint64_t start;
    const char *name; /* null: none known, the address is printed */
    const char *module;
    uint64_t offset;  /* of start in the module, for those without a name */
};
typedef void cofi_function_at(void *opaque, uint64_t address, struct cofi_function *function);
/* What it is by the tables of a view. *function as above before, its start the
 * address; names: how it is called, null: as the table has it. */
void cofi_view_function(struct cofi_view *view, struct cofi_demangler *names, uint64_t address,
                        struct cofi_function *function);

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

/* Errors: COFI_ERR_NOMEM. Memory grows with the number of distinct call paths, of
 * places that were jumped to and with the depth. */
int cofi_calls_open(struct cofi_calls **calls, cofi_function_at *at, void *opaque);
void cofi_calls_close(struct cofi_calls *calls);

/* Who is told each time that a function is entered, and left, in this order. insns:
 * how many instructions of the tree's ran before.
 * enter: depth: how many frames lie below it; next: the address behind the call, 0: it was no call,
 * but a tail call, a signal, or the thread began there. Returns 0, or an error that ends what was
 * fed, and is returned. `function` is the caller's until then only, what it points to stays.
 * leave: of the function entered last and not left yet, be it by a return, longjmp or an
 * exception. Those that run at the end are not told to be left. Calls of a function by
 * itself are told like others. Set before anything is fed; null members are not called. */
struct cofi_calls_watcher {
    int (*enter)(void *opaque, const struct cofi_function *function, size_t depth, uint64_t next,
                 uint64_t insns);
    void (*leave)(void *opaque, uint64_t insns);
    void *opaque;
};
void cofi_calls_watch(struct cofi_calls *calls, const struct cofi_calls_watcher *watcher);

/* What ran, in order. insns: n instructions from ip on, all in one block. call: at `from`,
 * returning to `next`, to `to`. ret: to `to`. jump: any other transfer to `to` (a jump to the
 * start of another function is a tail call, unless it was a linker's stub that jumped ("…@plt",
 * ".plt", and where that leads): then the stub's caller has called it; one into a function
 * further up the stack unwinds to it, as longjmp and exceptions do). async: a signal or
 * interrupt left `from` for `to`. resume: tracing went on at `to` after it had stopped (a
 * system call returned, a handler ended, a thread began). All return 0 or COFI_ERR_NOMEM. */
int cofi_calls_insns(struct cofi_calls *calls, uint64_t ip, uint64_t n);
int cofi_calls_call(struct cofi_calls *calls, uint64_t next, uint64_t to);
int cofi_calls_ret(struct cofi_calls *calls, uint64_t to);
int cofi_calls_jump(struct cofi_calls *calls, uint64_t to);
int cofi_calls_async(struct cofi_calls *calls, uint64_t from);
int cofi_calls_resume(struct cofi_calls *calls, uint64_t to);
/* The same of a flow, its blocks and events in the order it shows them. Where the
 * last block led is known when the next item comes; of a block nothing is needed
 * behind the call. Errors: as above. */
int cofi_calls_blocks(struct cofi_calls *calls, const struct cofi_flow_block *const *blocks,
                      size_t n);
int cofi_calls_event(struct cofi_calls *calls, const struct cofi_flow_event *event);
/* Another program runs (cofi_calls_event does it): nothing that was called returns,
 * all frames are left. */
void cofi_calls_exec(struct cofi_calls *calls);
/* Code changed (cofi_calls_event does it): ask anew which function an address belongs to. */
void cofi_calls_forget(struct cofi_calls *calls);

/* Fill totals; then the tree, children of a node in the order of their totals. */
void cofi_calls_finish(struct cofi_calls *calls);
const struct cofi_calls_node *cofi_calls_nodes(const struct cofi_calls *calls, size_t *n);

/* ---- coverage: what code ran, how often, and which way its branches went, wherever it was mapped ---- */

/* Counts of blocks by module and the module's own addresses: several threads,
 * processes and recordings add up. One thread at a time; distinct ones are
 * independent. Memory grows with the code that ran, not with how long it did. */
struct cofi_coverage;

enum cofi_coverage_kind { COFI_COVERAGE_MODULE, COFI_COVERAGE_FUNCTION, COFI_COVERAGE_SOURCE };
enum { COFI_COVERAGE_MAP = 1 << 16 };

struct cofi_coverage_options {
    size_t size;  /* sizeof(struct cofi_coverage_options) */
    bool names;   /* functions are looked up, */
    bool lines;   /* and source lines */
    bool edges;   /* count transitions between blocks, too: see cofi_coverage_map.
                   * Not by cofi_coverage_flow */
    /* Whether a module (its path or label), function (its name, or null) or source
     * file is wanted; null: all are. Modules that are not are not counted. May be
     * called from any thread that counts. */
    bool (*wanted)(void *opaque, enum cofi_coverage_kind kind, const char *name);
    void *opaque;
    bool targets; /* count where indirect branches led, too. Not by cofi_coverage_flow */
    bool ways;    /* and where all others did: direct ones, conditional ones that
                   * were not taken, RETs */
    bool scopes;  /* with `lines`: which function of the source code is of, where it
                   * was inlined, too */
    bool sourced; /* with `names` and `lines`: a function without a line of a source
                   * file that is wanted is not wanted */
};

/* Copies the options. Errors: COFI_ERR_NOMEM, COFI_ERR_UNSUPPORTED (a member that only a
 * newer library knows is set), COFI_ERR_RANGE (an impossible size). Inverse:
 * cofi_coverage_close, which may be given null. */
int cofi_coverage_open(struct cofi_coverage **coverage,
                       const struct cofi_coverage_options *options);
void cofi_coverage_close(struct cofi_coverage *coverage);
/* What is counted from here on ran in this process: memory of no file is its own.
 * Kernel addresses are of no process. */
void cofi_coverage_process(struct cofi_coverage *coverage, int32_t pid);

/* Count the rest of a flow that was opened or sought in but not read from. Gaps are
 * in its stats. Cost: that of cofi_flow_cover. 0 or COFI_ERR_NOMEM. */
int cofi_coverage_flow(struct cofi_coverage *coverage, struct cofi_flow *flow);
/* The same of a whole stream by several threads: see cofi_flow_cover_parallel, whose
 * config, errors and memory these are; and as much more for each thread as
 * `coverage` holds. stats: filled, or null. */
int cofi_coverage_parallel(struct cofi_coverage *coverage, const struct cofi_flow_config *config,
                           unsigned threads, struct cofi_flow_stats *stats);
/* Or count what a flow shows, its blocks (of at most 255 instructions) and events in
 * their order. view: cofi_flow_view of their batch. Cost: 2-3 ns a block where few
 * are new. 0 or COFI_ERR_NOMEM. */
int cofi_coverage_blocks(struct cofi_coverage *coverage, struct cofi_view *view,
                         const struct cofi_flow_block *const *blocks, size_t n);
void cofi_coverage_event(struct cofi_coverage *coverage, const struct cofi_flow_event *event);

/* Add what another one of the same options has counted; that one may be closed then.
 * 0, or COFI_ERR_NOMEM: then part was added. */
int cofi_coverage_add(struct cofi_coverage *to, struct cofi_coverage *from);
/* Read the tables of all modules that came since the last call; the images may be
 * closed then. Before cofi_coverage_finish. 0 or COFI_ERR_NOMEM. */
int cofi_coverage_learn(struct cofi_coverage *coverage);

/* Put together what was counted; nothing is added any more. Without `names` there
 * are no functions, without `lines` no lines. 0 or COFI_ERR_NOMEM; once more: the
 * same. Cost: sorts the code that ran, and the lines. */
int cofi_coverage_finish(struct cofi_coverage *coverage);

/* Results. Addresses are the module's own, arrays are in their order; functions that no table
 * tells (a JIT's) of one address by name. Of functions that are not wanted there is nothing. */
enum { COFI_COVERAGE_NONE = -1 }; /* no function is known there */

struct cofi_coverage_insn {
    uint64_t addr, count;
    int32_t function; /* of functions[], or COFI_COVERAGE_NONE */
    uint8_t length;
    uint8_t cls;      /* enum cofi_class */
};

struct cofi_coverage_block { /* as cofi_flow_block; of those that begin at one
                              * address the longest */
    uint64_t addr;
    uint32_t size;
    int32_t function;
};

/* A conditional branch (Jcc, JCXZ, LOOP): one that ran, or lies in code of a line that is
 * wanted. Neither taken nor not: it did not run, or the trace does not tell where it led. */
struct cofi_coverage_branch {
    uint64_t addr;
    uint64_t taken, not_taken;
    const char *file;     /* null: no line is known, */
    uint32_t line;        /* 0 */
    int32_t function;
    uint8_t length;
};

/* Where an indirect branch (JMP or CALL by a register or memory; with `ways` any
 * branch) led, as far as the trace tells; one with more targets has more rows. */
struct cofi_coverage_target {
    uint64_t addr;        /* the branch's */
    uint64_t count;       /* how often it led there */
    const char *file;     /* the branch's line, as in cofi_coverage_branch */
    uint32_t line;
    int32_t function;     /* the branch's */
    uint8_t length;
    uint8_t cls;          /* the branch's: enum cofi_class */
    const char *to_path;  /* the target's module, which need not be wanted: as in
                           * cofi_coverage_module */
    int32_t to_pid;
    uint64_t to_addr;     /* in that module */
    const char *to_name;  /* the symbol that it is in; null: there is none */
    uint64_t to_offset;   /* from that symbol's start */
    const char *to_file;  /* null: not known, or not wanted */
    uint32_t to_line;
};

struct cofi_coverage_function {
    const char *name;     /* null: only where it begins is known, or (addr 0, size 0)
                           * not even that */
    const char *file;     /* where it is declared; null: not known */
    int line;
    uint64_t addr, size;  /* size: without functions inside of it; 0: not known */
    uint64_t executed;    /* instructions */
    uint64_t entered;     /* how often its first instruction ran */
    uint64_t bytes;       /* of instructions that ran */
    uint32_t insns;       /* which these are */
    uint32_t lines, lines_ran;
    uint32_t outcomes, outcomes_seen; /* of its conditional branches, two each */
};

/* A function of the source, by itself or inlined. */
struct cofi_coverage_scope {
    const char *function; /* the linker's name; names that are equal are the same pointer */
    uint32_t declared;    /* on which line */
    int32_t outer;        /* the one that it was inlined into: of scopes[];
                           * COFI_COVERAGE_NONE: it is a function by itself, */
    uint64_t entry;       /* which is entered here */
    uint32_t call_line, call_discriminator; /* where in `outer` */
};

/* Code of one line in one scope, or of one path through the line. */
struct cofi_coverage_code {
    uint64_t start, end;
    uint64_t count;       /* of its instruction that ran most often; 0: none did */
    uint32_t scope;       /* of scopes[] */
    uint32_t line;
    uint32_t discriminator, copies; /* as in cofi_module_line */
};

struct cofi_coverage_module {
    const char *path;     /* or label */
    int32_t pid;          /* memory of no file: the process's; else -1 */
    bool of_file;         /* see cofi_module_info */
    uint64_t base;        /* where it was mapped first: added to its addresses */
    uint64_t start, end;  /* what its addresses lie between */
    uint64_t executed, bytes;
    uint64_t size;        /* of all functions whose size is known */
    uint64_t lines, lines_ran; /* each once; functions may share some */
    uint64_t outcomes, outcomes_seen; /* of all conditional branches, two each */
    const struct cofi_coverage_function *functions; /* those that did not run, too */
    const struct cofi_coverage_insn *insns;
    const struct cofi_coverage_block *blocks;
    const struct cofi_coverage_branch *branches;
    const struct cofi_coverage_target *targets; /* of one branch that which was come
                                                 * to most often first */
    size_t functions_n, insns_n, blocks_n, branches_n, targets_n;
    const struct cofi_coverage_scope *scopes; /* one that is inlined behind what it
                                               * was inlined into */
    const struct cofi_coverage_code *code; /* whose line and scope are known, all the
                                            * way out; also what did not run */
    size_t scopes_n, code_n;
    uint64_t placed;      /* of `executed`, the instructions in functions that have a scope */
};
/* Those of which something ran, in the order of what they executed, most first. */
const struct cofi_coverage_module *cofi_coverage_modules(const struct cofi_coverage *coverage,
                                                         size_t *n);

/* A line's count is that of its instruction that ran most often; where several
 * functions have code of it, their sum. */
struct cofi_coverage_line {
    uint32_t line;
    uint64_t count; /* 0: it did not run */
};
struct cofi_coverage_source {
    const char *file;
    const struct cofi_coverage_line *lines; /* all that code was made of */
    const struct cofi_coverage_function *const *functions; /* that begin in it, by line and name */
    const struct cofi_coverage_branch *const *branches; /* that have a line of it, by
                                                         * line and address */
    size_t lines_n, functions_n, branches_n;
};
const struct cofi_coverage_source *cofi_coverage_sources(const struct cofi_coverage *coverage,
                                                         size_t *n);

/* AFL's map of what was counted with `edges`: COFI_COVERAGE_MAP counters that stop
 * at 255, by cofi_flow_edge of the blocks' places: the address for memory and for
 * files that lie where they say; else the module's own address and a number made of
 * the file's name, so that it does not depend on where the file was mapped. */
const uint8_t *cofi_coverage_map(const struct cofi_coverage *coverage);

#ifdef __cplusplus
}
#endif
#endif
