/* SPDX-License-Identifier: MIT
 * Address -> block: code decoded once, forgotten where it changes. */
#include "flow/walker.h"

#include <string.h>

#include "base/error.h"
#include "x86/usual.h"

/* A place of the table: a pointer to a block (48 bits) below 16 bits of its key, so that those of others
 * are not looked at; 0: free. */
enum { TAG_SHIFT = 48 };

static uint64_t key_of(uint64_t ip, uint32_t cut, uint32_t space)
{
    return cofi__block_hash(ip + ((uint64_t)cut << 48) + ((uint64_t)space << 40));
}
static size_t slot_of(const struct cofi_flow *flow, uint64_t key) { return (key >> 16) & (flow->cache.table_size - 1); }
static struct block *block_of(uint64_t word)
{
    return (struct block *)(uintptr_t)(word & ((UINT64_C(1) << TAG_SHIFT) - 1));
}
static uint64_t word_of(const struct block *b, uint64_t key)
{
    return key >> TAG_SHIFT << TAG_SHIFT | (uint64_t)(uintptr_t)b;
}

/* Blocks of up to 64 bytes are listed by the 64 bytes that they start in, longer ones by 512 or by their page: a block
 * is shorter than that. So those that a change touches start where it is or one before, and there few others do. */
enum { SHIFT_FIRST = 6, SHIFT_STEP = 3, SHIFT_LAST = 12, STARTS_EACH = 4 /* places of the table */ };

static unsigned shift_of(const struct block *b)
{
    unsigned shift = SHIFT_FIRST;
    while (shift < SHIFT_LAST && b->pub.end - b->pub.ip > UINT64_C(1) << shift)
        shift += SHIFT_STEP;
    return shift;
}

/* Neighbours lie side by side, for changes of many bytes. */
static struct block **start_list(const struct cofi_flow *flow, uint64_t place, unsigned shift)
{
    uint64_t group = cofi__block_hash((place >> 10) + ((uint64_t)shift << 56)) >> 16;
    return &flow->cache.starts[(group + place) & (flow->cache.starts_n - 1)];
}

static void start_put(struct cofi_flow *flow, struct block *b)
{
    unsigned shift = shift_of(b);
    struct block **list = start_list(flow, b->pub.ip >> shift, shift);
    b->near = *list;
    *list = b;
}

static bool tables_make(struct cofi_flow *flow, size_t size)
{
    size_t starts_n = size / STARTS_EACH;
    uint64_t *table = cofi__table_take(&flow->cache.chunks, size * sizeof *table);
    struct block **starts = cofi__table_take(&flow->cache.chunks, starts_n * sizeof(struct block *));
    if (!table || !starts) {
        cofi__table_free(&flow->cache.chunks, table, size * sizeof *table);
        cofi__table_free(&flow->cache.chunks, starts, starts_n * sizeof(struct block *));
        return false;
    }
    cofi__table_free(&flow->cache.chunks, flow->cache.starts, flow->cache.starts_n * sizeof(struct block *));
    flow->cache.table = table;
    flow->cache.table_size = size;
    flow->cache.starts = starts;
    flow->cache.starts_n = starts_n;
    return true;
}

/* In the first free place, or that of a dead one: nobody looks for it any more. */
static void table_put(struct cofi_flow *flow, struct block *b)
{
    uint64_t key = key_of(b->pub.ip, b->cut, b->space);
    size_t s = slot_of(flow, key);
    while (flow->cache.table[s] && !(flow->cache.mortal && block_of(flow->cache.table[s])->dead))
        s = (s + 1) & (flow->cache.table_size - 1);
    flow->cache.table_n += !flow->cache.table[s];
    flow->cache.table[s] = word_of(b, key);
}

static bool table_grow(struct cofi_flow *flow)
{
    size_t old = flow->cache.table_size, size = old ? old * 4 : 1 << 10;
    uint64_t *was = flow->cache.table;
    if (!tables_make(flow, size))
        return false;
    flow->cache.table_n = 0;
    flow->cache.mortal = false;
    for (size_t i = 0; i < flow->cache.all_n; i++) { /* as they lie in memory */
        struct block *b = flow->cache.all[i];
        if (b->dead)
            continue;
        table_put(flow, b);
        start_put(flow, b);
    }
    cofi__table_free(&flow->cache.chunks, was, old * sizeof *was);
    return true;
}

