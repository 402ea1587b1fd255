/* SPDX-License-Identifier: MIT
 * Random programs of real x86 code, run with random outcomes: truth, and the trace that a unit makes. */
#include "prog.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/insn.h>

static uint64_t random64(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static unsigned below(uint64_t *seed, unsigned n) { return (unsigned)((random64(seed) >> 20) % n); }

/* ---- making ---- */

static size_t put(struct prog *p, uint8_t cls, const char *bytes, unsigned length)
{
    size_t at = p->size;
    assert(at + 16 < PROG_BYTES);
    memcpy(p->code + at, bytes, length);
    p->at[at] = (struct prog_insn){.cls = cls, .length = (uint8_t)length};
    p->size += length;
    return at;
}

static void filler(struct prog *p)
{
    static const struct { const char *bytes; unsigned n; } fills[] = {
        {"\x90", 1}, {"\x66\x90", 2}, {"\x0f\x1f\x00", 3}, {"\x48\x89\xc8", 3}, {"\xb8\x01\x02\x03\x04", 5},
        {"\x0f\x1f\x84\x00\x00\x00\x00\x00", 8}, {"\x48\x8b\x44\x24\x08", 5}, {"\xf3\x0f\x10\x07", 4},
        {"\xc5\xf8\x28\xc1", 4}, {"\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", 10},
    };
    unsigned i = below(&p->seed, sizeof fills / sizeof *fills);
    put(p, COFI_CLASS_OTHER, fills[i].bytes, fills[i].n);
}

/* A direct branch whose target comes later. */
static size_t branch(struct prog *p, uint8_t cls)
{
    if (cls == COFI_CLASS_JCC)
        return put(p, cls, "\x0f\x85\0\0\0\0", 6);
    return put(p, cls, cls == COFI_CLASS_CALL ? "\xe8\0\0\0\0" : "\xe9\0\0\0\0", 5);
}

static void aim(struct prog *p, size_t at, size_t to)
{
    struct prog_insn *insn = &p->at[at];
    int32_t distance = (int32_t)((int64_t)to - (int64_t)(at + insn->length));
    memcpy(p->code + at + insn->length - 4, &distance, 4);
    insn->target = PROG_BASE + to;
}

enum { ITEMS = 24 };

static void function(struct prog *p, unsigned f, unsigned *calls_to, size_t *calls, unsigned *n_calls)
{
    size_t label[ITEMS + 1], jumps[ITEMS], n = 0;
    unsigned items = 4 + below(&p->seed, ITEMS - 4);
    p->entry[f] = PROG_BASE + p->size;
    for (unsigned i = 0; i < items; i++) {
        label[i] = p->size;
        for (unsigned k = below(&p->seed, 4); k; k--)
            filler(p);
        unsigned kind = below(&p->seed, 16);
        if (kind < 7) {
            size_t at = branch(p, COFI_CLASS_JCC);
            if (i && below(&p->seed, 3) == 0)
                aim(p, at, label[below(&p->seed, i)]);
            else
                jumps[n++] = at;
        } else if (kind < 8) {
            jumps[n++] = branch(p, COFI_CLASS_JMP);
        } else if (kind < 11) {
            size_t guard = branch(p, COFI_CLASS_JCC);
            p->at[guard].guard = 1;
            if (below(&p->seed, 3)) {
                calls_to[*n_calls] = below(&p->seed, p->functions);
                calls[(*n_calls)++] = branch(p, COFI_CLASS_CALL);
            } else {
                put(p, COFI_CLASS_CALL_IND, "\xff\xd0", 2);
            }
            aim(p, guard, p->size);
        } else if (kind < 12) {
            put(p, COFI_CLASS_FAR_CALL, "\x0f\x05", 2);
        } else if (kind < 13) {
            put(p, COFI_CLASS_JMP_IND, "\xff\xe0", 2); /* to what comes next or a label behind */
        }
    }
    label[items] = p->size;
    for (size_t i = 0; i < n; i++) {
        unsigned to = items;
        while (to && label[to - 1] > jumps[i])
            to--;
        aim(p, jumps[i], label[to + below(&p->seed, items - to + 1)]);
    }
    filler(p);
    put(p, COFI_CLASS_RET, "\xc3", 1);
}

void prog_make(struct prog *p, uint64_t seed, unsigned functions)
{
    static size_t calls[512 * ITEMS];
    static unsigned calls_to[512 * ITEMS];
    unsigned n_calls = 0;
    memset(p, 0, sizeof *p);
    p->seed = seed * 2 + 1;
    p->functions = functions;
    for (int i = 0; i < 9; i++)
        random64(&p->seed);
    for (unsigned f = 0; f < functions; f++)
        function(p, f, calls_to, calls, &n_calls);
    for (unsigned i = 0; i < n_calls; i++)
        aim(p, calls[i], p->entry[calls_to[i]] - PROG_BASE);
    p->restorer = PROG_BASE + p->size;
    put(p, COFI_CLASS_OTHER, "\xb8\x0f\0\0\0", 5);
    put(p, COFI_CLASS_FAR_CALL, "\x0f\x05", 2);
}

/* ---- running ---- */

enum { DEPTH = 1 << 12, DEEP = 150 };

struct machine {
    struct prog *p;
    struct prog_run *run;
    struct cofi_unit *unit;
    struct cofi_context context;
    uint64_t stack[DEPTH];
    unsigned depth;
    uint64_t ip, tsc, cycles;
    uint64_t saved[16]; /* signals: where they go back to */
    unsigned saved_depth[16], signals;
    bool in, jumped; /* FilterEn; execution came here by a taken branch or an event */
};

static int take(void *opaque, const uint8_t *bytes, size_t n)
{
    struct prog_run *run = opaque;
    if (run->deaf)
        return 0;
    if (run->n + n > run->max) {
        run->max = (run->n + n) * 2;
        run->trace = realloc(run->trace, run->max);
        assert(run->trace);
    }
    memcpy(run->trace + run->n, bytes, n);
    run->n += n;
    return 0;
}

static void tell(struct machine *m, struct cofi_event event)
{
    int status = cofi_unit_event(m->unit, &event);
    assert(status == 0);
    (void)status;
}

static bool chance(struct machine *m, unsigned in_65536)
{
    return in_65536 && below(&m->run->seed, 65536) < in_65536;
}

/* An instruction that ran belongs to the truth if it was traced. */
static void ran(struct machine *m, uint64_t ip)
{
    struct prog_run *run = m->run;
    bool inside = ip >= run->base && ip <= run->limit;
    if (m->jumped) /* PT toggles FilterEn here only, RTIT also where execution walks over a bound */
        m->in = inside;
    else if (run->gen == COFI_RTIT && (ip == run->base || ip == run->limit + 1))
        m->in = inside;
    m->jumped = false;
    if (run->limit && !m->in)
        return;
    if (run->truth_n == run->truth_max) {
        run->truth_max = run->truth_max ? run->truth_max * 2 : 1 << 16;
        run->truth = realloc(run->truth, run->truth_max * sizeof *run->truth);
        assert(run->truth);
    }
    run->truth[run->truth_n++] = ip;
}

static void clock_on(struct machine *m)
{
    unsigned cycles = below(&m->run->seed, 8);
    m->cycles += cycles;
    m->tsc += cycles + (m->cycles & 1);
    if (m->run->clock && cycles > 2)
        tell(m, (struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = m->tsc, .cycles = m->cycles});
}

/* Into the kernel and back to `back`. */
static void excursion(struct machine *m, bool event, uint64_t ip, uint64_t next, uint64_t back)
{
    struct cofi_event out = {.kind = COFI_EV_FAR, .cause = COFI_FAR_SYSCALL, .ip = ip, .next = next,
        .target = KERNEL, .context_set = true, .vector = COFI_NO_VECTOR, .after = m->context};
    if (event) {
        out.kind = COFI_EV_EVENT;
        out.cause = COFI_CAUSE_INTR;
        out.vector = 32;
    }
    out.after.cpl = 0;
    tell(m, out);
    for (unsigned i = 0; i < 2; i++) {
        if (m->run->os)
            ran(m, KERNEL + i);
        if (i == 0)
            tell(m, (struct cofi_event){.kind = COFI_EV_INSN, .ip = KERNEL, .next = KERNEL + 1});
    }
    if (m->run->clock) {
        m->tsc += 500;
        m->cycles += 300;
        tell(m, (struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = m->tsc, .cycles = m->cycles});
    }
    tell(m, (struct cofi_event){.kind = COFI_EV_FAR, .cause = COFI_FAR_IRET, .ip = KERNEL + 1, .next = KERNEL + 3,
        .target = back, .context_set = true, .vector = COFI_NO_VECTOR, .after = m->context});
    m->ip = back;
    m->jumped = true;
}

static void signal_in(struct machine *m)
{
    m->saved[m->signals] = m->ip;
    m->saved_depth[m->signals++] = m->depth;
    m->stack[m->depth++] = m->p->restorer;
    excursion(m, true, m->ip, m->ip, m->p->entry[below(&m->run->seed, m->p->functions)]);
}

static void do_call(struct machine *m, uint64_t next, uint64_t target)
{
    m->stack[m->depth++] = next;
    m->ip = target;
}

static uint64_t do_return(struct machine *m)
{
    unsigned floor = m->signals ? m->saved_depth[m->signals - 1] + 1 : 0;
    if (m->depth > floor + 2 && chance(m, m->run->odd_return))
        m->depth -= 1 + below(&m->run->seed, m->depth - floor - 1);
    if (!m->depth)
        return m->p->entry[0]; /* the outermost loop */
    return m->stack[--m->depth];
}

static bool decide(struct machine *m, const struct prog_insn *insn, uint64_t ip)
{
    if (insn->guard && m->depth > DEEP)
        return true;
    unsigned bias = (unsigned)(ip * 2654435761u >> 7) & 7; /* a branch has its habits */
    unsigned r = below(&m->run->seed, 16);
    return bias == 0 ? r < 8 : bias < 4 ? r < 13 : r < 3;
}

static void near_branch(struct machine *m, const struct prog_insn *insn, uint64_t ip, uint64_t next)
{
    struct cofi_event e = {.ip = ip, .next = next, .target = insn->target};
    m->ip = insn->target;
    if (insn->cls == COFI_CLASS_JCC) {
        e.kind = COFI_EV_JCC;
        e.taken = decide(m, insn, ip);
        m->ip = e.taken ? insn->target : next;
    } else if (insn->cls == COFI_CLASS_JMP) {
        e.kind = COFI_EV_JMP;
    } else if (insn->cls == COFI_CLASS_CALL) {
        e.kind = COFI_EV_CALL;
        do_call(m, next, insn->target);
    } else if (insn->cls == COFI_CLASS_CALL_IND) {
        e.kind = COFI_EV_CALL_IND;
        e.target = m->p->entry[below(&m->run->seed, m->p->functions)];
        do_call(m, next, e.target);
    } else if (insn->cls == COFI_CLASS_JMP_IND) {
        e.kind = COFI_EV_JMP_IND;
        e.target = m->ip = next;
    } else {
        e.kind = COFI_EV_RET;
        e.target = m->ip = do_return(m);
    }
    m->jumped = insn->cls != COFI_CLASS_JCC || e.taken;
    tell(m, e);
}

static void step(struct machine *m)
{
    uint64_t ip = m->ip;
    const struct prog_insn *insn = &m->p->at[ip - PROG_BASE];
    assert(insn->length);
    uint64_t next = ip + insn->length;
    if (chance(m, m->run->interrupt))
        excursion(m, true, ip, ip, ip);
    if (m->signals < 4 && chance(m, m->run->signal)) {
        signal_in(m);
        return;
    }
    if (chance(m, m->run->overflow))
        tell(m, (struct cofi_event){.kind = COFI_EV_OVERFLOW_HINT});
    ran(m, ip);
    clock_on(m);
    m->ip = next;
    if (insn->cls == COFI_CLASS_OTHER) {
        tell(m, (struct cofi_event){.kind = COFI_EV_INSN, .ip = ip, .next = next});
    } else if (insn->cls == COFI_CLASS_FAR_CALL) {
        uint64_t back = next;
        if (ip == m->p->restorer + 5 && m->signals) {
            back = m->saved[--m->signals];
            m->depth = m->saved_depth[m->signals];
        } else if (ip == m->p->restorer + 5) {
            back = m->p->entry[0];
        }
        excursion(m, false, ip, next, back);
    } else {
        near_branch(m, insn, ip, next);
    }
}

static void start(struct machine *m);

/* The output is full, or will be soon: what is in the unit then is lost. */
static void fill_up(struct machine *m)
{
    enum { ON_THE_WAY = 80 };
    struct prog_run *run = m->run;
    if (!run->full || run->breaks_n == PROG_BREAKS)
        return;
    size_t end = run->full + (run->breaks_n ? run->breaks[run->breaks_n - 1] : 0);
    cofi_unit_drain(m->unit);
    if (run->n + ON_THE_WAY < end)
        run->sure[run->breaks_n] = run->truth_n;
    if (run->n < end)
        return;
    run->n = run->breaks[run->breaks_n] = end;
    run->deaf = true;
    int status = cofi_unit_wrmsr(m->unit, 0x570, run->ctl);
    for (unsigned i = below(&run->seed, 100); i; i--)
        step(m);
    run->deaf = false;
    run->resumed[run->breaks_n++] = run->truth_n;
    assert(status == 0);
    (void)status;
    start(m);
}

static void start(struct machine *m)
{
    struct prog_run *run = m->run;
    int status = 0;
    uint64_t v;
    cofi_unit_context(m->unit, &m->context, m->ip);
    if (run->gen == COFI_PT) {
        if (run->limit) {
            status |= cofi_unit_wrmsr(m->unit, 0x580, run->base);
            status |= cofi_unit_wrmsr(m->unit, 0x581, run->limit);
        }
        status |= cofi_unit_wrmsr(m->unit, 0x570, run->ctl | 1 | (run->limit ? UINT64_C(1) << 32 : 0));
    } else {
        status |= cofi_unit_rdmsr(m->unit, 0x768, &v);
        status |= cofi_unit_wrmsr(m->unit, 0x760, run->base);
        status |= cofi_unit_wrmsr(m->unit, 0x762, run->limit + 1);
        status |= cofi_unit_wrmsr(m->unit, 0x76c, (run->limit ? 0 : 7) | 6 << 3);
        status |= cofi_unit_wrmsr(m->unit, 0x768, run->ctl | 1);
        status |= cofi_unit_wrmsr(m->unit, 0x768, run->ctl | 1 | 1 << 13);
    }
    assert(status == 0);
    (void)status;
}

void prog_go(struct prog *p, struct prog_run *run)
{
    static struct machine m;
    struct cofi_unit_config config = {.size = sizeof config, .gen = run->gen, .sink = {take, run},
        .tsc_art_num = 42, .tsc_art_den = 2, .deferred_tips = run->deferred};
    m = (struct machine){.p = p, .run = run, .ip = p->entry[0], .tsc = 1000000};
    m.context = (struct cofi_context){.cr3 = 0x1000, .vmcs = UINT64_MAX, .cpl = 3, .mode = 64, .iflag = true, .cr0_pg = true};
    run->seed = run->seed * 2 + 1;
    int status = cofi_unit_open(&m.unit, &config);
    assert(status == 0);
    (void)status;
    if (run->clock)
        tell(&m, (struct cofi_event){.kind = COFI_EV_CLOCK, .tsc = m.tsc, .cycles = m.cycles});
    start(&m);
    for (size_t i = 0; i < run->insns; i++) {
        step(&m);
        fill_up(&m);
    }
    excursion(&m, true, m.ip, m.ip, m.ip);
    struct cofi_event out = {.kind = COFI_EV_EVENT, .cause = COFI_CAUSE_INTR, .ip = m.ip, .target = KERNEL,
        .context_set = true, .vector = 32, .after = m.context};
    out.after.cpl = 0;
    tell(&m, out);
    cofi_unit_drain(m.unit);
    cofi_unit_close(m.unit);
}

struct cofi_image *prog_image(const struct prog *prog)
{
    static const uint8_t kernel[] = {0x90, 0x48, 0xcf};
    struct cofi_image *image = NULL;
    int status = cofi_image_open(&image);
    if (status >= 0)
        status = cofi_image_map_bytes(image, 0, PROG_BASE, prog->code, prog->size, "prog");
    if (status >= 0)
        status = cofi_image_map_bytes(image, 0, KERNEL, kernel, sizeof kernel, "kernel");
    assert(status >= 0);
    return image;
}

void prog_free(struct prog_run *run)
{
    free(run->truth);
    free(run->trace);
}
