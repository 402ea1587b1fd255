/* SPDX-License-Identifier: MIT
 * Changes of CR3, whose order is known, beside recorded switches and execs, whose times are -> when each change was. */
#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "image/image.h"
#include "trace/bounds.h"

/* A process came to run, or began to run another program. */
struct arrival {
    uint64_t ns;
    int32_t pid; /* 0: none with code of its own: idle, the kernel's threads */
    bool quiet;  /* its space may have been there already */
};

/* From the interval of that number on, until another sighting of the key, it was that process's as far as is known. */
struct sighting {
    uint64_t key;
    size_t interval;
    int32_t pid;
};

struct aligning {
    struct cofi_recording *recording;
    int32_t cpu;
    const struct cofi__spaces *spaces;
    struct cofi__vector arrivals;  /* struct arrival, by time */
    int32_t user;                  /* the last process with code among them */
    struct cofi__vector sightings; /* struct sighting; by key and interval once all are there */
    struct cofi__vector *bounds;
    size_t last;         /* the arrival that the last change so far was due to */
    uint64_t cells_left; /* what all tables may have */
};

/* ---- who came to run ---- */

static bool has_code(const struct aligning *a, int32_t pid)
{
    const struct cofi_image *image = pid > 0 ? cofi_recording_image(a->recording, pid) : NULL;
    return image && image->n;
}

/* The kernel's own threads run in its own space, or in that of whoever ran before them. */
static int add_arrival(struct aligning *a, const struct cofi_sideband *sb)
{
    const struct arrival *last = a->arrivals.n ? (struct arrival *)a->arrivals.items + a->arrivals.n - 1 : NULL;
    int32_t pid = sb->pid, tid;
    bool exec = sb->kind == COFI_SB_COMM && sb->exec;
    if (!exec && !cofi__who_runs(sb, &pid, &tid))
        return 0;
    if (!has_code(a, pid))
        pid = 0;
    if (!exec && last && last->pid == pid)
        return 0;
    struct arrival *row = cofi__vector_push(&a->arrivals);
    if (!row)
        return COFI_ERR_NOMEM;
    *row = (struct arrival){sb->time_ns, pid, !pid || (pid == a->user && !exec)};
    a->user = pid ? pid : a->user;
    return 0;
}

static int list_arrivals(struct aligning *a)
{
    const struct cofi_sideband *rows = a->recording->sideband.items;
    for (size_t i = 0; a->cpu >= 0 && i < a->recording->sideband.n; i++)
        if (rows[i].machine == 0 && rows[i].cpu == (uint32_t)a->cpu)
            COFI_TRY(add_arrival(a, &rows[i]));
    return 0;
}

/* The kernel records a switch this long before or after it changes CR3, at most. */
enum { SLACK_NS = 50000 };

static uint64_t with_slack(uint64_t ns) { return ns < UINT64_MAX - SLACK_NS ? ns + SLACK_NS : UINT64_MAX; }
static uint64_t without_slack(uint64_t ns) { return ns > SLACK_NS ? ns - SLACK_NS : 0; }

/* How many arrivals there are up to a time. */
static size_t arrivals_at(const struct aligning *a, uint64_t ns)
{
    return cofi__array_upper_bound(a->arrivals.items, a->arrivals.n, sizeof(struct arrival),
                                   offsetof(struct arrival, ns), ns);
}

/* ---- whose a CR3 is ---- */

static int by_key(const void *a, const void *b)
{
    const struct sighting *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->interval < y->interval ? -1 : x->interval > y->interval;
}

/* At a full time PSB+ tells the space; where no switch is near, it is that of the process that runs. */
static int list_sightings(struct aligning *a)
{
    const struct cofi__interval *rows = a->spaces->intervals.items;
    const struct arrival *arrivals = a->arrivals.items;
    for (size_t i = 0; i < a->spaces->intervals.n; i++) {
        size_t n = arrivals_at(a, without_slack(rows[i].from_ns));
        bool sure = n && arrivals[n - 1].pid && n == arrivals_at(a, with_slack(rows[i].from_ns));
        if (rows[i].key == COFI__NO_KEY || !sure)
            continue;
        struct sighting *row = cofi__vector_push(&a->sightings);
        if (!row)
            return COFI_ERR_NOMEM;
        *row = (struct sighting){rows[i].key, i, arrivals[n - 1].pid};
    }
    if (a->sightings.n)
        qsort(a->sightings.items, a->sightings.n, sizeof(struct sighting), by_key);
    return 0;
}