static struct block *table_find(struct cofi_flow *flow, uint64_t ip, uint32_t cut)
{
    if (!flow->cache.table_size)
        return NULL;
    uint64_t key = key_of(ip, cut, flow->code.space);
    for (size_t s = slot_of(flow, key); flow->cache.table[s]; s = (s + 1) & (flow->cache.table_size - 1)) {
        struct block *b = block_of(flow->cache.table[s]);
        if ((flow->cache.table[s] ^ key) >> TAG_SHIFT)
            continue;
        if (b->pub.ip == ip && b->cut == cut && b->space == flow->code.space && b->pub.mode == flow->code.mode &&
            !b->dead)
            return b;
    }
    return NULL;
}

static uint32_t next_id(const struct cofi_flow *flow)
{
    return (uint32_t)flow->cache.all_n * flow->cache.id_step + flow->cache.id_first;
}

static bool all_grow(struct cofi_flow *flow)
{
    size_t max = flow->cache.all_max ? flow->cache.all_max * 4 : 1 << 10,
           was = flow->cache.all_max * sizeof(struct block *);
    struct block **all = cofi__table_take(&flow->cache.chunks, max * sizeof(struct block *));
    if (!all)
        return false;
    if (was)
        memcpy(all, flow->cache.all, was);
    cofi__table_free(&flow->cache.chunks, flow->cache.all, was);
    flow->cache.all = all;
    flow->cache.all_max = max;
    return true;
}

static struct block *table_add(struct cofi_flow *flow, const struct block *what)
{
    if (flow->cache.table_n * 4 >= flow->cache.table_size * 3 && !table_grow(flow))
        return NULL;
    if (flow->cache.all_n == flow->cache.all_max && !all_grow(flow))
        return NULL;
    struct block *b = cofi__arena_take(&flow->cache.chunks, &flow->cache.blocks_arena, sizeof *b);
    if (!b)
        return NULL;
    *b = *what;
    b->pub.id = next_id(flow);
    b->space = flow->code.space;
    b->hash = edge_hash(b->pub.ip);
    flow->cache.all[flow->cache.all_n++] = b;
    table_put(flow, b);
    start_put(flow, b);
    if (flow->out.coverage && flow->out.coverage->decoded)
        flow->out.coverage->decoded(flow->out.coverage->opaque, &b->pub);
    return b;
}

/* Up to 15 bytes of an instruction that straddles two mappings. */
static int decode_seam(struct cofi_flow *flow, struct cofi_insn *insn, uint64_t ip,
                       const struct cofi_code *code)
{
    uint8_t bytes[15];
    size_t n = 0;
    struct cofi_code at = *code;
    for (uint64_t a = ip; n < sizeof bytes; a++) {
        if (a >= at.end || a < at.start)
            if (cofi_view_find(flow->code.view, a, &at) < 0)
                break;
        bytes[n++] = at.bytes[a - at.start];
    }
    return cofi_insn_decode(insn, flow->code.mode, ip, bytes, n);
}

static int decode_one(struct cofi_flow *flow, struct cofi_insn *insn, uint64_t ip, struct cofi_code *code)
{
    if (ip < code->start || ip >= code->end)
        COFI_TRY(cofi_view_find(flow->code.view, ip, code));
    const uint8_t *bytes = code->bytes + (ip - code->start);
    uint64_t left = code->end - ip;
    unsigned usual = flow->code.mode == 64 && left >= 15 ? cofi__usual_length(bytes) : 0;
    if (usual) { /* three of four; no branch, so its length is all that matters */
        *insn = (struct cofi_insn){.length = (uint8_t)usual, .cls = COFI_CLASS_OTHER};
        return (int)usual;
    }
    int length = cofi_insn_decode(insn, flow->code.mode, ip, bytes, left < 15 ? left : 15);
    if (length == COFI_ERR_TRUNCATED)
        length = decode_seam(flow, insn, ip, code);
    return length == COFI_ERR_TRUNCATED ? COFI_ERR_NO_CODE : length;
}

