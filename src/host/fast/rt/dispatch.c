/* SPDX-License-Identifier: MIT
 * Where translated code comes back to: find or make what runs next. */
#include "host/fast/rt/cache.h"
#include "host/fast/rt/plan.h"

#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>

struct runtime rt;

/* Say to the collector what code was there when it was translated, where no file tells it. */
static void note_code(struct thread *t, const struct block *b)
{
    uint64_t high = block_high(b);
    for (uint64_t a = block_low(b); a < high; a += COFI__FAST_CODE_PIECE) {
        uint64_t v[4] = {a, 0, 0, 0};
        note_put(t, COFI__FAST_NOTE_CODE, v, (const void *)a,
                 high - a < COFI__FAST_CODE_PIECE ? high - a : COFI__FAST_CODE_PIECE);
    }
}

/* Translate code to which writes are noticed; null where they cannot be. */
static struct block *make_watched(struct thread *t, const struct region *r, uint64_t pc, bool arrived, bool cold)
{
    struct block *b = NULL;
    uint64_t low = pc, high = pc + 15;
    while (pages_protect(r, low, high) || !b) {
        if (b) /* written meanwhile, perhaps */
            watch_forget_new(b);
        if (pages_compared(r, pc))
            return NULL;
        b = translate(r, pc, t->mode, arrived, cold);
        low = block_low(b);
        high = block_high(b);
    }
    return b;
}

/* Copy code, or as much as the page has where the next one cannot be read: behind the end of a file.
 * Returns the bytes. */
static size_t copy_code(uint8_t *to, uint64_t pc, size_t n)
{
    size_t page = 4096 - (pc & 4095);
    if (!rt_probe(to, (const void *)pc, n))
        return n;
    return n > page && !rt_probe(to, (const void *)pc, page) ? page : 0;
}

/* Translate code that is compared at each entry, with what is in `before`. It was read more than once:
 * as long as it changes, again. */
static struct block *make_compared(struct thread *t, const struct region *r, uint64_t pc, bool arrived,
                                   uint8_t before[COMPARED_BYTES])
{
    for (unsigned try = 0;; try++) {
        uint64_t most = maps_end_of_code(r) - pc;
        size_t n = copy_code(before, pc, most < COMPARED_BYTES ? most : COMPARED_BYTES);
        struct block *b = translate(r, pc, t->mode, arrived, false);
        watch_forget_changed(b);
        if (try == 1000 || !memcmp(before, (const void *)pc, b->above < n ? b->above : n))
            return b;
        watch_forget_new(b);
    }
}

/* The recording has the block's code from now on. */
static void tell(struct thread *t, struct block *b)
{
    if (t->mode == MODE_TRACED)
        note_code(t, b);
    b->since = rdtsc();
    watch_told(b);
}

/* The block at pc, in region r whose code may change: one that was made of the same code before, or a new one. */
static struct block *make_changing(struct thread *t, const struct region *r, uint64_t pc, bool arrived, bool cold)
{
    static uint8_t before[COMPARED_BYTES];
    bool compared = pages_compared(r, pc);
    struct block *woken = compared ? NULL : watch_wake(r, pc, t->mode, arrived, cold), *b = woken;
    if (!woken && !compared)
        b = make_watched(t, r, pc, arrived, cold);
    compared |= !b;
    if (compared)
        b = make_compared(t, r, pc, arrived, before);
    if (!woken || b->untold)
        tell(t, b);
    if (!woken)
        watch_add(b, compared ? before : NULL);
    return b;
}

/* Translate code that stays as it is. */
static struct block *make_steady(struct thread *t, const struct region *r, uint64_t pc, bool arrived, bool cold)
{
    struct block *b = translate(r, pc, t->mode, arrived, cold);
    b->since = r->since;
    if (r->told && t->mode == MODE_TRACED)
        maps_tell(t, block_low(b), block_high(b));
    return b;
}

/* Translate what is at pc now, in region r. */
static struct block *make_block(struct thread *t, const struct region *r, uint64_t pc, bool arrived, bool cold)
{
    bool changes = r->dirty || r->writable || r->shared;
    struct block *b = (changes ? make_changing : make_steady)(t, r, pc, arrived, cold);
    b->trigger = filter_trigger(pc);
    return b;
}

