/* SPDX-License-Identifier: MIT
 * A ToPA table over regions of any sizes; PMIs, and the registers that say how far the unit is
 * [SDM Table of Physical Addresses (ToPA)]. */
#include "host/regions.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

enum {
    MSR_OUTPUT_BASE = 0x560,
    MSR_OUTPUT_MASK_PTRS = 0x561,
    PAGE = 4096,
    ENTRY_END = 1,
    ENTRY_INT = 4,
    ENTRY_SIZE_LSB = 6,
    SIZE_MOST = 15,
    MAXPHYADDR = 46
};

struct cofi__regions {
    const struct cofi__regions_plan *plan;
    struct cofi_sink sink;
    struct cofi_unit *unit;
    uint64_t base[COFI__REGIONS_MAX];
    uint64_t bytes_n;
    size_t entry;    /* read up to here */
    uint64_t offset;
    bool wrapped;
    uint8_t *bytes;  /* address 0 on; the table is its first page */
};

/* A region's size field, or -1. */
static int size_field(uint64_t size)
{
    for (int i = 0; i <= SIZE_MOST; i++)
        if (size == (uint64_t)PAGE << i)
            return i;
    return -1;
}

static bool parse_size(const char *text, size_t n, uint64_t *size)
{
    char *end;
    *size = strtoull(text, &end, 10);
    if (end < text + n && (*end == 'K' || *end == 'M'))
        *size <<= *end++ == 'K' ? 10 : 20;
    return end == text + n && *text >= '0' && *text <= '9' && size_field(*size) >= 0;
}

int cofi__regions_parse(struct cofi__regions_plan *plan, const char *text, uint32_t burst)
{
    uint64_t all = 0, largest = 0, size;
    *plan = (struct cofi__regions_plan){0};
    for (const char *p = text; *p && !plan->wrap;) {
        size_t n = strcspn(p, ",");
        if (n == 4 && !memcmp(p, "wrap", n) && plan->n && !p[n]) {
            plan->wrap = true;
        } else if (plan->n < COFI__REGIONS_MAX && parse_size(p, n, &size)) {
            plan->size[plan->n++] = size;
            all += size;
            largest = size > largest ? size : largest;
        } else {
            return COFI_ERR_SYNTAX;
        }
        p += n + (p[n] == ',');
    }
    if (!plan->n)
        return COFI_ERR_SYNTAX;
    return !plan->wrap && all - largest < burst ? COFI_ERR_RANGE : 0;
}

static int load(void *opaque, uint64_t address, uint8_t *bytes, size_t n)
{
    const struct cofi__regions *r = opaque;
    if (address > r->bytes_n || n > r->bytes_n - address)
        return COFI_ERR_RANGE;
    memcpy(bytes, r->bytes + address, n);
    return 0;
}

static int store(void *opaque, uint64_t address, const uint8_t *bytes, size_t n)
{
    struct cofi__regions *r = opaque;
    if (address < PAGE || address > r->bytes_n || n > r->bytes_n - address)
        return COFI_ERR_RANGE;
    memcpy(r->bytes + address, bytes, n);
    return 0;
}

/* Each region at a multiple of its size, behind the one before. */
static void place(struct cofi__regions *r)
{
    uint64_t at = PAGE;
    for (size_t i = 0; i < r->plan->n; i++) {
        uint64_t size = r->plan->size[i];
        r->base[i] = (at + size - 1) & ~(size - 1);
        at = r->base[i] + size;
    }
    r->bytes_n = at;
}

/* A circle tells when it has wrapped; else every full region does. */
static void write_table(struct cofi__regions *r)
{
    size_t n = r->plan->n;
    for (size_t i = 0; i < n; i++) {
        uint64_t entry = r->base[i] | (uint64_t)size_field(r->plan->size[i]) << ENTRY_SIZE_LSB;
        put_le(r->bytes + 8 * i, entry | (!r->plan->wrap || i + 1 == n ? ENTRY_INT : 0), 8);
    }
    put_le(r->bytes + 8 * n, ENTRY_END, 8);
}

