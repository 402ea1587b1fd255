/* SPDX-License-Identifier: MIT
 * Pages with code that the guest may write to: their write permission is taken, so that each write is
 * noticed, or their code is compared. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "host/fast/rt/cache.h"

enum { WATCHED = 1 << 15 };

/* Pages whose write permission was taken because code was translated from them. Open addressing; 1:
 * deleted. Places that are not 0 end no search. */
static uint64_t watched[WATCHED];
static unsigned filled;

static unsigned slot_of(uint64_t page)
{
    return (unsigned)(page >> 12) * 2654435761u >> 17 & (WATCHED - 1);
}

static bool is_watched(uint64_t page)
{
    for (unsigned i = slot_of(page); watched[i]; i = (i + 1) & (WATCHED - 1))
        if (watched[i] == page)
            return true;
    return false;
}

/* The first page in [start, end) that has lost its write permission to us; end: none. */
static uint64_t first_watched(uint64_t start, uint64_t end)
{
    for (unsigned i = 0; rt.protected_pages && i < WATCHED; i++)
        if (watched[i] > 1 && watched[i] >= start && watched[i] < end)
            end = watched[i];
    return end;
}

/* Where the first pages of [start, end), which are watched or not, end. */
uint64_t pages_same_until(uint64_t start, uint64_t end, bool *is)
{
    *is = is_watched(start);
    if (!*is && (end - start) / PAGE > WATCHED / 8)
        return first_watched(start, end);
    uint64_t page = start + PAGE;
    while (page < end && is_watched(page) == *is)
        page += PAGE;
    return page;
}

static void watch(uint64_t page)
{
    if (is_watched(page))
        return;
    if (filled > WATCHED / 2)
        pages_release_all();
    unsigned i = slot_of(page);
    while (watched[i] > 1)
        i = (i + 1) & (WATCHED - 1);
    filled += !watched[i];
    watched[i] = page;
    rt.protected_pages++;
}

static long set_rights(uint64_t page, uint64_t prot)
{
    long r = sys(SYS_mprotect, page, PAGE, prot, 0, 0, 0);
    rt.rights_set++;
    return r;
}

static void unwatch(uint64_t page)
{
    for (unsigned i = slot_of(page); watched[i]; i = (i + 1) & (WATCHED - 1))
        if (watched[i] == page) {
            watched[i] = 1;
            rt.protected_pages--;
            return;
        }
}

/* The guest has set the rights of [start, end) itself. */
void pages_forget(uint64_t start, uint64_t end)
{
    bool far = (end - start) / PAGE > WATCHED;
    for (unsigned i = 0; far && rt.protected_pages && i < WATCHED; i++)
        if (watched[i] > 1 && watched[i] >= start && watched[i] < end)
            unwatch(watched[i]);
    for (uint64_t page = start & ~(uint64_t)(PAGE - 1); !far && rt.protected_pages && page < end; page += PAGE)
        unwatch(page);
}

/* Pages that are written so often that to notice each write costs more than to compare their code. */
static struct busy { uint64_t page, since; unsigned writes; } busy[256];
enum { BUSY_WRITES = 64, BUSY_TICKS = 1 << 26 };

static struct busy *busy_slot(uint64_t page)
{
    return &busy[(page / PAGE ^ page / PAGE / ARRAY_LEN(busy)) % ARRAY_LEN(busy)];
}

static bool is_busy(uint64_t address)
{
    uint64_t page = address & ~(uint64_t)(PAGE - 1);
    const struct busy *b = busy_slot(page);
    return b->page == page && b->writes >= BUSY_WRITES;
}

/* Code elsewhere wrote to a watched page. */
void pages_wrote(uint64_t address)
{
    uint64_t page = address & ~(uint64_t)(PAGE - 1), now = rdtsc();
    struct busy *b = busy_slot(page);
    if (is_busy(b->page))
        return;
    if (b->page != page || now - b->since > BUSY_TICKS)
        *b = (struct busy){page, now, 0};
    b->writes++;
}