/* Whether the way to the block may be one past the runtime. */
static bool may_link(const struct block *b)
{
    return !b->trigger && trace_all_know(b->since);
}

/* A new block leads to blocks that are looked for soon, most often. */
static void prefetch_exits(const struct block *b)
{
    const struct exit *e = block_exits(b);
    for (unsigned i = 0; i < b->exits; i++)
        cache_prefetch(exit_pc(&e[i]), b->mode, false);
}

/* Whether the code at pc can be read: if need be, from here on, and what the thread's protection keys
 * were is in *keys. */
static bool can_read(uint64_t pc, uint32_t *keys)
{
    *keys = 0;
    if (maps_there(pc))
        return true;
    *keys = keys_open();
    return *keys && maps_there(pc);
}

static struct block *get_block(struct thread *t, uint64_t pc, bool arrived);

/* Make the block at pc, in region r. */
static struct block *get_new(struct thread *t, const struct region *r, uint64_t pc, bool arrived)
{
    if (share_meet(t, r))
        return get_block(t, pc, arrived);
    if (arena_full(r, pc)) {
        cache_flush();
        return get_block(t, pc, arrived); /* others may have been here meanwhile */
    }
    bool cold = rt.control->cold_runs > 1 && !r->dirty && !r->writable && !r->shared &&
                !filter_trigger(pc);
    struct block *b = make_block(t, r, pc, arrived, cold);
    prefetch_exits(b);
    return b;
}

/* The block at pc, made if need be; null when no code can be there, or none that can be read to its end:
 * the instruction in place tells which. */
static struct block *get_block(struct thread *t, uint64_t pc, bool arrived)
{
    uint32_t keys;
    struct block *b = cache_find(pc, t->mode, arrived);
    const struct region *r = b ? NULL : maps_find(t, pc);
    if (!r)
        return b;
    b = can_read(pc, &keys) && !plan_cut(pc) ? get_new(t, r, pc, arrived) : NULL;
    keys_close(keys);
    return b;
}

/* Choose where execution goes on; false: not in translated code. from belongs to the epoch `entered`,
 * and is gone with it. */
static bool go_on(struct thread *t, struct exit *from, uint64_t entered, bool indirect)
{
    rt_lock();
    struct block *b = get_block(t, t->pc, indirect);
    if (entered != rt.epoch)
        from = NULL;
    if (b)
        trace_code(t, b, indirect);
    bool link = b && may_link(b);
    if (link && from)
        cache_link(from, b);
    if (link && indirect)
        cache_ibl(b);
    if (b)
        __atomic_store_n(&t->inside, rt.epoch, __ATOMIC_RELEASE);
    bool trigger = b && b->trigger;
    rt_unlock();
    if (trigger)
        trace_trigger(t);
    t->target = b ? (uint64_t)(b->code_start + b->entry) : 0;
    t->s_rcx = t->regs[RCX]; /* for arrivals */
    t->s_rdx = t->regs[RDX];
    return b;
}

/* The thread asked to stop here (a signal, a new chunk): the guest's state is exact at pc. */
static void safepoint(struct thread *t)
{
    bool psb = t->safepoint & SAFEPOINT_PSB;
    if (t->safepoint & SAFEPOINT_HALT)
        trace_pause(t, COFI__FAST_EVENT, t->signal.has && t->signal.sync ? t->fault.pc : t->pc);
    if (t->safepoint & SAFEPOINT_END)
        t->mode = MODE_STOPPED;
    t->safepoint = 0;
    if (t->signal.has)
        signals_deliver(t);
    if (t->paused && !t->signal.has)
        trace_resume(t);
    if (psb && !t->paused && t->mode == MODE_TRACED)
        log_put(t, COFI__FAST_PSB, t->pc);
    if (leave_wanted(t) && !t->signal.has && !t->safepoint)
        leave_gate(t);
}

