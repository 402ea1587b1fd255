/* SPDX-License-Identifier: MIT
 * madvise, memory that is mapped to be as if advised, and a userfaultfd's moves: code that changes
 * without a write to it. */
#include <sys/mman.h>

#include "host/fast/rt/rt.h"

enum { ADVISE_DONTNEED_LOCKED = 24, ADVISE_POPULATE_WRITE = 23, ADVISE_GUARD_INSTALL = 102 };

/* What a child of a fork has not, or not as it was. */
static struct spans not_inherited;

static void lose(uint64_t start, uint64_t end, bool files)
{
    rt_lock();
    maps_lost(start, end, files);
    rt_unlock();
}

static void not_inherit(uint64_t start, uint64_t end)
{
    rt_lock();
    spans_add(&not_inherited, start, end);
    rt_unlock();
}

/* Before the kernel takes it. */
void advice_given(const struct thread *t)
{
    if ((uint32_t)t->regs[RDX] == ADVISE_POPULATE_WRITE)
        pages_release(t->regs[RDI], end_of(t->regs[RDI], t->regs[RSI]));
}

void advice_taken(const struct thread *t)
{
    uint64_t start = t->regs[RDI], end = end_of(t->regs[RDI], t->regs[RSI]);
    switch ((uint32_t)t->regs[RDX]) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case ADVISE_DONTNEED_LOCKED: lose(start, end, false); break;
    case ADVISE_GUARD_INSTALL: lose(start, end, true); break;
    case MADV_DONTFORK:
    case MADV_WIPEONFORK: not_inherit(start, end); break;
    default: break;
    }
}

/* mmap has made memory at `start`: a child finds zeros in what may be dropped. */
void advice_mapped(const struct thread *t, uint64_t start)
{
    enum { KIND = 0xf, DROPPABLE = 8 }; /* from Linux 6.11 on */
    if ((t->regs[R10] & KIND) == DROPPABLE)
        not_inherit(start, end_of(start, t->regs[RSI]));
}

/* mremap has moved memory, and what was advised with it. */
void advice_moved(uint64_t from, uint64_t from_end, uint64_t to, uint64_t to_end)
{
    if (spans_overlap(&not_inherited, from, from_end))
        spans_add(&not_inherited, to, to_end);
}

/* struct uffdio_move of linux/userfaultfd.h, from Linux 6.8 on. */
struct move {
    uint64_t to, from, bytes, mode, moved;
};
enum { UFFDIO_MOVE = 0xc028aa05 };

/* ioctl(…, UFFDIO_MOVE): pages are taken from one place to another, both of the same rights. */
bool advice_moves_pages(const struct thread *t) { return (uint32_t)t->regs[RSI] == (uint32_t)UFFDIO_MOVE; }

void advice_pages_move(const struct thread *t)
{
    struct move m;
    if (rt_probe(&m, (const void *)t->regs[RDX], sizeof m))
        return;
    pages_release(m.from, m.from + m.bytes);
    pages_release(m.to, m.to + m.bytes);
}

void advice_pages_moved(const struct thread *t)
{
    struct move m;
    if (rt_probe(&m, (const void *)t->regs[RDX], sizeof m))
        return;
    lose(m.from, m.from + m.bytes, false);
    lose(m.to, m.to + m.bytes, false);
}

/* In the child of a fork, which has one thread. */
void advice_forked(void)
{
    for (unsigned i = 0; i < not_inherited.n; i++) {
        const struct span *r = &not_inherited.at[i];
        pages_release(r->start, r->end);
        lose(r->start, r->end, true);
        maps_stale(r->start, r->end, 0);
    }
}
