/* SPDX-License-Identifier: MIT
 * RECORDING TRUTH -> does the decoded flow list the same instructions, thread by thread? Exit 0:
 * yes; 1: the first difference is printed. Lines marked "int" may be missing from the flow (PT does
 * not show them). */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cofi/flow.h>
#include <cofi/trace.h>

struct list {
    int tid;
    uint64_t *ips;
    bool *soft;
    size_t n, max, at;
};

static struct list *lists;
static size_t lists_n;

static struct list *list_of(int tid, bool make)
{
    for (size_t i = lists_n; i-- > 0;)
        if (lists[i].tid == tid)
            return &lists[i];
    if (!make)
        return NULL;
    lists = realloc(lists, (lists_n + 1) * sizeof *lists);
    lists[lists_n] = (struct list){.tid = tid};
    return &lists[lists_n++];
}

static bool read_truth(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[80];
    if (!f)
        return false;
    while (fgets(line, sizeof line, f)) {
        int tid;
        uint64_t ip;
        char word[8] = "";
        if (sscanf(line, "%d %" SCNx64 " %7s", &tid, &ip, word) < 2)
            return false;
        struct list *l = list_of(tid, true);
        if (l->n == l->max) {
            l->max = l->max ? 2 * l->max : 1024;
            l->ips = realloc(l->ips, l->max * sizeof *l->ips);
            l->soft = realloc(l->soft, l->max * sizeof *l->soft);
        }
        l->soft[l->n] = !strcmp(word, "int");
        l->ips[l->n++] = ip;
    }
    fclose(f);
    return true;
}

/* One instruction of the flow against the list. */
static bool match(struct list *l, uint64_t ip)
{
    while (l->at < l->n && l->ips[l->at] != ip && l->soft[l->at])
        l->at++;
    if (l->at < l->n && l->ips[l->at] == ip) {
        l->at++;
        return true;
    }
    printf("thread %d, instruction %zu: flow has %016" PRIx64 ", truth %016" PRIx64 "\n", l->tid,
           l->at, ip, l->at < l->n ? l->ips[l->at] : 0);
    for (size_t i = l->at > 4 ? l->at - 4 : 0; i < l->n && i < l->at + 3; i++)
        printf("  truth %zu %016" PRIx64 "\n", i, l->ips[i]);
    return false;
}

static int bad, gaps;

static void walk(const struct cofi_recording *recording, size_t i)
{
    const struct cofi_recording_info *info = cofi_recording_info(recording);
    const struct cofi_recording_stream *s = cofi_recording_stream(recording, i);
    struct list none = {.tid = s->tid}, *l = list_of(s->tid, false);
    struct cofi_flow_config config;
    struct cofi_flow *flow;
    cofi_flow_config_init(&config, info->gen);
    uint8_t *bytes = malloc(s->bytes + 1);
    for (uint64_t at = 0; at < s->bytes;) {
        size_t n;
        const uint8_t *p = cofi_recording_bytes(recording, i, at, &n);
        if (!n)
            break;
        memcpy(bytes + at, p, n);
        at += n;
    }
    config.bytes = bytes;
    config.n = s->bytes;
    config.image = cofi_recording_image((struct cofi_recording *)(uintptr_t)recording, s->pid);
    config.time = info->time;
    config.reference_tsc = s->reference_tsc;
    config.ctl_known = true;
    config.ctl = info->config;
    if (!l)
        l = &none;
    if (cofi_flow_open(&flow, &config) < 0) {
        bad = 1;
        return;
    }
    const struct cofi_flow_block *blocks[COFI_FLOW_BATCH_MIN];
    struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {
        .blocks = blocks, .blocks_max = COFI_FLOW_BATCH_MIN, .events = events, .events_max = 64};
    bool good = true;
    while (good && cofi_flow_next(flow, &batch) > 0) {
        size_t e = 0;
        for (size_t b = 0; b <= batch.blocks_n && good; b++) {
            for (; e < batch.events_n && events[e].at <= b; e++)
                if (events[e].kind == COFI_FLOW_GAP || events[e].kind == COFI_FLOW_OVERFLOW) {
                    printf("thread %d: gap at offset %" PRIx64 " ip %" PRIx64
                           ": %s, after instruction %zu of %zu\n",
                           s->tid, events[e].offset, events[e].ip,
                           events[e].text ? events[e].text : "overflow", l->at, l->n);
                    gaps++;
                }
            if (b < batch.blocks_n)
                for (uint32_t k = 0; k < blocks[b]->n && good; k++)
                    good = match(l, blocks[b]->insns[k].ip);
        }
    }
    while (good && l->at < l->n && l->soft[l->at])
        l->at++;
    if (good && l->at != l->n) {
        printf("thread %d: flow ends at instruction %zu of %zu\n", s->tid, l->at, l->n);
        good = false;
    }
    bad |= !good;
    cofi_flow_close(flow);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct cofi_recording *recording;
    struct cofi_error error = {0};
    if (argc != 3 || !read_truth(argv[2]) || cofi_recording_open(&recording, argv[1], &error) < 0) {
        printf("cannot read: %s\n", error.text);
        return 3;
    }
    for (size_t i = 0; cofi_recording_warning(recording, i); i++)
        printf("warning: %s\n", cofi_recording_warning(recording, i));
    for (size_t i = 0; i < cofi_recording_streams(recording); i++)
        walk(recording, i);
    size_t total = 0;
    for (size_t i = 0; i < lists_n; i++) {
        total += lists[i].n;
        if (lists[i].at != lists[i].n) {
            printf("thread %d: %zu of %zu instructions matched\n", lists[i].tid, lists[i].at,
                   lists[i].n);
            bad = 1;
        }
    }
    printf("%s: %zu instructions of %zu threads, %d gaps\n", bad || gaps ? "differs" : "equal",
           total, lists_n, gaps);
    return bad || gaps;
}
