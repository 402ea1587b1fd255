/* SPDX-License-Identifier: MIT
 * Address and time -> the code bytes there, and their symbols. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/image.h>

#include "base/error.h"
#include "image/image.h"
#include "image/symbols.h"

struct cofi_view {
    struct cofi__table user, kernel;
    uint64_t next;         /* time of the change that is due next */
    struct cofi_code last; /* the last hit; empty after a change */
    char why[480];
};

static uint64_t due(const struct cofi__table *table)
{
    if (!table->image || table->next >= table->image->n)
        return UINT64_MAX;
    return table->image->changes[table->next].time_ns;
}

static void set_next(struct cofi_view *view)
{
    uint64_t user = due(&view->user), kernel = due(&view->kernel);
    view->next = user < kernel ? user : kernel;
}

static int advance(struct cofi_view *view, uint64_t time_ns,
                   void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque)
{
    int n = cofi__table_advance(&view->user, time_ns, changed, opaque), m = 0;
    if (n >= 0 && view->kernel.image)
        m = cofi__table_advance(&view->kernel, time_ns, changed, opaque);
    view->last.start = view->last.end = 0;
    set_next(view);
    return n < 0 ? n : m < 0 ? m : n + m;
}

int cofi_view_open(struct cofi_view **view, const struct cofi_image *image)
{
    struct cofi_view *made = calloc(1, sizeof *made);
    if (!made)
        return COFI_ERR_NOMEM;
    made->user.image = image;
    made->kernel.image = image->kernel;
    snprintf(made->why, sizeof made->why, "nothing was asked yet");
    int status = advance(made, 0, NULL, NULL);
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
    free(view->user.segments);
    free(view->kernel.segments);
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

static const struct cofi__segment *find_segment(const struct cofi_view *view, uint64_t addr)
{
    if (view->kernel.image && addr >> 63) {
        const struct cofi__segment *segment = cofi__table_find(&view->kernel, addr);
        if (segment)
            return segment;
    }
    return cofi__table_find(&view->user, addr);
}

/* The ELF's own address of addr is addr - base. */
static uint64_t base_of(const struct cofi__segment *segment, uint64_t addr)
{
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
    if (!segment) {
        snprintf(view->why, sizeof view->why, "nothing is mapped at %#llx at this time",
                 (unsigned long long)addr);
        return COFI_ERR_NO_CODE;
    }
    const uint8_t *bytes;
    uint64_t start, end, offset = segment->pgoff + (addr - segment->start);
    COFI_TRY(cofi__source_read(segment->source, offset, &bytes, &start, &end, view->why,
                               sizeof view->why));
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
    view->last = *code;
    return 0;
}

const char *cofi_view_why(const struct cofi_view *view)
{
    return view->why;
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
    cofi__symbols_find(segment->source, addr - base_of(segment, addr), want_line, symbol);
}