/* Of whom a key was seen before, and behind; 0: of nobody. */
struct owner {
    int32_t before, behind;
};

static struct owner owner_of(const struct aligning *a, uint64_t key, size_t interval)
{
    const struct sighting *rows = a->sightings.items, what = {.key = key, .interval = interval};
    size_t low = 0, high = a->sightings.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_key(&rows[middle], &what) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (struct owner){low && rows[low - 1].key == key ? rows[low - 1].pid : 0,
                          low < a->sightings.n && rows[low].key == key ? rows[low].pid : 0};
}

enum whose { ITS, NOT_KNOWN, ONCE_ANOTHERS, ANOTHERS };

/* One sighting alone may be of a process that has ended, or begins later, with the same tables' memory. */
static enum whose whose_is(struct owner owner, int32_t pid)
{
    if (!owner.before && !owner.behind)
        return NOT_KNOWN;
    if (pid && (owner.before == pid || owner.behind == pid))
        return ITS;
    return owner.before == owner.behind ? ANOTHERS : ONCE_ANOTHERS;
}

/* ---- the order of both ---- */

/* What it costs to say that things went otherwise than the records have it. */
enum { PASSED_OVER = 2, ANOTHER_START = 2, NEVER = 1 << 28 };
static const uint8_t came_cost[] = {[ITS] = 0, [NOT_KNOWN] = 1, [ONCE_ANOTHERS] = 2, [ANOTHERS] = 12};
/* Its CR3 changed once more, and nothing tells why. */
static const uint8_t stay_cost[] = {[ITS] = 3, [NOT_KNOWN] = 4, [ONCE_ANOTHERS] = 5, [ANOTHERS] = 15};

/* One interval's changes, and the arrivals that may be theirs: the first one is of before it. */
struct table {
    size_t interval;
    const struct cofi__interval *row;
    const struct cofi__cr3_change *changes;
    const struct arrival *arrivals;
    size_t n;
    uint32_t *cells; /* of each change, behind a first row for none: what it costs at least that it is
                      * due to that arrival */
};

static uint32_t *cell(const struct table *t, size_t change, size_t arrival)
{
    return &t->cells[change * t->n + arrival];
}

/* That nothing of the trace shows an arrival, which is one of a process with the same space (vfork), say. */
static uint32_t pass_cost(const struct table *t, size_t arrival)
{
    const struct arrival *p = &t->arrivals[arrival];
    return p->quiet || p->ns <= with_slack(t->row->from_ns) || p->ns > without_slack(t->row->to_ns) ? 0 : PASSED_OVER;
}

/* At the beginning it is the one at the end of what came before, or one that was recorded about then. */
static void first_row(const struct aligning *a, const struct table *t)
{
    size_t begin = (size_t)(t->arrivals - (const struct arrival *)a->arrivals.items),
           last = a->last > begin ? a->last - begin : 0;
    struct owner owner = owner_of(a, t->row->key, t->interval);
    for (size_t s = 0; s < t->n; s++) {
        bool may_be = s == last || !s || t->arrivals[s].ns <= with_slack(t->row->from_ns);
        unsigned from = s == last ? 0 : ANOTHER_START;
        *cell(t, 0, s) = may_be ? came_cost[whose_is(owner, t->arrivals[s].pid)] + from : NEVER;
    }
}

static void next_row(const struct aligning *a, const struct table *t, size_t change)
{
    struct owner owner = owner_of(a, t->changes[change - 1].key, t->interval);
    uint32_t came = NEVER; /* the least to come from any arrival before this one */
    for (size_t s = 0; s < t->n; s++) {
        enum whose whose = whose_is(owner, t->arrivals[s].pid);
        uint32_t stay = *cell(t, change - 1, s) + stay_cost[whose], come = came + came_cost[whose];
        *cell(t, change, s) = stay < come ? stay : come;
        uint32_t from_here = *cell(t, change - 1, s), from_before = came + pass_cost(t, s);
        came = from_here < from_before ? from_here : from_before;
    }
}

static size_t least_end(const struct table *t)
{
    size_t best = t->n - 1;
    uint32_t cost = *cell(t, t->row->n, best), passed = 0;
    for (size_t s = t->n - 1; s--;) {
        passed += pass_cost(t, s + 1);
        if (*cell(t, t->row->n, s) + passed <= cost) {
            cost = *cell(t, t->row->n, s) + passed;
            best = s;
        }
    }
    return best;
}