static bool ends_block(uint8_t cls)
{
    return cls == COFI_CLASS_JCC || cls == COFI_CLASS_JMP || cls == COFI_CLASS_CALL || takes_tip(cls);
}

static uint64_t wrap(const struct cofi_flow *flow, uint64_t ip)
{
    return flow->code.mode == 64 ? ip : ip & UINT32_MAX;
}

/* Instructions to the next branch, or as far as there is code; the last one is left in *insn. Returns
 * where they end. */
static uint64_t decode_insns(struct cofi_flow *flow, struct cofi_flow_block *b, struct cofi_flow_insn *insns,
                             struct cofi_insn *insn)
{
    struct cofi_code code = {0};
    uint64_t at = b->ip;
    while (b->n < BLOCK_INSNS) {
        int length = decode_one(flow, insn, at, &code);
        if (length < 0) {
            flow->code.error = length;
            *insn = (struct cofi_insn){.cls = COFI_CLASS_OTHER};
            break;
        }
        insns[b->n++] = (struct cofi_flow_insn){.ip = at, .length = insn->length, .cls = insn->cls, .far = insn->far,
                                                .mode = b->mode, .block = b->id};
        at = wrap(flow, at + insn->length);
        if (ends_block(insn->cls))
            break;
    }
    return at;
}

/* Decode from ip to the next branch. Its instructions lie where the longest block would have room. */
static struct block *decode(struct cofi_flow *flow, uint64_t ip)
{
    struct block b = {.pub = {.ip = ip, .mode = (uint8_t)flow->code.mode, .id = next_id(flow)}};
    struct cofi_flow_insn *insns = cofi__arena_take(&flow->cache.chunks, &flow->cache.blocks_arena,
                                                    BLOCK_INSNS * sizeof *insns);
    struct cofi_insn insn = {0};
    if (!insns) {
        flow->status = flow->code.error = COFI_ERR_NOMEM;
        return NULL;
    }
    b.pub.insns = insns;
    b.pub.end = decode_insns(flow, &b.pub, insns, &insn);
    cofi__arena_cut(&flow->cache.blocks_arena, insns + b.pub.n);
    if (!b.pub.n)
        return NULL;
    b.pub.cls = ends_block(insn.cls) ? insn.cls : COFI_CLASS_OTHER;
    b.pub.far = insn.far;
    b.pub.target = b.pub.cls == COFI_CLASS_OTHER ? 0 : insn.target;
    flow->stats.blocks_decoded++;
    return table_add(flow, &b);
}

struct block *cofi__block_known(struct cofi_flow *flow, uint64_t ip) { return table_find(flow, ip, 0); }

/* ---- where there is no code ---- */

static struct absent *absent_at(struct cofi_flow *flow, uint64_t ip)
{
    return &flow->cache.absent[cofi__block_hash(ip) >> 16 & (ABSENT - 1)];
}

static bool is_absent(struct cofi_flow *flow, uint64_t ip)
{
    const struct absent *a = absent_at(flow, ip);
    return a->ip == ip && a->epoch == flow->cache.epoch && a->space == flow->code.space && a->mode == flow->code.mode;
}

/* There is no code; holds in this epoch. */
static void note_absence(struct cofi_flow *flow, uint64_t ip)
{
    flow->cache.relies_on_absence = true;
    *absent_at(flow, ip) = (struct absent){.ip = ip, .epoch = flow->cache.epoch, .space = (uint8_t)flow->code.space,
                                           .mode = (uint8_t)flow->code.mode};
}

struct block *cofi__block_at(struct cofi_flow *flow, uint64_t ip)
{
    struct block *b = table_find(flow, ip, 0);
    if (b)
        return b;
    flow->code.error = COFI_ERR_NO_CODE;
    if (is_absent(flow, ip))
        return NULL;
    flow->code.error = COFI_ERR_NOMEM;
    b = decode(flow, ip);
    if (!b && flow->code.error == COFI_ERR_NOMEM)
        flow->status = COFI_ERR_NOMEM;
    if (!b && flow->code.error == COFI_ERR_NO_CODE)
        note_absence(flow, ip);
    return b;
}

