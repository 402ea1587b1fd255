/* SPDX-License-Identifier: MIT
 * A symbol's name as the compiler made it -> as its source has it. Symbols come from any file, so the
 * time that one takes is bounded, and how often that was needed, too; see decision 0803. */
#include <cofi/demangle.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/array.h"
#include "base/error.h"
#include "base/index.h"
#include "base/strings.h"

enum {
    PARTS_MOST = 1 << 14, /* of a name, where it is written out */
    SCOPES_MOST = 1 << 12, /* templates by references to their parameters: libiberty has 16 bytes of stack for each */
    OVERRUNS_MOST = 64,   /* names that took too much, until no more are tried, for each may leave memory behind */
};

struct row {
    char *mangled, *shown; /* shown null: it is not mangled, or cannot be told */
};

struct cofi_demangler {
    enum cofi_demangle how;
    pthread_mutex_t lock; /* holds what follows */
    struct row *rows;     /* row 0 is none */
    size_t n, room;
    struct cofi__index by_text;
    unsigned overruns;
};

/* Text that libiberty hands out. */
struct text {
    char *out;
    size_t n, room;
    jmp_buf too_long;
};

int cofi_demangler_open(struct cofi_demangler **demangler, enum cofi_demangle how)
{
    struct cofi_demangler *made = calloc(1, sizeof *made);
    if (!made || cofi__index_init(&made->by_text) < 0) {
        free(made);
        return COFI_ERR_NOMEM;
    }
    pthread_mutex_init(&made->lock, NULL);
    made->how = how;
    made->n = 1;
    *demangler = made;
    return 0;
}

void cofi_demangler_close(struct cofi_demangler *demangler)
{
    if (!demangler)
        return;
    for (size_t i = 1; i < demangler->n; i++) {
        free(demangler->rows[i].mangled);
        free(demangler->rows[i].shown);
    }
    free(demangler->rows);
    cofi__index_free(&demangler->by_text);
    pthread_mutex_destroy(&demangler->lock);
    free(demangler);
}

/* ---- one name ---- */

static void take(const char *bytes, size_t n, void *opaque)
{
    struct text *text = opaque;
    if (n >= text->room - text->n)
        longjmp(text->too_long, 1); /* libiberty holds nothing that must be given back, but of some of Rust's names */
    if (n) /* else bytes may be null */
        memcpy(text->out + text->n, bytes, n);
    text->n += n;
}

/* What a part of a name is made of; either may be null. */
struct parts {
    const struct demangle_component *left, *right;
};

static struct parts parts_of(const struct demangle_component *part)
{
    switch ((int)part->type) {
    case DEMANGLE_COMPONENT_NAME:
    case DEMANGLE_COMPONENT_OPERATOR:
    case DEMANGLE_COMPONENT_BUILTIN_TYPE:
    case DEMANGLE_COMPONENT_EXTENDED_BUILTIN_TYPE:
    case DEMANGLE_COMPONENT_SUB_STD:
    case DEMANGLE_COMPONENT_CHARACTER:
    case DEMANGLE_COMPONENT_NUMBER:
    case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
    case DEMANGLE_COMPONENT_FUNCTION_PARAM:
    case DEMANGLE_COMPONENT_UNNAMED_TYPE: return (struct parts){NULL, NULL};
    case DEMANGLE_COMPONENT_FIXED_TYPE: return (struct parts){part->u.s_fixed.length, NULL};
    case DEMANGLE_COMPONENT_EXTENDED_OPERATOR: return (struct parts){part->u.s_extended_operator.name, NULL};
    case DEMANGLE_COMPONENT_CTOR: return (struct parts){part->u.s_ctor.name, NULL};
    case DEMANGLE_COMPONENT_DTOR: return (struct parts){part->u.s_dtor.name, NULL};
    case DEMANGLE_COMPONENT_LAMBDA:
    case DEMANGLE_COMPONENT_DEFAULT_ARG: return (struct parts){part->u.s_unary_num.sub, NULL};
    default: return (struct parts){part->u.s_binary.left, part->u.s_binary.right};
    }
}

struct size {
    size_t parts, templates, references;
};

/* How many parts a name has where each is counted as often as it is written; up to PARTS_MOST. A part may be
 * named again and again, so a short name can have as many as there are numbers. */
static void count_parts(const struct demangle_component *part, struct size *size)
{
    if (!part || size->parts == PARTS_MOST)
        return;
    struct parts of = parts_of(part);
    size->parts++;
    size->templates += part->type == DEMANGLE_COMPONENT_TEMPLATE;
    bool refers = part->type == DEMANGLE_COMPONENT_REFERENCE || part->type == DEMANGLE_COMPONENT_RVALUE_REFERENCE;
    size->references += refers && of.left && of.left->type == DEMANGLE_COMPONENT_TEMPLATE_PARAM;
    count_parts(of.left, size);
    count_parts(of.right, size);
}

