/* SPDX-License-Identifier: MIT
 * Address and time -> the code bytes there, and their symbols. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/image.h>

#include "base/array.h"
#include "base/error.h"
#include "base/map.h"
#include "image/image.h"
#include "image/symbols.h"

struct cofi_view {
    struct cofi__table *user, *kernel;
    /* What each image of a schedule shows now; a table is kept while others have their turn. A machine's
     * processor may show those of 100,000 processes. */
    struct cofi__table **tables;
    size_t tables_n, tables_room;
    struct cofi__map places; /* (an image's address, 0) -> where its table is among these */
    const struct cofi_image *image;
    size_t turn;            /* the turn that is due next */
    uint64_t next;          /* time of what is due next */
    uint64_t cleared;       /* see cofi_view_cleared */
    struct cofi_code last;  /* the last hit; empty after a change */
    bool incomplete;        /* see cofi_view_incomplete */
    bool unmapped;          /* so it was when last asked, at: */
    uint64_t at;
    char *why, text[480];   /* why: text, that a view which is only asked can be told in words */
};

static uint64_t due(const struct cofi__table *table)
{
    if (!table->image || table->next >= table->image->n)
        return UINT64_MAX;
    return table->image->changes[table->next].time_ns;
}

static uint64_t turn_due(const struct cofi_view *view)
{
    return view->turn < view->image->n_turns ? view->image->turns[view->turn].time_ns : UINT64_MAX;
}

static void set_next(struct cofi_view *view)
{
    uint64_t user = due(view->user), kernel = due(view->kernel), turn = turn_due(view);
    view->next = user < kernel ? user : kernel;
    if (turn < view->next)
        view->next = turn;
}

static struct cofi__table *table_of(struct cofi_view *view, const struct cofi_image *image)
{
    const uint32_t *known = cofi__map_get(&view->places, (uintptr_t)image, 0);
    if (known)
        return view->tables[*known];
    if (cofi__array_grow(&view->tables, &view->tables_room, view->tables_n, sizeof *view->tables) < 0)
        return NULL;
    struct cofi__table *table = calloc(1, sizeof *table);
    if (!table || cofi__map_put(&view->places, (uintptr_t)image, 0, (uint32_t)view->tables_n) < 0) {
        free(table);
        return NULL;
    }
    table->image = image;
    return view->tables[view->tables_n++] = table;
}

static int advance_table(struct cofi__table *table, uint64_t time_ns,
                         void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    return table->image ? cofi__table_advance(table, time_ns, changed, opaque) : 0;
}

/* Of the process that is shown. */
static int advance_user(struct cofi_view *view, uint64_t time_ns,
                        void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    size_t before = view->user->clears;
    int told = advance_table(view->user, time_ns, changed, opaque);
    view->cleared += view->user->clears - before;
    return told;
}

/* The upper half is the image's own, or (a guest's: each may be another machine's) that of who has the turn. */
static const struct cofi_image *kernel_of(const struct cofi_image *image, const struct cofi_image *turn)
{
    return image->kernel || !turn ? image->kernel : turn->kernel;
}

static int add(int told, int more) { return more < 0 ? more : told + more; }

static int take_kernel(struct cofi_view *view, const struct cofi__turn *turn,
                       void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    struct cofi__table *to = table_of(view, kernel_of(view->image, turn->image)), *from = view->kernel;
    if (!to)
        return COFI_ERR_NOMEM;
    if (to == from)
        return 0;
    if (to->image)
        COFI_TRY(cofi__table_forward(to, turn->time_ns));
    view->kernel = to;
    return cofi__table_differences(from, to, changed, opaque);
}

/* What a process's table shows at a time; told if it is shown, and counted if it has its turn up to then. */
static int catch_up(struct cofi_view *view, struct cofi__table *table, uint64_t time_ns, bool its_turn,
                    void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    bool shown = table == view->user;
    if (!table->image || (!shown && !its_turn))
        return table->image ? cofi__table_forward(table, time_ns) : 0;
    size_t before = table->clears;
    int told = cofi__table_advance(table, time_ns, shown ? changed : NULL, opaque);
    view->cleared += its_turn ? table->clears - before : 0;
    return shown || told < 0 ? told : 0;
}

/* Of turns that have come and gone meanwhile nothing is seen, but that who has the last one has executed
 * a program in one of its own. */
static int pass_turns(struct cofi_view *view, struct cofi__table *to, size_t last,
                      void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    const struct cofi__turn *turns = view->image->turns;
    int told = 0, before = 0, during = 0;
    for (; view->turn < last && before >= 0 && during >= 0; view->turn++) {
        if (turns[view->turn].image != to->image)
            continue;
        before = catch_up(view, to, turns[view->turn].time_ns, false, changed, opaque);
        during = before < 0 ? 0 : catch_up(view, to, turns[view->turn + 1].time_ns, true, changed, opaque);
        told += before + during;
    }
    return before < 0 || during < 0 ? COFI_ERR_NOMEM : told;
}

