/* SPDX-License-Identifier: MIT
 * perf's address filters: text -> ranges in files, by the files' own symbols. */
#include <cofi/filter.h>

#include <ctype.h>
#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cofi/demangle.h>

#include "base/error.h"
#include "image/elf_file.h"
#include "trace/filter_file.h"

static const char *const actions[COFI_FILTER_ACTIONS] = {"filter", "start", "stop", "tracestop", "trigger"};

/* Where the text is read, and what for. */
struct parser {
    const char *at, *text;
    const char *program;
    struct cofi_error *error;
};

/* A symbol or a number, as told. */
struct place {
    char name[4096]; /* those of templates are long */
    unsigned number; /* of several of that name, from 1; 0: not told */
    bool is_global;  /* the one that is no file's own */
    bool is_number;
    uint64_t value;
};

static void skip(struct parser *p)
{
    while (isspace((unsigned char)*p->at) || *p->at == ',')
        p->at++;
}

static void skip_spaces(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static int bad(const struct parser *p, const char *what)
{
    return cofi__fail(p->error, COFI_ERR_SYNTAX, (uint64_t)(p->at - p->text),
                      "filter: %s expected at '%.40s' in '%.80s'", what, p->at, p->text);
}

/* The next word, up to a space or one of the signs. */
static size_t word(struct parser *p, char *out, size_t room, const char *signs)
{
    size_t n = 0;
    skip_spaces(p);
    while (*p->at && !isspace((unsigned char)*p->at) && !strchr(signs, *p->at) && n + 1 < room)
        out[n++] = *p->at++;
    out[n] = 0;
    return n;
}

static int parse_action(struct parser *p, struct cofi_filter *f)
{
    char name[16];
    skip_spaces(p);
    const char *at = p->at;
    word(p, name, sizeof name, ",/@");
    for (unsigned i = 0; i < COFI_FILTER_ACTIONS; i++)
        if (!strcmp(name, actions[i])) {
            f->action = (enum cofi_filter_action)i;
            return 0;
        }
    p->at = at;
    return bad(p, "filter, start, stop, tracestop or trigger");
}

/* "#2": the second of that name; "#g", "#G", "#0": the global one. */
static int parse_choice(struct parser *p, struct place *place)
{
    char text[16], *end;
    skip_spaces(p);
    if (*p->at != '#')
        return 0;
    const char *at = ++p->at;
    word(p, text, sizeof text, ",/@");
    unsigned long number = strtoul(text, &end, 10);
    place->is_global = !strcmp(text, "g") || !strcmp(text, "G") || !strcmp(text, "0");
    place->number = (unsigned)number;
    if (place->is_global ||
        (isdigit((unsigned char)*text) && !*end && number && number <= UINT_MAX && !place->is_number))
        return 0;
    p->at = at;
    return bad(p, "the number of a symbol, or g for a global one,");
}

static int parse_place(struct parser *p, struct place *place)
{
    *place = (struct place){0};
    if (!word(p, place->name, sizeof place->name, ",/@#"))
        return bad(p, "a symbol or an address");
    char *end;
    errno = 0;
    place->value = strtoull(place->name, &end, 0);
    place->is_number = isdigit((unsigned char)place->name[0]) && !*end && !errno;
    return parse_choice(p, place);
}

static int parse_file(struct parser *p, struct cofi_filter *f, bool wanted)
{
    char name[PATH_MAX];
    skip_spaces(p);
    if (*p->at == '@') {
        p->at++;
        if (!word(p, name, sizeof name, ","))
            return bad(p, "a file's name");
        f->path = cofi__filter_file(p->program, name);
    } else if (wanted) {
        if (!p->program)
            return bad(p, "@ and a file's name");
        snprintf(name, sizeof name, "%s", p->program);
        f->path = cofi__filter_program(name);
    } else {
        return 0;
    }
    if (!f->path)
        return cofi__fail(p->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "filter: no file '%.200s'%s", name,
                          strchr(name, '/') ? "" : "; outside the usual library folders give its path");
    return 0;
}

/* ---- symbols ---- */

/* An address of the ELF file -> the offset of its byte; false: it has none. */
static bool to_offset(Elf *elf, uint64_t address, uint64_t *offset)
{
    size_t n;
    if (elf_getphdrnum(elf, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_LOAD && address >= ph.p_vaddr &&
            address < ph.p_vaddr + ph.p_filesz) {
            *offset = address - ph.p_vaddr + ph.p_offset;
            return true;
        }
    }
    return false;
}

struct found {
    uint64_t offset, size;
    bool is_global;
};

static int by_offset(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool is_function(const GElf_Sym *sym)
{
    unsigned type = GELF_ST_TYPE(sym->st_info);
    return sym->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* Whether a symbol's name is that, a version behind it or not; names: as its source has it, or null. */
static bool is_named(const char *name, const char *wanted, struct cofi_demangler *names)
{
    size_t n = strlen(wanted);
    name = cofi_demangle(names, name);
    return name && !strncmp(name, wanted, n) && (!name[n] || name[n] == '@');
}

/* Collect functions of a name from one symbol table; returns how many there are now. */
static size_t collect(Elf *elf, Elf_Scn *section, const GElf_Shdr *sh, const char *name, struct cofi_demangler *names,
                      struct found *found, size_t n, size_t room)
{
    Elf_Data *data = elf_getdata(section, NULL);
    for (size_t i = 0; data && i < sh->sh_size / sh->sh_entsize && n < room; i++) {
        GElf_Sym sym;
        uint64_t offset;
        if (!gelf_getsym(data, (int)i, &sym) || !is_function(&sym) ||
            !is_named(elf_strptr(elf, sh->sh_link, sym.st_name), name, names) || !to_offset(elf, sym.st_value, &offset))
            continue;
        size_t known = 0;
        while (known < n && found[known].offset != offset)
            known++;
        if (known == n)
            found[n++] = (struct found){offset, sym.st_size, false};
        found[known].is_global |= GELF_ST_BIND(sym.st_info) != STB_LOCAL;
    }
    return n;
}

static size_t search_tables(Elf *elf, const char *name, struct cofi_demangler *names, struct found *found, size_t room)
{
    size_t n = 0;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr sh;
        if (gelf_getshdr(section, &sh) && (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM) && sh.sh_entsize)
            n = collect(elf, section, &sh, name, names, found, n, room);
    }
    qsort(found, n, sizeof *found, by_offset);
    return n;
}

/* As symbols have it; if none has, as sources do. */
static size_t search(Elf *elf, const char *name, struct found *found, size_t room)
{
    struct cofi_demangler *names = NULL;
    size_t n = search_tables(elf, name, NULL, found, room);
    if (!n && cofi_demangler_open(&names, COFI_DEMANGLE_SIMPLE) >= 0)
        n = search_tables(elf, name, names, found, room);
    cofi_demangler_close(names);
    return n;
}

/* Only those that are global; returns how many. */
static size_t keep_global(struct found *found, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (found[i].is_global)
            found[kept++] = found[i];
    return kept;
}

/* What else a name may be that no symbol has. */
static const char *hint_of(const char *name)
{
    return strstr(name, "::") ? "C++ and Rust: without parameters, or as nm prints its symbol" :
                                "it may be inlined, stripped, or of a library: 'FUNCTION @ FILE'";
}

static int resolve_symbol(const struct parser *p, Elf *elf, const char *path, const struct place *place,
                          struct found *result)
{
    struct found found[64];
    size_t n = search(elf, place->name, found, ARRAY_LEN(found));
    const char *kind = place->is_global ? "global " : "";
    n = place->is_global ? keep_global(found, n) : n;
    if (!n)
        return cofi__fail(p->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "filter: no %sfunction '%.100s' in %.100s; %s",
                          kind, place->name, path, hint_of(place->name));
    if (place->number > n)
        return cofi__fail(p->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE,
                          "filter: '%.120s #%u': there %s %zu function%s of that name in %.160s", place->name,
                          place->number, n == 1 ? "is" : "are", n, n == 1 ? "" : "s", path);
    if (n > 1 && !place->number)
        return cofi__fail(p->error, COFI_ERR_RANGE, COFI_NOWHERE,
                          "filter: %zu %sfunctions '%.120s' in %.160s; say '%.60s #1' … '#%zu'", n, kind, place->name,
                          path, place->name, n);
    *result = found[place->number ? place->number - 1 : 0];
    return 0;
}

static int with_elf(const struct parser *p, struct cofi_filter *f, const struct place *start, const struct place *end)
{
    struct found found;
    struct elf_file file = elf_file_open(f->path);
    Elf *elf = file.elf;
    int status = elf && elf_kind(elf) == ELF_K_ELF
                     ? 0
                     : cofi__fail(p->error, COFI_ERR_NOT_FOUND, COFI_NOWHERE, "filter: %.200s is no ELF file", f->path);
    if (status >= 0 && !start->is_number) {
        status = resolve_symbol(p, elf, f->path, start, &found);
        if (status >= 0)
            f->start = found.offset, f->size = end->name[0] ? f->size : found.size;
    }
    if (status >= 0 && end->name[0] && !end->is_number) {
        status = resolve_symbol(p, elf, f->path, end, &found);
        if (status >= 0 && found.offset + found.size <= f->start)
            status = cofi__fail(p->error, COFI_ERR_RANGE, COFI_NOWHERE, "filter: '%.80s' ends before '%.80s'",
                                end->name, start->name);
        else if (status >= 0)
            f->size = found.offset + found.size - f->start;
    }
    elf_file_close(&file);
    return status;
}

static int whole_file(struct cofi_filter *f)
{
    struct stat st;
    if (stat(f->path, &st))
        return COFI_ERR_NOT_FOUND;
    f->start = 0;
    f->size = (uint64_t)st.st_size;
    return 0;
}

static bool needs_size(enum cofi_filter_action action)
{
    return action == COFI_FILTER_RANGE || action == COFI_FILTER_TRACESTOP;
}

static int resolve(const struct parser *p, struct cofi_filter *f, const struct place *start, const struct place *end)
{
    if (!strcmp(start->name, "*"))
        return whole_file(f);
    if (start->is_number)
        f->start = start->value;
    if (end->is_number)
        f->size = end->value;
    if (!start->is_number || (end->name[0] && !end->is_number))
        COFI_TRY(with_elf(p, f, start, end));
    if (!needs_size(f->action))
        f->size = 0;
    else if (!f->size)
        return bad(p, "/ and a size, which neither the symbol nor the filter tells,");
    if (f->size && f->start + f->size - 1 < f->start)
        return cofi__fail(p->error, COFI_ERR_RANGE, COFI_NOWHERE, "filter: 0x%llx/0x%llx goes beyond the last address",
                          (unsigned long long)f->start, (unsigned long long)f->size);
    return 0;
}

static int parse_one(struct parser *p, struct cofi_filter *f)
{
    struct place start, end = {0};
    COFI_TRY(parse_action(p, f));
    COFI_TRY(parse_place(p, &start));
    skip_spaces(p);
    if (*p->at == '/') {
        p->at++;
        COFI_TRY(parse_place(p, &end));
    }
    bool symbols = !start.is_number || (end.name[0] && !end.is_number);
    COFI_TRY(parse_file(p, f, symbols));
    return resolve(p, f, &start, &end);
}

int cofi_filters_parse(struct cofi_filters *filters, const char *text, const char *program, struct cofi_error *error)
{
    struct parser p = {.at = text, .text = text, .program = program, .error = error};
    skip(&p);
    if (!*p.at)
        return bad(&p, "a filter");
    for (; *p.at; skip(&p)) {
        if (filters->n == COFI_FILTERS_MAX)
            return cofi__fail(error, COFI_ERR_RANGE, COFI_NOWHERE, "filter: more than %d", COFI_FILTERS_MAX);
        struct cofi_filter f = {0};
        int status = parse_one(&p, &f);
        if (status < 0) {
            free(f.path);
            return status;
        }
        filters->filter[filters->n++] = f;
    }
    return 0;
}

static bool fixed_offset(const char *path, uint64_t address, uint64_t *offset)
{
    GElf_Ehdr header;
    struct elf_file file = elf_file_open(path);
    bool fixed = file.elf && gelf_getehdr(file.elf, &header) && header.e_type == ET_EXEC &&
                 to_offset(file.elf, address, offset);
    elf_file_close(&file);
    return fixed;
}

int cofi_filters_add(struct cofi_filters *filters, enum cofi_filter_action action, uint64_t address, uint64_t size,
                     const char *program)
{
    struct cofi_filter f = {.action = action, .size = size, .path = program ? cofi__filter_program(program) : NULL};
    if (!f.path || !fixed_offset(f.path, address, &f.start) || filters->n == COFI_FILTERS_MAX) {
        free(f.path);
        return filters->n == COFI_FILTERS_MAX ? COFI_ERR_RANGE : COFI_ERR_NOT_FOUND;
    }
    filters->filter[filters->n++] = f;
    return 0;
}

size_t cofi_filters_text(const struct cofi_filters *filters, char *text, size_t n)
{
    size_t used = 0;
    if (n)
        text[0] = 0;
    for (size_t i = 0; i < filters->n; i++) {
        const struct cofi_filter *f = &filters->filter[i];
        if (f->action == COFI_FILTER_TRIGGER)
            continue;
        char size[32] = "";
        if (f->size)
            snprintf(size, sizeof size, "/0x%llx", (unsigned long long)f->size);
        size_t at = used < n ? used : n;
        used += (size_t)snprintf(text + at, n - at, "%s%s 0x%llx%s%s%s", used ? "," : "", actions[f->action],
                                 (unsigned long long)f->start, size, f->path ? "@" : "", f->path ? f->path : "");
    }
    return used;
}

void cofi_filters_fini(struct cofi_filters *filters)
{
    for (size_t i = 0; i < filters->n; i++)
        free(filters->filter[i].path);
    *filters = (struct cofi_filters){0};
}
