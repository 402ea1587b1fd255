/* SPDX-License-Identifier: MIT
 * same-segments RECORDING TRUTH: two runs of one program that truly differ, compared segment by segment. TRUTH lists what
 * each thread ran in the one ("TID ADDRESS" lines), RECORDING is of the other. Where the lists part, the shortest way to
 * where they meet again is a difference. Exit 0: every difference lies in the vDSO, whose functions go round again when the
 * kernel has changed the time meanwhile. 1: there are others. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>
#include <cofi/trace.h>

enum { SAME = 64, FAR_MAX = 20000 }; /* instructions that make a meeting, and where to look for one */

struct list {
    int tid;
    uint64_t *ips;
    size_t n, max;
};

struct lists {
    struct list *list;
    size_t n;
};

static struct list *list_of(struct lists *lists, int tid)
{
    for (size_t i = lists->n; i-- > 0;)
        if (lists->list[i].tid == tid)
            return &lists->list[i];
    lists->list = realloc(lists->list, (lists->n + 1) * sizeof *lists->list);
    lists->list[lists->n] = (struct list){.tid = tid};
    return &lists->list[lists->n++];
}

static void add(struct list *l, uint64_t ip)
{
    if (l->n == l->max) {
        l->max = l->max ? 2 * l->max : 4096;
        l->ips = realloc(l->ips, l->max * sizeof *l->ips);
    }
    l->ips[l->n++] = ip;
}

static bool read_truth(struct lists *lists, const char *path)
{
    FILE *f = fopen(path, "r");
    char line[80];
    while (f && fgets(line, sizeof line, f)) {
        int tid;
        uint64_t ip;
        if (sscanf(line, "%d %" SCNx64, &tid, &ip) < 2)
            return false;
        add(list_of(lists, tid), ip);
    }
    return f && !fclose(f);
}

/* ---- the recording ---- */

static struct { uint64_t start, end; } vdso[64];
static size_t vdsos, gaps;

static void find_vdso(const struct cofi_recording *recording)
{
    const struct cofi_sideband *sb;
    for (size_t i = 0; (sb = cofi_recording_sideband(recording, i)); i++)
        if (sb->kind == COFI_SB_MMAP && sb->name && !strcmp(sb->name, "[vdso]") && vdsos < 64) {
            vdso[vdsos].start = sb->addr;
            vdso[vdsos++].end = sb->addr + sb->len;
        }
}

static bool in_vdso(uint64_t ip)
{
    for (size_t i = 0; i < vdsos; i++)
        if (ip >= vdso[i].start && ip < vdso[i].end)
            return true;
    return false;
}

static void walk(struct lists *lists, struct cofi_recording *recording, size_t i)
{
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, i);
    struct list *l = list_of(lists, s->tid);
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, info->gen);
    uint8_t *bytes = malloc(s->bytes + 1);
    for (uint64_t at = 0; at < s->bytes;) {
        size_t n;
        const uint8_t *p = cofi_recording_bytes(recording, i, at, &n);
        memcpy(bytes + at, p, n);
        at += n;
    }
    config.bytes = bytes;
    config.n = s->bytes;
    config.image = cofi_recording_image(recording, s->pid);
    config.time = info->time;
    config.reference_tsc = s->reference_tsc;
    config.ctl_known = true;
    config.ctl = info->config;
    if (cofi_flow_open(&flow, &config) < 0)
        exit(3);
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    while (cofi_flow_next(flow, &batch) > 0) {
        for (size_t e = 0; e < batch.events_n; e++)
            gaps += events[e].kind == COFI_FLOW_GAP || events[e].kind == COFI_FLOW_OVERFLOW;
        for (size_t b = 0; b < batch.blocks_n; b++)
            for (uint32_t k = 0; k < blocks[b]->n; k++)
                add(l, blocks[b]->insns[k].ip);
    }
    cofi_flow_close(flow);
    free(bytes);
}

/* ---- the comparison ---- */

static bool meet(const struct list *a, size_t i, const struct list *b, size_t j)
{
    size_t k = 0;
    while (k < SAME && i + k < a->n && j + k < b->n && a->ips[i + k] == b->ips[j + k])
        k++;
    return k == SAME || (k && i + k == a->n && j + k == b->n) || (i == a->n && j == b->n);
}

/* From where the lists part on: how much of each comes before they meet again. */
static bool find_meeting(const struct list *a, size_t *i, const struct list *b, size_t *j)
{
    for (size_t d = 1; d <= FAR_MAX; d++)
        for (size_t k = 0; k <= d; k++) {
            size_t x = *i + k, y = *j + d - k;
            if (x <= a->n && y <= b->n && meet(a, x, b, y)) {
                *i = x;
                *j = y;
                return true;
            }
        }
    return false;
}

static size_t skip_vdso(const struct list *l, size_t from, size_t to)
{
    while (from < to && in_vdso(l->ips[from]))
        from++;
    return from;
}

/* Do [i, i_end) and [j, j_end) differ in the vDSO only? Two calls that go round again soon after each other are one difference,
 * with what ran between them in it. */
static bool same_outside(const struct list *a, size_t i, size_t i_end, const struct list *b, size_t j, size_t j_end)
{
    for (;; i++, j++) {
        i = skip_vdso(a, i, i_end);
        j = skip_vdso(b, j, j_end);
        if (i == i_end || j == j_end)
            return i == i_end && j == j_end;
        if (a->ips[i] != b->ips[j])
            return false;
    }
}

static size_t in_clock, others, insns;

static void compare(const struct list *a, const struct list *b)
{
    size_t i = 0, j = 0;
    insns += b->n;
    while (i < a->n || j < b->n) {
        if (i < a->n && j < b->n && a->ips[i] == b->ips[j]) {
            i++, j++;
            continue;
        }
        size_t from_i = i, from_j = j;
        bool found = find_meeting(a, &i, b, &j);
        if (found && same_outside(a, from_i, i, b, from_j, j)) {
            in_clock++;
            continue;
        }
        others++;
        printf("thread %d: from instruction %zu at %016" PRIx64 " on the truth has %zu and the recording %zu instructions of their own%s\n",
               a->tid, from_i, from_i < a->n ? a->ips[from_i] : 0, found ? i - from_i : a->n - i, found ? j - from_j : b->n - j,
               found ? "" : ", and do not meet again");
        if (!found)
            return;
    }
}

int main(int argc, char **argv)
{
    struct lists truth = {0}, recorded = {0};
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    if (argc != 3 || !read_truth(&truth, argv[2]) || cofi_recording_open(&recording, argv[1], &error) < 0) {
        printf("cannot read: %s\n", error.text);
        return 3;
    }
    find_vdso(recording);
    for (size_t i = 0; i < cofi_recording_streams(recording); i++)
        walk(&recorded, recording, i);
    for (size_t i = 0; i < truth.n; i++)
        compare(&truth.list[i], list_of(&recorded, truth.list[i].tid));
    others += truth.n != recorded.n; /* another number of threads */
    printf("%zu instructions; differences: %zu in the vDSO, %zu others; %zu gaps\n", insns, in_clock,
           others, gaps);
    return others || gaps;
}
