/* SPDX-License-Identifier: MIT
 * The inside of a coverage: blocks by module, what is known of the modules, what comes of both. */
#ifndef COFI_ANALYZE_COVERAGE_H
#define COFI_ANALYZE_COVERAGE_H

#include <cofi/analyze.h>
#include <cofi/image.h>

#include "base/index.h"
#include "base/map.h"
#include "base/strings.h"

enum { BUILD_ID_MAX = 20 };

/* What a module's tables say. */
struct known_function {
    uint64_t addr, size;
    const char *name;
};
struct known_line {
    uint64_t start, end;
    const char *file;
    uint32_t line;
    uint32_t discriminator, copies; /* as in cofi_module_line */
};
struct known_range { /* of a scope */
    uint64_t start, end;
    uint32_t scope;
};
struct known_branch { /* conditional, and in a line */
    uint64_t addr;
    const char *file;
    uint32_t line;
    uint8_t length;
};

struct covered_module {
    struct cofi_coverage_module pub; /* first; filled by finish, but for what names it */
    uint8_t build_id[BUILD_ID_MAX];
    size_t build_id_size;
    const struct cofi_module *handle; /* whose tables are to be read; null: they have been, or there are none */
    bool wanted;
    bool named;       /* functions are asked for block by block: no table has them */
    uint64_t edge_key; /* added to its addresses, for edges */
    struct known_function *functions; /* by address; of a named one in the order they were met */
    size_t functions_n, functions_room;
    struct cofi__map by_name;         /* of a named one: (name, address) -> function + 1 */
    struct known_line *lines;
    size_t lines_n, lines_room;
    struct known_branch *branches;
    size_t branches_n, branches_room;
    struct known_range *ranges;       /* in the order of the scopes */
    size_t ranges_n, ranges_room;
    struct cofi_coverage_scope *scopes;
    size_t scopes_n, scopes_room;
};

/* A block at its place in its module: by what code it is, too, for that may change. */
struct place_count {
    uint64_t addr, count;
    uint64_t outcomes[2];      /* of a conditional branch at its end: not taken, taken */
    uint32_t module, function; /* function + 1 of a named module, else 0 */
    uint32_t lengths;          /* where those of its instructions are */
    uint16_t size, n;
    uint8_t cls;               /* of its last instruction */
};

/* A block of the flow, by its id. */
struct id_row {
    uint64_t count;
    uint64_t taken;   /* its conditional branch was; of a block with none it means nothing */
    uint64_t ip;
    uint32_t untold;  /* nobody knows where it led */
    uint32_t edge;    /* its hash for edges */
    uint32_t age;     /* of the block; it is the same block if this is, and n */
    uint32_t place;   /* 0: not counted */
    uint16_t n;
    uint16_t size;    /* to where its branch leads if not taken; 0: it leads there either way, which passes for taken */
    bool jcc;         /* it ends in a conditional branch */
    uint8_t targets;  /* it ends in a branch whose targets are counted: enum cofi_class; else 0 */
};

/* Where the branch at a place's end led. */
struct target_count {
    uint64_t addr, count; /* the target's, in its module */
    const char *name;     /* of the symbol that it is in; null: there is none */
    uint64_t offset;      /* from that symbol's start */
    uint32_t place, module;
    uint8_t cls;          /* of the branch: enum cofi_class */
};

/* The row of a target that was come to lately. */
struct recent_target {
    uint64_t to;
    uint32_t age, place, row;
};

struct source_row; /* see sources.c */