/* The cold block at t->pc has run often: make a superblock of it. */
static void warm(struct thread *t, bool arrived)
{
    uint32_t keys = 0;
    rt_lock();
    struct block *old = cache_find(t->pc, t->mode, arrived);
    const struct region *r = old && old->cold ? maps_find(t, t->pc) : NULL;
    r = r && can_read(t->pc, &keys) ? r : NULL;
    if (r && arena_full(r, t->pc)) {
        cache_flush();
    } else if (r) {
        struct block *b = make_block(t, r, t->pc, arrived, false);
        cache_replace(old, b, may_link(b));
    }
    keys_close(keys);
    rt_unlock();
}

/* The code at pc is another one, and so is that of other blocks of it, perhaps, which will notice. */
static void forget_stale(uint64_t pc)
{
    rt_lock();
    watch_forget(pc, pc + 1);
    rt_unlock();
}

/* What an exit does before the block at its pc. Returns whether the exit may be linked to that. */
static bool leave_by(struct thread *t, enum exit_kind kind)
{
    switch (kind) {
    case EXIT_SYSCALL: do_syscall(t); break;
    case EXIT_NEXT: trace_branch(t, HOW_NEXT, 1); break;
    case EXIT_JCC: trace_branch(t, HOW_JCC, 1); break;
    case EXIT_BRANCH: trace_branch(t, HOW_DIRECT, 1); break;
    case EXIT_STALE: forget_stale(t->pc); break;
    case EXIT_SECTION: section_left(t); break;
    case EXIT_HOT:
    case EXIT_HOT_ARRIVED: warm(t, kind == EXIT_HOT_ARRIVED); break;
    case EXIT_DIRECT:
    case EXIT_STEP: return true;
    }
    return false;
}

/* GS has a descriptor, which the program may change and thereby GS's base, without a word to us. */
static void descriptor_in_gs(void)
{
    rt_lock();
    if (!rt.gs_descriptors) {
        rt.gs_descriptors = true;
        cache_flush();
    }
    rt_unlock();
}

/* A fault or a signal kept translated code from logging how it came to pc. */
static void cross(struct thread *t)
{
    enum how how = t->crossing.how;
    t->crossing.how = HOW_NONE;
    if (how != HOW_NONE)
        trace_branch(t, how, t->crossing.outcomes);
}

/* What comes before the instruction at t->pc, or in its place; in a section signals wait. False: nothing. */
static bool attend(struct thread *t, bool section)
{
    if (!section && (t->safepoint || t->signal.has || signals_release(t) || leave_wanted(t)))
        safepoint(t);
    else if (t->flags & FLAG_TF && step_is_call(t)) /* the next trap is behind the instruction after it */
        do_syscall(t);
    else if (!t->no_tsc || section || !forbid_fault(t))
        return t->pc >> 63 && do_vsyscall(t);
    return true;
}

/* By which way the thread has come, and to where. *from: the exit, or null. */
static enum exit_kind way_out(struct thread *t, struct exit **from)
{
    *from = NULL;
    if (t->sequence.runs && !t->miss_id)
        return EXIT_SECTION;
    t->sequence.runs = NULL;
    if (t->miss_id)
        return EXIT_DIRECT;
    if (t->exit_id & EXIT_ID_BLOCK) {
        const struct block *hot = (const struct block *)(t->exit_id - EXIT_ID_BLOCK);
        t->pc = hot->pc;
        return hot->arrived ? EXIT_HOT_ARRIVED : EXIT_HOT;
    }
    *from = (struct exit *)t->exit_id;
    t->pc = exit_pc(*from);
    return (*from)->kind;
}