static bool is_small(const struct demangle_component *whole)
{
    struct size size = {0};
    count_parts(whole, &size);
    return size.parts < PARTS_MOST && size.templates * size.references <= SCOPES_MOST;
}

/* false: it is not C++'s. text->n is 0 where it takes too much. */
static bool of_cpp(const char *name, int options, struct text *text)
{
    void *memory = NULL;
    struct demangle_component *whole = cplus_demangle_v3_components(name, options, &memory);
    if (!whole)
        return false;
    volatile bool good = false;
    if (!setjmp(text->too_long))
        good = is_small(whole) && cplus_demangle_print_callback(options, whole, take, text);
    if (!good)
        text->n = 0;
    free(memory);
    return true;
}

static bool of_rust(const char *name, struct text *text)
{
    if (setjmp(text->too_long)) {
        text->n = 0;
        return true;
    }
    bool good = rust_demangle_callback(name, DMGL_NO_OPTS, take, text);
    if (!good)
        text->n = 0;
    return good;
}

/* How many bytes of a name are mangled. Rust's older kind has points inside, and ends with a hash. */
static size_t mangled_bytes(const char *name)
{
    enum { HASH = 16 };
    for (const char *at = name; (at = strstr(at, "17h")); at++) {
        const char *end = at + 3 + HASH + 1;
        if (strspn(at + 3, "0123456789abcdef") == HASH && end[-1] == 'E' && strchr(".@", *end)) /* or the end of it */
            return (size_t)(end - name);
    }
    return strcspn(name, ".@");
}

/* Where what compilers and linkers put behind a name begins: ".cold", "@plt"; "", if nothing does.
 * ".llvm." and a number is left out. */
static const char *suffix_of(const char *name, size_t *mangled)
{
    const char *suffix = name + (*mangled = mangled_bytes(name));
    size_t number = strncmp(suffix, ".llvm.", 6) ? 0 : 6 + strspn(suffix + 6, "0123456789ABCDEFabcdef");
    return number > 6 ? suffix + number : suffix;
}

/* Into out; returns whether it did. */
static bool demangle(struct cofi_demangler *demangler, const char *name, char *out, size_t room)
{
    int options = demangler->how == COFI_DEMANGLE_FULL ? DMGL_PARAMS | DMGL_ANSI : DMGL_NO_OPTS;
    char mangled[COFI_NAME_BYTES];
    size_t n;
    const char *suffix = suffix_of(name, &n);
    size_t suffix_n = strlen(suffix);
    if (n >= sizeof mangled || suffix_n >= room)
        return false;
    memcpy(mangled, name, n);
    mangled[n] = '\0';
    struct text *text = &(struct text){.out = out, .room = room - suffix_n};
    bool tried = of_rust(mangled, text) || of_cpp(mangled, options, text);
    if (tried && !text->n)
        demangler->overruns++;
    if (text->n)
        memcpy(out + text->n, suffix, suffix_n + 1);
    return text->n;
}

/* ---- each once ---- */

static struct row *find(struct cofi_demangler *demangler, const char *name, uint32_t hash)
{
    uint32_t at = hash, row;
    do
        row = cofi__index_next(&demangler->by_text, hash, &at);
    while (row && strcmp(demangler->rows[row].mangled, name) != 0);
    return row ? &demangler->rows[row] : NULL;
}

static struct row *add(struct cofi_demangler *demangler, const char *name, uint32_t hash)
{
    char out[COFI_NAME_BYTES];
    if (cofi__array_grow(&demangler->rows, &demangler->room, demangler->n, sizeof *demangler->rows) < 0)
        return NULL;
    struct row row = {.mangled = strdup(name)};
    if (!row.mangled || cofi__index_add(&demangler->by_text, hash, (uint32_t)demangler->n) < 0) {
        free(row.mangled);
        return NULL;
    }
    if (demangler->overruns < OVERRUNS_MOST && demangle(demangler, name, out, sizeof out))
        row.shown = strdup(out);
    demangler->rows[demangler->n] = row;
    return &demangler->rows[demangler->n++];
}

const char *cofi_demangle(struct cofi_demangler *demangler, const char *name)
{
    if (!demangler || demangler->how == COFI_DEMANGLE_NO || !name || name[0] != '_' ||
        (name[1] != 'Z' && name[1] != 'R'))
        return name;
    uint32_t hash = cofi__hash(cofi__text_hash(name), 0);
    pthread_mutex_lock(&demangler->lock);
    const struct row *row = find(demangler, name, hash);
    if (!row)
        row = add(demangler, name, hash);
    const char *shown = row ? row->shown : NULL;
    pthread_mutex_unlock(&demangler->lock);
    return shown ? shown : name;
}
