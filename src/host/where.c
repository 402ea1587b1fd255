/* SPDX-License-Identifier: MIT
 * As the kernel does for perf's filters: a range is programmed anew when its file is mapped. */
#include "host/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

enum { CFG_NONE = 0, CFG_FILTER = 1, CFG_STOP = 2 }; /* [SDM IA32_RTIT_CTL MSR]: ADDRn_CFG */

int cofi__where_check(const struct cofi_filters *filters)
{
    if (filters->n > COFI__WHERE_RANGES)
        return COFI_ERR_UNSUPPORTED;
    for (size_t i = 0; i < filters->n; i++)
        if (filters->filter[i].action != COFI_FILTER_RANGE && filters->filter[i].action != COFI_FILTER_TRACESTOP)
            return COFI_ERR_UNSUPPORTED;
    return 0;
}

void cofi__where_fini(struct cofi__where *where)
{
    free(where->processes);
    cofi__map_free(&where->last);
}

/* The number + 1 of the last process of an id; 0: none. */
static uint32_t last_of(const struct cofi__where *where, int32_t pid)
{
    const uint32_t *last = cofi__map_get(&where->last, (uint32_t)pid, 0);
    return last ? *last : 0;
}

/* The last one of that id that began before; they are in the order of time. */
size_t cofi__where_find(const struct cofi__where *where, int32_t pid, uint64_t ns)
{
    for (uint32_t i = last_of(where, pid); i; i = where->processes[i - 1].before)
        if (where->processes[i - 1].from_ns <= ns)
            return i - 1;
    return where->n;
}

static struct cofi__where_process *find(const struct cofi__where *where, int32_t pid)
{
    size_t i = cofi__where_find(where, pid, UINT64_MAX);
    return i < where->n ? &where->processes[i] : NULL;
}

static struct cofi__where_process *add(struct cofi__where *where, int32_t pid, uint64_t from_ns)
{
    if (!(where->n & (where->n - 1))) {
        struct cofi__where_process *grown = realloc(where->processes, (where->n ? 2 * where->n : 1) * sizeof *grown);
        if (!grown)
            return NULL;
        where->processes = grown;
    }
    uint32_t before = last_of(where, pid);
    if (cofi__map_put(&where->last, (uint32_t)pid, 0, (uint32_t)where->n + 1) < 0)
        return NULL;
    where->processes[where->n] = (struct cofi__where_process){.pid = pid, .before = before, .from_ns = from_ns};
    return &where->processes[where->n++];
}

/* The first executable mapping that holds the range's start counts. */
static bool map(const struct cofi_filters *filters, struct cofi__where_process *process, const struct cofi_sideband *sb)
{
    bool changed = false;
    for (size_t i = 0; i < filters->n; i++) {
        const struct cofi_filter *f = &filters->filter[i];
        bool here = f->path && sb->name && !strcmp(f->path, sb->name) && f->start + f->size > sb->pgoff &&
                    f->start < sb->pgoff + sb->len;
        if (!here || process->known[i])
            continue;
        process->known[i] = changed = true;
        process->base[i] = sb->addr + f->start - sb->pgoff;
    }
    return changed;
}

/* An exec: nothing is mapped that was. */
static int begin_anew(struct cofi__where *where, const struct cofi_sideband *sb)
{
    const struct cofi__where_process *old = find(where, sb->pid);
    bool changed = false;
    for (size_t i = 0; old && i < COFI__WHERE_RANGES; i++)
        changed |= old->known[i];
    return add(where, sb->pid, sb->time_ns) ? changed : COFI_ERR_NOMEM;
}

static int inherit(struct cofi__where *where, const struct cofi_sideband *sb)
{
    struct cofi__where_process *child = add(where, sb->pid, sb->time_ns), *parent = find(where, sb->ppid);
    if (!child)
        return COFI_ERR_NOMEM;
    memcpy(child->known, parent->known, sizeof child->known);
    memcpy(child->base, parent->base, sizeof child->base);
    return 1;
}

int cofi__where_note(struct cofi__where *where, const struct cofi_sideband *sb)
{
    struct cofi__where_process *process;
    if (!where->filters)
        return 0;
    switch ((enum cofi_sideband_kind)sb->kind) {
    case COFI_SB_MMAP:
        if (!(sb->prot & PROT_EXEC) || sb->kernel)
            return 0;
        process = find(where, sb->pid);
        process = process ? process : add(where, sb->pid, 0);
        return process ? map(where->filters, process, sb) : COFI_ERR_NOMEM;
    case COFI_SB_COMM: return sb->exec ? begin_anew(where, sb) : 0;
    case COFI_SB_FORK: return sb->pid != sb->ppid && find(where, sb->ppid) ? inherit(where, sb) : 0;
    case COFI_SB_EXIT:
    case COFI_SB_ITRACE_START:
    case COFI_SB_SWITCH:
    case COFI_SB_SWITCH_CPU:
    case COFI_SB_AUX:
    case COFI_SB_LOST:
    case COFI_SB_CODE:
    case COFI_SB_TEXT_POKE: break;
    }
    return 0;
}

static int set(struct cofi_unit *unit, size_t i, const char *part, uint64_t value)
{
    char name[32];
    snprintf(name, sizeof name, "addr%zu_%s", i, part);
    return cofi_unit_set_field(unit, name, value);
}

/* A filter whose file is not there lets nothing through: its limit is below its base. A range may
 * begin before the mapping's first byte (a whole file). */
int cofi__where_load(const struct cofi__where *where, int32_t pid, uint64_t ns, struct cofi_unit *unit)
{
    size_t at = cofi__where_find(where, pid, ns);
    const struct cofi__where_process *process = at < where->n ? &where->processes[at] : NULL;
    for (size_t i = 0; where->filters && i < where->filters->n; i++) {
        const struct cofi_filter *f = &where->filters->filter[i];
        bool stop = f->action == COFI_FILTER_TRACESTOP;
        bool known = !f->path || (process && process->known[i]);
        uint64_t base = !known ? 1 : f->path ? process->base[i] : f->start;
        COFI_TRY(set(unit, i, "cfg", stop ? (known ? CFG_STOP : CFG_NONE) : CFG_FILTER));
        COFI_TRY(set(unit, i, "a", base));
        COFI_TRY(set(unit, i, "b", known ? base + f->size - 1 : 0));
    }
    return 0;
}