/* Another process has its turn: what differs between its address space and the last one's is told. */
static int take_turn(struct cofi_view *view, uint64_t time_ns,
                     void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    const struct cofi__turn *turns = view->image->turns;
    size_t last = cofi__array_upper_bound(turns, view->image->n_turns, sizeof *turns,
                                          offsetof(struct cofi__turn, time_ns), time_ns) -
                  1;
    struct cofi__table *to = table_of(view, turns[last].image), *from = view->user;
    if (!to)
        return COFI_ERR_NOMEM;
    int passed = pass_turns(view, to, last, changed, opaque), told;
    COFI_TRY(passed);
    COFI_TRY(told = catch_up(view, to, turns[last].time_ns, false, changed, opaque));
    view->turn = last + 1;
    view->user = to;
    told += passed;
    if (to != from)
        told = add(told, cofi__table_differences(from, to, changed, opaque));
    return told < 0 ? told : add(told, take_kernel(view, &turns[last], changed, opaque));
}

static int advance(struct cofi_view *view, uint64_t time_ns,
                   void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    int told = 0, n;
    view->last.start = view->last.end = 0;
    if (turn_due(view) <= time_ns && view->turn < view->image->n_turns) {
        n = advance_user(view, turn_due(view), changed, opaque);
        told += n;
        if (n < 0 || (n = take_turn(view, time_ns, changed, opaque)) < 0)
            return n;
        told += n;
    }
    n = advance_user(view, time_ns, changed, opaque);
    if (n < 0)
        return n;
    told += n;
    n = advance_table(view->kernel, time_ns, changed, opaque);
    set_next(view);
    return n < 0 ? n : told + n;
}

int cofi_view_open(struct cofi_view **view, const struct cofi_image *image)
{
    struct cofi_view *made = calloc(1, sizeof *made);
    if (!made)
        return COFI_ERR_NOMEM;
    made->image = image;
    /* Before its first turn is told, a processor ran what that turn tells. */
    const struct cofi_image *first = image->n_turns ? image->turns[0].image : image;
    made->user = table_of(made, first);
    made->kernel = table_of(made, kernel_of(image, first));
    made->why = made->text;
    snprintf(made->why, sizeof made->text, "nothing was asked yet");
    int status = made->user && made->kernel ? advance(made, 0, NULL, NULL) : COFI_ERR_NOMEM;
    if (status < 0) {
        cofi_view_close(made);
        return status;
    }
    *view = made;
    return 0;
}

void cofi_view_close(struct cofi_view *view)
{
    if (!view)
        return;
    for (size_t i = 0; i < view->tables_n; i++) {
        cofi__segments_free(&view->tables[i]->segments);
        free(view->tables[i]);
    }
    free(view->tables);
    cofi__map_free(&view->places);
    free(view);
}

int cofi_view_advance(struct cofi_view *view, uint64_t time_ns,
                      void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    if (time_ns < view->next)
        return 0;
    if (view->next == UINT64_MAX) /* nothing is due: a change cannot be at the end of time */
        return 0;
    return advance(view, time_ns, changed, opaque);
}

uint64_t cofi_view_next_change(const struct cofi_view *view)
{
    return view->next;
}

static uint64_t last_of(const struct cofi__table *table)
{
    return table->image && table->next ? table->image->changes[table->next - 1].time_ns : 0;
}

uint64_t cofi_view_last_change(const struct cofi_view *view)
{
    uint64_t user = last_of(view->user), kernel = last_of(view->kernel);
    uint64_t turn = view->turn ? view->image->turns[view->turn - 1].time_ns : 0, code = user > kernel ? user : kernel;
    return code > turn ? code : turn;
}

uint64_t cofi_view_cleared(const struct cofi_view *view) { return view->cleared; }

static const struct cofi__segment *find_segment(const struct cofi_view *view, uint64_t addr)
{
    if (view->kernel->image && addr >> 63) {
        const struct cofi__segment *segment = cofi__segments_find(&view->kernel->segments, addr);
        if (segment)
            return segment;
    }
    return cofi__segments_find(&view->user->segments, addr);
}

/* The ELF's own address of addr is addr - base. */
static uint64_t base_of(const struct cofi__segment *segment, uint64_t addr)
{
    if (segment->source->is_dump)
        return 0;
    uint64_t offset = segment->pgoff + (addr - segment->start);
    return addr - cofi__source_vaddr(segment->source, offset);
}

