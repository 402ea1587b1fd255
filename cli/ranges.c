/* SPDX-License-Identifier: MIT
 * See ranges.h. */
#include "ranges.h"

#include <string.h>

#include <cofi/filter.h>

#include "registers.h"

enum { PROT_EXEC_BIT = 4 };

void ranges_set(struct ranges *ranges, unsigned i, uint64_t base, uint64_t limit, bool stop)
{
    ranges->known = true;
    ranges->base[i] = base;
    ranges->limit[i] = limit;
    ranges->cfg |= (uint64_t)(stop ? PT_ADDR_STOP : PT_ADDR_FILTER) << (PT_ADDR_CFG_LSB + 4 * i);
}

/* Who forked it, or -1. */
static int32_t parent_of(const struct cofi_recording *recording, int32_t pid)
{
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_FORK && sb->pid == pid && sb->ppid != pid && !sb->exec)
            return sb->ppid;
    return -1;
}

/* The first place in a process where a filter's file is executable. */
static bool find_mapped(const struct cofi_recording *recording, int32_t pid, const struct cofi_filter *f,
                        uint64_t *base)
{
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_MMAP && sb->prot & PROT_EXEC_BIT && (sb->pid == pid || pid < 0) && sb->name &&
            !strcmp(sb->name, f->path) && f->start + f->size > sb->pgoff && f->start < sb->pgoff + sb->len) {
            *base = sb->addr + f->start - sb->pgoff;
            return true;
        }
    return false;
}

/* In the process or, where it has only forked, in whom it came from. */
static bool find_place(const struct cofi_recording *recording, int32_t pid, const struct cofi_filter *f, uint64_t *base)
{
    enum { GENERATIONS = 64 };
    *base = f->start;
    if (!f->path)
        return true;
    for (int i = 0; i < GENERATIONS; i++) {
        if (find_mapped(recording, pid, f, base))
            return true;
        if (pid < 0 || (pid = parent_of(recording, pid)) < 0)
            return false;
    }
    return false;
}

/* False: not all of the text can be placed. A file that a process never maps is a range that lies nowhere. */
static bool read_text(struct ranges *ranges, const struct cofi_recording *recording, int32_t pid, const char *text)
{
    struct cofi_filters filters = {0};
    bool good = cofi_filters_parse(&filters, text, NULL, NULL) >= 0;
    unsigned n = 0;
    for (size_t i = 0; good && i < filters.n; i++) {
        const struct cofi_filter *f = &filters.filter[i];
        uint64_t base;
        good = n < RANGES_MAX && f->size && (f->action == COFI_FILTER_RANGE || f->action == COFI_FILTER_TRACESTOP);
        if (!good)
            break;
        bool here = find_place(recording, pid, f, &base);
        ranges_set(ranges, n++, here ? base : 1, here ? base + f->size - 1 : 0, f->action == COFI_FILTER_TRACESTOP);
    }
    cofi_filters_fini(&filters);
    return good;
}

struct ranges ranges_of(const struct cofi_recording *recording, int32_t pid)
{
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    struct ranges ranges = {0};
    if (info->ranges_known) {
        ranges.known = true;
        ranges.cfg = info->config & PT_ADDR_CFG;
        memcpy(ranges.base, info->range_base, sizeof ranges.base);
        memcpy(ranges.limit, info->range_limit, sizeof ranges.limit);
    } else if (info->filter) {
        ranges.known &= read_text(&ranges, recording, pid, info->filter);
    }
    return ranges;
}

bool ranges_pass(const struct ranges *ranges, uint64_t ip)
{
    bool any = false;
    for (unsigned i = 0; i < RANGES_MAX && ranges->known; i++) {
        bool filter = pt_addr_cfg(ranges->cfg, i) == PT_ADDR_FILTER;
        any |= filter;
        if (filter && ip >= ranges->base[i] && ip <= ranges->limit[i])
            return true;
    }
    return !any;
}