/* Which arrival the change before was due to, if this one was due to s. */
static size_t come_from(const struct aligning *a, const struct table *t, size_t change, size_t s)
{
    enum whose whose = whose_is(owner_of(a, t->changes[change - 1].key, t->interval), t->arrivals[s].pid);
    uint32_t cost = *cell(t, change, s), passed = 0;
    if (*cell(t, change - 1, s) + stay_cost[whose] == cost)
        return s;
    for (size_t before = s; before--; passed += pass_cost(t, before))
        if (*cell(t, change - 1, before) + passed + came_cost[whose] == cost)
            return before;
    return s;
}

static struct cofi_time_bound *add_bound(struct aligning *a, uint64_t offset, const struct cofi__interval *row)
{
    struct cofi_time_bound *bound = cofi__vector_push(a->bounds);
    if (bound)
        *bound = (struct cofi_time_bound){offset, row->from, row->to};
    return bound;
}

/* Each change that is due to another arrival than the one before was no earlier than that. */
static int tell(struct aligning *a, const struct table *t)
{
    const struct cofi_time_conv *conv = &a->recording->info.time.conv;
    size_t first = a->bounds->n, s = least_end(t);
    a->last = (size_t)(t->arrivals - (const struct arrival *)a->arrivals.items) + s;
    for (size_t i = 0; i < t->row->n; i++)
        if (!add_bound(a, t->changes[i].offset, t->row))
            return COFI_ERR_NOMEM;
    struct cofi_time_bound *bounds = (struct cofi_time_bound *)a->bounds->items + first;
    for (size_t i = t->row->n; i; s = come_from(a, t, i, s), i--) {
        uint64_t ticks = t->arrivals[s].ns > t->row->from_ns ? cofi_time_ticks(conv, t->arrivals[s].ns) : 0;
        if (ticks > t->row->from)
            bounds[i - 1].least = ticks < t->row->to ? ticks : t->row->to - 1;
    }
    return 0;
}

/* Time that goes back and forth would have all arrivals in each interval. */
static bool has_room(struct aligning *a, const struct table *t)
{
    enum { CELLS_MOST = 1 << 20 };
    if (!t->n || !t->row->n || t->n > CELLS_MOST / (t->row->n + 1) || t->n * (t->row->n + 1) > a->cells_left)
        return false;
    a->cells_left -= t->n * (t->row->n + 1);
    return true;
}

static int align(struct aligning *a, struct table *t)
{
    size_t begin = arrivals_at(a, without_slack(t->row->from_ns)), end = arrivals_at(a, with_slack(t->row->to_ns));
    if (begin)
        begin--;
    t->arrivals = (const struct arrival *)a->arrivals.items + begin;
    t->n = end - begin;
    if (!has_room(a, t))
        return 0;
    uint32_t *cells = realloc(t->cells, t->n * (t->row->n + 1) * sizeof *cells);
    if (!cells)
        return COFI_ERR_NOMEM;
    t->cells = cells;
    first_row(a, t);
    for (size_t i = 1; i <= t->row->n; i++)
        next_row(a, t, i);
    return tell(a, t);
}

static int align_all(struct aligning *a)
{
    const struct cofi__interval *rows = a->spaces->intervals.items;
    struct table t = {0};
    int status = 0;
    for (size_t i = 0; i < a->spaces->intervals.n && status >= 0; i++) {
        t.interval = i;
        t.row = &rows[i];
        t.changes = (const struct cofi__cr3_change *)a->spaces->changes.items + rows[i].first;
        status = add_bound(a, rows[i].offset, &rows[i]) ? align(a, &t) : COFI_ERR_NOMEM;
    }
    free(t.cells);
    return status;
}

int cofi__align_spaces(struct cofi_recording *recording, int32_t cpu, const struct cofi__spaces *spaces,
                       struct cofi__vector *bounds)
{
    enum { CELLS_A_CHANGE = 1 << 12, CELLS_ALWAYS = 1 << 24 };
    struct aligning a = {.recording = recording, .cpu = cpu, .spaces = spaces, .bounds = bounds,
                         .cells_left = CELLS_ALWAYS + spaces->changes.n * CELLS_A_CHANGE,
                         .arrivals = COFI__VECTOR_OF(struct arrival), .sightings = COFI__VECTOR_OF(struct sighting)};
    int status = list_arrivals(&a);
    if (status >= 0)
        status = list_sightings(&a);
    if (status >= 0)
        status = align_all(&a);
    free(a.arrivals.items);
    free(a.sightings.items);
    return status;
}