int cofi_view_find(struct cofi_view *view, uint64_t addr, struct cofi_code *code)
{
    if (addr - view->last.start < view->last.end - view->last.start) {
        *code = view->last;
        return 0;
    }
    const struct cofi__segment *segment = find_segment(view, addr);
    view->unmapped = !segment;
    view->at = addr;
    if (!segment)
        return COFI_ERR_NO_CODE;
    const uint8_t *bytes;
    uint64_t start, end, offset = segment->pgoff + (addr - segment->start);
    int status = cofi__source_read(segment->source, offset, &bytes, &start, &end, view->why, sizeof view->text);
    if (status < 0) {
        view->incomplete |= status == COFI_ERR_NOMEM;
        return COFI_ERR_NO_CODE;
    }
    /* From offsets in the source to addresses, within the segment. */
    uint64_t before = offset - start, after = end - offset;
    if (before > addr - segment->start)
        before = addr - segment->start;
    if (after > segment->end - addr)
        after = segment->end - addr;
    code->bytes = bytes + (offset - start) - before;
    code->start = addr - before;
    code->end = addr + after;
    code->path = segment->source->path;
    code->pgoff = segment->source->kind == COFI__SOURCE_FILE ? offset - before : 0;
    code->base = base_of(segment, addr);
    code->mode = segment->source->mode;
    view->last = *code;
    return 0;
}

/* Whether whoever has the turn now has it at a time, too. */
static bool has_turn_at(const struct cofi_view *view, uint64_t time_ns)
{
    const struct cofi_image *image = view->user->image;
    for (size_t i = view->turn; i < view->image->n_turns && view->image->turns[i].time_ns <= time_ns; i++)
        image = view->image->turns[i].image;
    return image == view->user->image;
}

uint64_t cofi_view_when(const struct cofi_view *view, uint64_t addr, uint64_t until_ns)
{
    const struct cofi__table *table = addr >> 63 ? view->kernel : view->user;
    for (size_t i = table->next; table->image && i < table->image->n && table->image->changes[i].time_ns <= until_ns;
         i++) {
        const struct cofi__change *change = &table->image->changes[i];
        if (addr - change->addr < change->len && change->source)
            return has_turn_at(view, change->time_ns) ? change->time_ns : UINT64_MAX;
    }
    return UINT64_MAX;
}

const char *cofi_view_why(const struct cofi_view *view)
{
    if (view->unmapped) /* in words only when somebody asks: a trace may go to where nothing is millions of times */
        snprintf(view->why, sizeof view->text, "nothing is mapped at %#llx at this time", (unsigned long long)view->at);
    return view->why;
}

/* What a JIT called it. */
static void jit_name(const struct cofi_view *view, const struct cofi__source *source, uint64_t addr,
                     struct cofi_symbol *symbol)
{
    const struct cofi__table *table = addr >> 63 ? view->kernel : view->user;
    uint64_t now = table->next ? table->image->changes[table->next - 1].time_ns : 0;
    const struct cofi__name *name = table->image ? cofi__image_name_at(table->image, now, source->since_ns, addr)
                                                 : NULL;
    if (source->is_function) {
        symbol->name = source->path; /* the offset is that in its bytes */
        symbol->module = "[jit]";
    } else if (name) {
        symbol->name = name->text;
        symbol->offset = addr - name->addr;
    }
}

void cofi_view_symbol(struct cofi_view *view, uint64_t addr, bool want_line, struct cofi_symbol *symbol)
{
    *symbol = (struct cofi_symbol){0};
    const struct cofi__segment *segment = find_segment(view, addr);
    if (!segment)
        return;
    symbol->module = segment->source->path;
    symbol->offset = addr - base_of(segment, addr);
    if (cofi__source_open(segment->source) < 0)
        return;
    if (!cofi__symbols_find(segment->source, addr - base_of(segment, addr), want_line, symbol))
        view->incomplete = true;
    if (!symbol->name)
        jit_name(view, segment->source, addr, symbol);
}

bool cofi_view_incomplete(const struct cofi_view *view) { return view->incomplete; }

const struct cofi_module *cofi_view_module(struct cofi_view *view, uint64_t addr, uint64_t *base)
{
    const struct cofi__segment *segment = find_segment(view, addr);
    struct cofi_module_info info;
    *base = 0;
    if (!segment)
        return NULL;
    cofi__source_open(segment->source); /* one that cannot be opened has no tables */
    cofi_module_info((const struct cofi_module *)segment->source, &info);
    if (info.of_file)
        *base = base_of(segment, addr);
    return (const struct cofi_module *)segment->source;
}