/* Where no page's rights can be changed: sealed memory, or that of huge pages alone; and pages that the
 * kernel writes, or below which their mapping grows. */
static struct spans unwatchable;

/* The guest is about to seal [start, end). */
void pages_sealed(uint64_t start, uint64_t end)
{
    rt_lock();
    spans_add(&unwatchable, start, end);
    rt_unlock();
    pages_release(start, end);
}

/* Whether an instruction at pc may end in another region, which may be written to. */
static bool ends_in_other(const struct region *r, uint64_t pc)
{
    return r->end - pc < INSN_MAX && (r->dirty || r->writable) && maps_writes_at(r->end);
}

/* Whether code at pc is to be compared at each entry: writes to it are not noticed, or not to what a
 * block there may have of it. */
bool pages_compared(const struct region *r, uint64_t pc)
{
    uint64_t near = pc < WATCHED_BYTES ? 0 : pc - WATCHED_BYTES;
    return r->shared || ends_in_other(r, pc) ||
           (r->writable &&
            (is_busy(pc) || is_busy(pc + COMPARED_BYTES) || spans_overlap(&unwatchable, near, pc + WATCHED_BYTES)));
}

/* Whether the region's first page is that of a mapping which grows downwards: what comes below it has
 * the rights that it has then. The kernel says so if it is given those that it has. */
static bool grows_below(const struct region *r, uint64_t page)
{
    return page == r->start && set_rights(page, PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN) >= 0;
}

/* Notice writes to [start, end) from now on. Returns whether there may have been some that were not
 * noticed: or none can be, then r is compared. */
bool pages_protect(const struct region *r, uint64_t start, uint64_t end)
{
    bool fresh = false;
    if (!r->writable)
        return false;
    start = start > r->start ? start : r->start;
    end = end < r->end ? end : r->end;
    for (uint64_t page = start & ~(uint64_t)(PAGE - 1); page < end; page += PAGE)
        if (!is_watched(page)) {
            watch(page);
            fresh = true;
            bool alone = targets_on(page) || grows_below(r, page);
            if (alone || set_rights(page, PROT_READ | PROT_EXEC) < 0) {
                unwatch(page);
                spans_add(&unwatchable, alone ? page : r->start, alone ? page + PAGE : r->end);
                break;
            }
        }
    return fresh;
}

/* A write to a watched page: make it writable again and forget its code. False: the guest's own fault.
 * Who finds without the lock that the page is not watched may count on its rights. */
bool pages_write_fault(uint64_t addr)
{
    uint64_t page = addr & ~(uint64_t)(PAGE - 1);
    if (!is_watched(page))
        return false;
    rt.releases++;
    watch_forget(page, page + PAGE);
    set_rights(page, PROT_READ | PROT_WRITE | PROT_EXEC);
    unwatch(page);
    return true;
}

/* Before the kernel itself may write to [start, end). Without the lock where nothing is watched there,
 * which is so most often. */
void pages_release(uint64_t start, uint64_t end)
{
    const uint64_t last = -(uint64_t)PAGE; /* where programs have nothing, and behind which no page begins */
    bool is = false;
    end = end < last ? end : last;
    for (uint64_t page = start & ~(uint64_t)(PAGE - 1), next; page < end; page = next) {
        next = pages_same_until(page, end, &is);
        if (!is)
            continue;
        rt_lock();
        for (; page < next; page += PAGE)
            pages_write_fault(page);
        rt_unlock();
    }
}

/* Before the kernel itself may write anywhere. */
void pages_release_all(void)
{
    for (unsigned i = 0; i < WATCHED; i++)
        if (watched[i] > 1)
            pages_write_fault(watched[i]);
    memset(watched, 0, sizeof watched);
    filled = 0;
    rt.protected_pages = 0;
}