/* The first n instructions of a block, as a block. */
struct block *cofi__block_cut(struct cofi_flow *flow, struct block *block, uint32_t n)
{
    if (n == block->pub.n)
        return block;
    struct block *b = table_find(flow, block->pub.ip, n);
    if (b)
        return b;
    struct block cut = {.pub = block->pub, .cut = n};
    cut.pub.n = n;
    cut.pub.end = block->pub.insns[n].ip;
    cut.pub.cls = COFI_CLASS_OTHER;
    cut.pub.far = 0;
    cut.pub.target = 0;
    b = table_add(flow, &cut);
    if (!b)
        flow->status = COFI_ERR_NOMEM;
    return b;
}

static void kill_in(struct cofi_flow *flow, struct block *b, uint64_t addr, uint64_t len)
{
    if (b->dead || b->space != flow->code.space || b->pub.ip >= addr + len || b->pub.end <= addr)
        return;
    b->dead = flow->cache.mortal = true;
    flow->cache.epoch++;
}

/* The dead leave the list, so that code that changes often costs no more each time. */
static void kill_in_list(struct cofi_flow *flow, struct block **link, uint64_t addr, uint64_t len)
{
    while (*link) {
        kill_in(flow, *link, addr, len);
        if ((*link)->dead)
            *link = (*link)->near;
        else
            link = &(*link)->near;
    }
}

static void kill_from(struct cofi_flow *flow, unsigned shift, uint64_t addr, uint64_t len)
{
    uint64_t first = addr >> shift, places = ((addr + len - 1) >> shift) - first + 2;
    for (uint64_t i = 0; i < places; i++)
        kill_in_list(flow, start_list(flow, first - 1 + i, shift), addr, len);
}

/* The bytes of [addr, addr+len) are others now: forget the blocks that hold any of them. Runs notice by
 * the epoch. */
void cofi__block_changed(void *opaque, uint64_t addr, uint64_t len)
{
    struct cofi_flow *flow = opaque;
    if (!len)
        return;
    flow->cache.epoch += flow->cache.relies_on_absence;
    flow->cache.relies_on_absence = false;
    if (len >> SHIFT_FIRST >= flow->cache.starts_n) {
        for (size_t i = 0; i < flow->cache.starts_n; i++)
            kill_in_list(flow, &flow->cache.starts[i], addr, len);
        return;
    }
    for (unsigned shift = SHIFT_FIRST; shift <= SHIFT_LAST; shift += SHIFT_STEP)
        kill_from(flow, shift, addr, len);
}

static size_t tables_bytes(const struct cofi_flow *flow)
{
    return (flow->cache.table_size + flow->cache.starts_n + flow->cache.all_max) * sizeof(void *) +
           flow->cache.runs_size * sizeof(struct run_slot) +
           (flow->spans.slots ? SPAN_SLOTS * sizeof *flow->spans.slots : 0);
}

static void tables_free(struct cofi_flow *flow)
{
    struct chunk_pool *pool = &flow->cache.chunks;
    cofi__table_free(pool, flow->cache.table, flow->cache.table_size * sizeof *flow->cache.table);
    cofi__table_free(pool, flow->cache.starts, flow->cache.starts_n * sizeof(struct block *));
    cofi__table_free(pool, flow->cache.all, flow->cache.all_max * sizeof(struct block *));
    cofi__table_free(pool, flow->cache.runs, flow->cache.runs_size * sizeof *flow->cache.runs);
    cofi__table_free(pool, flow->spans.slots, SPAN_SLOTS * sizeof *flow->spans.slots);
    cofi__tables_clear(pool);
    flow->cache.table = NULL;
    flow->cache.starts = flow->cache.all = NULL;
    flow->cache.runs = NULL;
    flow->spans.slots = NULL;
    flow->cache.table_size = flow->cache.starts_n = flow->cache.all_max = flow->cache.runs_size = 0;
}

void cofi__cache_free(struct cofi_flow *flow)
{
    tables_free(flow);
    cofi__pool_free(&flow->cache.chunks);
}