struct cofi__regions *cofi__regions_open(const struct cofi__regions_plan *plan, struct cofi_sink sink)
{
    struct cofi__regions *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->plan = plan;
    r->sink = sink;
    place(r);
    r->bytes = calloc(1, r->bytes_n);
    if (!r->bytes) {
        free(r);
        return NULL;
    }
    write_table(r);
    return r;
}

void cofi__regions_close(struct cofi__regions *regions)
{
    if (!regions)
        return;
    free(regions->bytes);
    free(regions);
}

static void interrupt(void *opaque)
{
    struct cofi__regions *r = opaque;
    r->wrapped = true;
    if (!r->plan->wrap)
        cofi__regions_read(r);
}

void cofi__regions_configure(struct cofi__regions *regions, struct cofi_unit_config *config)
{
    config->memory = (struct cofi_memory){load, store, regions};
    config->pmi = interrupt;
    config->opaque = regions;
}

int cofi__regions_program(struct cofi__regions *regions, struct cofi_unit *unit)
{
    regions->unit = unit;
    COFI_TRY(cofi_unit_wrmsr(unit, MSR_OUTPUT_BASE, 0));
    COFI_TRY(cofi_unit_wrmsr(unit, MSR_OUTPUT_MASK_PTRS, 0x7f));
    return cofi_unit_set_field(unit, "topa", 1);
}

/* Where the unit writes next. */
static void position(const struct cofi__regions *r, size_t *entry, uint64_t *offset)
{
    uint64_t ptrs = 0;
    cofi_unit_rdmsr(r->unit, MSR_OUTPUT_MASK_PTRS, &ptrs);
    *entry = (ptrs & 0xffffff80) >> 7;
    *offset = ptrs >> 32;
}

void cofi__regions_read(struct cofi__regions *r)
{
    size_t entry;
    uint64_t offset;
    if (!r->unit || r->plan->wrap)
        return;
    position(r, &entry, &offset);
    while (r->entry != entry || r->offset != offset) {
        bool last = r->entry == entry && r->offset < offset;
        uint64_t until = last ? offset : r->plan->size[r->entry];
        if (until > r->offset)
            r->sink.write(r->sink.opaque, r->bytes + r->base[r->entry] + r->offset, until - r->offset);
        r->offset = last ? offset : 0;
        r->entry = last ? entry : (r->entry + 1) % r->plan->n;
    }
}

/* The circle's pieces become one: a snapshot is one piece of a recording. */
struct whole {
    uint8_t *bytes;
    size_t n;
};

static int append(void *opaque, const uint8_t *bytes, size_t n)
{
    struct whole *whole = opaque;
    memcpy(whole->bytes + whole->n, bytes, n);
    whole->n += n;
    return 0;
}

int cofi__regions_end(struct cofi__regions *r)
{
    struct cofi_topa_place at = {.maxphyaddr = MAXPHYADDR, .wrapped = r->wrapped};
    struct cofi_memory memory = {load, store, r};
    struct whole whole = {malloc(r->bytes_n), 0};
    struct cofi_sink to = {append, &whole};
    if (!r->plan->wrap) {
        free(whole.bytes);
        cofi__regions_read(r);
        return 0;
    }
    if (!whole.bytes)
        return COFI_ERR_NOMEM;
    cofi_unit_rdmsr(r->unit, MSR_OUTPUT_BASE, &at.base);
    cofi_unit_rdmsr(r->unit, MSR_OUTPUT_MASK_PTRS, &at.mask_ptrs);
    int status = cofi_output_read_topa(&memory, &at, &to, NULL);
    if (status >= 0 && whole.n)
        r->sink.write(r->sink.opaque, whole.bytes, whole.n);
    free(whole.bytes);
    return status;
}