struct cofi_coverage {
    struct cofi_coverage_options options;
    int32_t pid;
    struct cofi__strings strings;
    struct covered_module *modules; /* row 0 is none */
    size_t modules_n, modules_room;
    struct cofi__map by_handle;     /* (handle, pid) -> module */
    struct cofi__index by_path;
    struct place_count *places;     /* row 0 is none */
    size_t places_n, places_room;
    struct cofi__index by_place;
    uint8_t *lengths;
    size_t lengths_n, lengths_room;
    struct target_count *targets;   /* row 0 is none; when all is counted they are sorted */
    size_t targets_n, targets_room;
    struct cofi__index by_target;
    struct recent_target *recent;   /* null: targets are not counted */
    /* what is being counted */
    struct id_row *rows;
    size_t rows_n;
    uint32_t age;                   /* of rows; counts up when code may have changed */
    struct cofi_view *view;
    const struct cofi_flow_coverage *cover; /* a flow's counts go through it */
    int status;                     /* of what cannot return one */
    uint32_t edge;                  /* of the block before; 0: none */
    bool open;                      /* the last block's branch leads to what comes next */
    uint32_t last;                  /* that block */
    uint8_t *map;
    /* results */
    const struct cofi_coverage_module *results;
    size_t results_n;
    struct source_row *source_rows;
    size_t source_rows_n, source_rows_room;
    struct cofi_coverage_source *sources;
    size_t sources_n;
    struct cofi_coverage_line *source_lines;
    const struct cofi_coverage_function **source_functions;
    const struct cofi_coverage_branch **source_branches;
};

static inline bool coverage_wants(const struct cofi_coverage *coverage, enum cofi_coverage_kind kind, const char *name)
{
    return !coverage->options.wanted || coverage->options.wanted(coverage->options.opaque, kind, name);
}

/* What is being counted goes to the places. */
void cofi__coverage_settle(struct cofi_coverage *coverage);

/* coverage_modules.c. The row of the module at an address, and what to subtract from addresses there;
 * negative: COFI_ERR_NOMEM. */
int cofi__coverage_module_at(struct cofi_coverage *coverage, struct cofi_view *view, uint64_t ip, uint64_t *base);
/* That row of another coverage's in this one; negative: COFI_ERR_NOMEM. */
int cofi__coverage_module_like(struct cofi_coverage *coverage, const struct covered_module *module);
/* A function of a named module, as it is met: its number + 1; 0: out of memory. */
uint32_t cofi__coverage_function(struct cofi_coverage *coverage, struct covered_module *module, uint64_t addr,
                                 const char *name);
/* When all is counted: functions of named modules by address and name, whoever met them first. 0 or COFI_ERR_NOMEM. */
int cofi__coverage_order(struct cofi_coverage *coverage);
void cofi__coverage_modules_free(struct cofi_coverage *coverage);

/* parts.c: functions by address -> which of them has what, in the order of addresses, where they lie in
 * each other, too. */
struct part {
    uint64_t start, end;
    int32_t function; /* which of them */
};
/* *parts is to be freed. Returns how many, or COFI_ERR_NOMEM. */
int64_t cofi__coverage_parts(const struct known_function *functions, size_t n, struct part **parts);

/* scopes.c: a module's scopes, from its image; */
int cofi__coverage_scopes(struct cofi_coverage *coverage, struct covered_module *module);
/* and what of its lines is of which. insns: all n of the module's, by address; pub.scopes, code, and how
 * many instructions have a place there. */
int cofi__coverage_code(struct covered_module *module, const struct cofi_coverage_insn *insns, size_t n);

/* covered.c: one module's results from its places, n by address. */
int cofi__covered(struct cofi_coverage *coverage, struct covered_module *module,
                  const struct place_count *const *places, size_t n);

/* targets.c: the branch at the end of a row's block led there. */
int cofi__target_init(struct cofi_coverage *coverage);
void cofi__target_free(struct cofi_coverage *coverage);
int cofi__target(struct cofi_coverage *coverage, const struct id_row *row, uint64_t to);
/* What another coverage has counted, whose places and modules have other numbers here. */
int cofi__target_add(struct cofi_coverage *to, const struct cofi_coverage *from, const uint32_t *places,
                     const int *modules);
/* All is counted: cofi__targets_of may be asked. */
void cofi__target_sort(struct cofi_coverage *coverage);
/* Of one module's branches, by address, those of one branch by count; of a named module with their
 * functions, else with none. *targets is to be freed, also after an error. */
int cofi__targets_of(const struct cofi_coverage *coverage, uint32_t module, struct cofi_coverage_target **targets,
                     size_t *n);

/* sources.c: what a module had of a line, of one function, and the sum over all. */
int cofi__coverage_line(struct cofi_coverage *coverage, const char *file, uint32_t line, uint64_t count);
void cofi__coverage_sources_free(struct cofi_coverage *coverage);

#endif