/* Tables keep their sizes, for what was needed once is needed again; unless little would fit beside them. */
static void cache_clear(struct cofi_flow *flow)
{
    cofi__span_forget(flow);
    cofi__arena_clear(&flow->cache.chunks, &flow->cache.blocks_arena);
    cofi__arena_clear(&flow->cache.chunks, &flow->cache.runs_arena);
    if (tables_bytes(flow) > flow->config.cache_bytes / 4)
        tables_free(flow);
    if (flow->cache.table)
        memset(flow->cache.table, 0, flow->cache.table_size * sizeof *flow->cache.table);
    if (flow->cache.starts)
        memset(flow->cache.starts, 0, flow->cache.starts_n * sizeof(struct block *));
    if (flow->cache.runs)
        memset(flow->cache.runs, 0, flow->cache.runs_size * sizeof *flow->cache.runs);
    memset(flow->cache.absent, 0, sizeof flow->cache.absent);
    flow->cache.table_n = flow->cache.all_n = flow->cache.runs_n = 0;
    flow->cache.mortal = false;
}

size_t cofi__cache_bytes(const struct cofi_flow *flow) { return flow->cache.chunks.used + tables_bytes(flow); }

bool cofi__cache_full(const struct cofi_flow *flow) { return cofi__cache_bytes(flow) >= flow->config.cache_bytes; }

/* Forget all that was decoded. The position survives by its address. */
void cofi__cache_flush(struct cofi_flow *flow)
{
    if (flow->out.coverage)
        cofi__run_count_all(flow);
    ret_drop_sites(flow);
    if (flow->cur)
        flow->ip = flow->cur->pub.ip;
    cache_clear(flow);
    flow->cur = NULL;
    flow->last_run = NULL;
    flow->cache.youngest = NULL;
    flow->idle.mark = NULL;
    flow->cache.generation++;
}

void cofi__cache_kill(struct cofi_flow *flow)
{
    ret_drop_sites(flow);
    for (size_t k = 0; k < flow->cache.all_n; k++)
        flow->cache.all[k]->dead = true;
    flow->cache.mortal = true;
    flow->cache.epoch++;
}

/* Room for one more image: all but the one that the flow was opened with are let go. */
static void drop_spaces(struct cofi_flow *flow)
{
    for (unsigned i = 1; i < flow->code.spaces; i++)
        cofi_view_close(flow->code.views[i]);
    flow->code.spaces = 1;
    for (size_t k = 0; k < flow->cache.all_n; k++)
        flow->cache.all[k]->dead |= flow->cache.all[k]->space > 0;
    flow->cache.mortal = true;
    flow->cache.epoch++;
    if (flow->code.space) {
        flow->code.view = flow->code.views[0];
        flow->code.space = SPACES_MAX; /* none */
    }
}

int cofi__space_of(struct cofi_flow *flow, const struct cofi_image *image)
{
    for (unsigned i = 0; i < flow->code.spaces; i++)
        if (flow->code.images[i] == image)
            return (int)i;
    if (flow->code.spaces == SPACES_MAX)
        drop_spaces(flow);
    COFI_TRY(cofi__flow_view_open(flow, &flow->code.views[flow->code.spaces], image));
    flow->code.images[flow->code.spaces] = image;
    flow->code.viewed_ns[flow->code.spaces] = 0;
    return (int)flow->code.spaces++;
}

int cofi__space_set(struct cofi_flow *flow)
{
    flow->space_due = false;
    if (!flow->config.space)
        return 0;
    const struct cofi_image *image = flow->config.space(flow->config.opaque, flow->code.cr3, flow->code.vmcs,
                                                        flow->code.non_root);
    int space = image ? cofi__space_of(flow, image) : (int)flow->code.space;
    if (space < 0)
        return space;
    if ((unsigned)space == flow->code.space)
        return 0;
    ret_drop_sites(flow);
    if (flow->cur)
        flow->ip = flow->cur->pub.ip;
    flow->code.space = (uint32_t)space;
    flow->code.view = flow->code.views[space];
    flow->cur = NULL;
    flow->last_run = NULL;
    flow->idle.mark = NULL;
    if (cofi_view_next_change(flow->code.view) <= flow->code.seen_ns ||
        (flow->code.seen_ns && cofi__view_is_late(flow, flow->code.seen_ns))) { /* while another was seen */
        flow->code_due = true;
        flow->code.due_ns = flow->code.seen_ns;
        flow->code.due_offset = flow->packet_offset;
    }
    return 0;
}