void rt_dispatch(struct thread *t)
{
    struct exit *from;
    bool indirect = t->miss_id == 1;
    uint64_t entered = t->inside;
    enum exit_kind kind = way_out(t, &from);
    cache_prefetch(t->pc, t->mode, indirect);
    __atomic_store_n(&t->inside, 0, __ATOMIC_RELEASE); /* from is not to be read any more, but under the lock */
    if (rt.halting)
        halt_over(t); /* it was to die of a signal, and has not */
    log_settle(t);
    cross(t);
    if (indirect && t->pc >> 47 && t->mode == MODE_TRACED)
        log_trim(t);
    if (indirect)
        trace_missed(t);
    else if (!leave_by(t, kind))
        from = NULL;
    indirect |= kind == EXIT_HOT_ARRIVED;
    t->miss_id = 2;
    bool section = section_here(t);
    if (section && section_aborts(t)) {
        section = false;
        from = NULL;
        kind = EXIT_DIRECT;
    }
    while (attend(t, section) || (!section && (kind == EXIT_STEP || t->flags & FLAG_TF) && step_aborts(t))) {
        from = NULL;
        indirect = false;
        kind = EXIT_DIRECT;
    }
    if (t->gs.selector > 3 && !rt.gs_descriptors)
        descriptor_in_gs();
    if (section_runs(t))
        return;
    bool step = kind == EXIT_STEP || t->step.force || t->section.end || t->flags & FLAG_TF;
    if (t->step.unchecked)
        forget_stale(t->pc);
    if (t->step.unchecked || (t->flags & FLAG_TF && !t->step.force))
        go_on(t, NULL, entered, false); /* which tells the code */
    t->step.force = t->step.unchecked = false;
    if (step)
        step_begin(t);
    if (step || !go_on(t, from, entered, indirect))
        native_step(t);
}

/* What all threads of a program share. */
static void begin_program(struct thread *t)
{
    rt.control = (struct cofi__fast_control *)COFI__FAST_SHARED_BASE;
    cache_init(); /* first: it asks for the huge page that variables lie in */
    rt.maps_stale = true;
    rt.locks = t->attach.how && rt.control->locks;
    for (unsigned i = 0; t->attach.how && i < rt.control->changed; i++)
        maps_made_executable(rt.control->changed_range[i].start, rt.control->changed_range[i].end, 0);
    uint64_t shared = t->attach.how ? 0 : share_begin(t->program.key);
    if (!rt.control->cache_bytes)
        arena_take_pool(shared);
    rt.control->call_end = (uint64_t)rt_sys_end;
    rt.other_pids = t->head.nested;
    rt.space = rdtsc();
    if (t->program.limited && rt.control->limits)
        arena_hold_room();
}

/* First C code in a thread: the guest's registers are in it. All signals are blocked where it was attached to. */
void rt_start(struct thread *t)
{
    if (t->attach.how != ATTACHED_JOINS)
        arena_claim_first((struct cofi__fast_control *)COFI__FAST_SHARED_BASE);
    if (t->attach.how >= LEAVES_FIRST)
        leave_now(t);
    if (t->shared_fd)
        sys(SYS_close, (uint64_t)t->shared_fd - 1, 0, 0, 0, 0, 0);
    t->shared_fd = 0;
    bool no_tsc = forbid_came();
    if (t->attach.how != ATTACHED_JOINS)
        begin_program(t);
    while (t->attach.how == ATTACHED_JOINS && !__atomic_load_n(&rt.begun, __ATOMIC_ACQUIRE))
        sys(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    t->filtered = seccomp_came();
    rt.runs_readable |= !t->filtered && sys(SYS_personality, UINT32_MAX, 0, 0, 0, 0, 0) & READ_IMPLIES_EXEC;
    thread_set_space(t, rt.space);
    t->exit_entry = (uint64_t)rt_entry;
    t->miss_entry = (uint64_t)rt_miss_arrival;
    t->self = (uint64_t)t;
    t->stack_top = (uint64_t)t + COFI__FAST_SLOT_STACK + COFI__FAST_STACK_BYTES - 64;
    t->pid = (int)sys(SYS_getpid, 0, 0, 0, 0, 0, 0);
    t->tid = (int)sys(SYS_gettid, 0, 0, 0, 0, 0, 0);
    t->head.pid = t->pid;
    t->head.tid = t->tid;
    take_gs(t);
    log_open(t);
    if (t->attach.how)
        section_attached(t);
    signals_init(t);
    __atomic_store_n(&t->head.state, COFI__FAST_SLOT_LIVE, __ATOMIC_RELEASE);
    t->miss_id = 2;
    rt_lock();
    maps_find(t, t->pc);
    rt_unlock();
    __atomic_store_n(&rt.begun, 1, __ATOMIC_RELEASE);
    if (no_tsc)
        forbid_tsc(t);
    trace_begin(t, true);
    rt_dispatch(t);
    rt_resume(t);
}
