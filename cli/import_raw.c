/* SPDX-License-Identifier: MIT
 * A raw stream and its images -> a recording with the code that ran. */
#include "import.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "session.h"

enum { PAGE = 4096, ONLY = 1 /* process and thread */ };

/* Pages where something ran; the first `sorted` in order, once each. */
struct ran {
    uint64_t *pages;
    size_t n, room, sorted;
    uint64_t gaps;
    bool is_64_only;
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort(struct ran *ran)
{
    size_t kept = 0;
    if (ran->n)
        qsort(ran->pages, ran->n, sizeof *ran->pages, compare);
    for (size_t i = 0; i < ran->n; i++)
        if (!i || ran->pages[i] != ran->pages[kept - 1])
            ran->pages[kept++] = ran->pages[i];
    ran->n = ran->sorted = kept;
}

/* As many again as there are different ones come before they are sorted: so memory does not grow with the trace. */
static int add(struct ran *ran, uint64_t page)
{
    if (ran->n && ran->pages[ran->n - 1] == page)
        return 0;
    if (ran->n == ran->room && ran->n > 1000 && ran->sorted < ran->n / 2)
        sort(ran);
    if (!array_grow(&ran->pages, ran->n, &ran->room, sizeof *ran->pages))
        return COFI_ERR_NOMEM;
    ran->pages[ran->n++] = page;
    return 0;
}

static int take_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct ran *ran = opaque;
    (void)flow;
    for (size_t i = 0; i < n; i++) {
        ran->is_64_only &= blocks[i]->mode == 64;
        for (uint64_t page = blocks[i]->ip / PAGE; page <= (blocks[i]->end - 1) / PAGE; page++)
            if (add(ran, page) < 0)
                return COFI_ERR_NOMEM;
    }
    return 0;
}

static int take_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct ran *ran = opaque;
    (void)flow;
    ran->gaps += event->kind == COFI_FLOW_GAP;
    return 0;
}

/* ---- the code there ---- */

/* ELF files that were told. */
struct told {
    struct cofi_code *codes;
    size_t n, room;
};

static int tell_elf(struct import *import, struct told *told, const struct cofi_code *code)
{
    for (size_t i = 0; i < told->n; i++)
        if (told->codes[i].base == code->base && !strcmp(told->codes[i].path, code->path))
            return 0;
    if (!array_grow(&told->codes, told->n, &told->room, sizeof *told->codes))
        return COFI_ERR_NOMEM;
    told->codes[told->n++] = *code;
    import_elf(import, &(struct import_module){.path = code->path, .slide = code->base}, ONLY);
    return 0;
}

static void tell_bytes(struct import *import, const struct cofi_code *code, uint64_t start, uint64_t end)
{
    uint64_t behind = code->end - end;
    import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_CODE,
                                                .cpu = UINT32_MAX,
                                                .pid = ONLY,
                                                .tid = ONLY,
                                                .kernel = start >> 63,
                                                .addr = start,
                                                .len = end - start,
                                                .bytes = code->bytes + (start - code->start),
                                                .ahead = behind < COFI_CODE_AHEAD ? behind : COFI_CODE_AHEAD});
    import->code += end - start;
}

static int tell_page(struct import *import, struct cofi_view *view, struct told *told, uint64_t page)
{
    struct cofi_code code;
    uint64_t end = page * PAGE + PAGE;
    for (uint64_t at = page * PAGE; at != end;) {
        uint64_t next = at + 1;
        if (cofi_view_find(view, at, &code) >= 0) {
            next = code.end - 1 < end - 1 ? code.end : end;
            if (!code.mode)
                tell_bytes(import, &code, at, next);
            else if (tell_elf(import, told, &code) < 0)
                return COFI_ERR_NOMEM;
        }
        at = next;
    }
    return import->status;
}

static int tell_pages(struct import *import, const struct session *session, const struct ran *ran)
{
    struct told told = {0};
    struct cofi_view *view;
    int status = cofi_view_open(&view, session_image(session, 0));
    if (status < 0)
        return status;
    for (size_t i = 0; status >= 0 && i < ran->n; i++)
        status = tell_page(import, view, &told, ran->pages[i]);
    free(told.codes);
    cofi_view_close(view);
    return status;
}

/* ---- all ---- */

/* What a packet's being there says of IA32_RTIT_CTL. */
static uint64_t enabled_by(unsigned kind)
{
    static const uint64_t enables[] = {
        [COFI_PT_TNT] = PT_BRANCH_EN,   [COFI_PT_TNT64] = PT_BRANCH_EN,  [COFI_PT_TIP] = PT_BRANCH_EN,
        [COFI_PT_TSC] = PT_TSC_EN,      [COFI_PT_MTC] = PT_MTC_EN,       [COFI_PT_CYC] = PT_CYC_EN,
        [COFI_PT_PTW] = PT_PTW_EN,      [COFI_PT_MWAIT] = PT_PWR_EVT_EN, [COFI_PT_PWRE] = PT_PWR_EVT_EN,
        [COFI_PT_PWRX] = PT_PWR_EVT_EN, [COFI_PT_CFE] = PT_EVENT_EN,     [COFI_PT_EVD] = PT_EVENT_EN,
    };
    return kind < sizeof enables / sizeof enables[0] ? enables[kind] : 0;
}

/* What all packets say of it. *n: without the mark that some put behind their streams. */
static uint64_t enabled(const uint8_t *bytes, size_t *n)
{
    uint64_t ctl = PT_TRACE_EN | PT_OS | PT_USER | PT_TOPA;
    struct cofi_stream stream;
    struct cofi_stream_item item = {0};
    cofi_stream_init(&stream, COFI_PT, 0, false);
    cofi_stream_feed(&stream, bytes, *n);
    cofi_stream_finish(&stream);
    while (cofi_stream_next(&stream, &item))
        ctl |= item.status ? 0 : enabled_by(item.packet.kind);
    *n = (size_t)(item.offset + item.size);
    return ctl;
}

void import_raw_info(struct session *session, const struct session_options *options, struct file *trace,
                     struct cofi_recording_info *info)
{
    struct registers registers = options->registers;
    struct cofi_flow_config config = {.gen = options->gen};
    struct session_stream stream;
    session_stream(session, 0, &stream);
    registers_apply(&registers, &config);
    *trace = (struct file){0};
    trace->bytes = session_raw(session, &trace->n);
    /* Cycle_Acc */
    uint64_t shown = options->gen == COFI_PT ? enabled(trace->bytes, &trace->n) : (uint64_t)session_cyc(&stream) << 1;
    *info = (struct cofi_recording_info){.size = sizeof *info,
                                         .gen = options->gen,
                                         .config = config.ctl_known ? config.ctl : shown,
                                         .family = options->family,
                                         .model = options->model,
                                         .stepping = options->stepping,
                                         .vendor = options->family ? "GenuineIntel" : NULL,
                                         .ranges_known = config.ranges_known,
                                         .events = config.events};
    info->time.tsc = options->gen == COFI_RTIT || (info->config & PT_TSC_EN);
    info->time.cyc = info->config & PT_CYC_EN; /* of RTIT: the same bit */
    memcpy(info->range_base, config.range_base, sizeof info->range_base);
    memcpy(info->range_limit, config.range_limit, sizeof info->range_limit);
}

/* The last outcomes, which were read from a register of RTIT's [RTIT 4.2.11]. */
static void put_tail(struct import *import, const struct session_options *options)
{
    struct registers registers = options->registers;
    struct cofi_flow_config config = {.gen = options->gen};
    registers_apply(&registers, &config);
    if (config.tail && import->status >= 0)
        import->status = cofi_writer_trace(import->writer, ONLY, ONLY, config.tail, config.tail_n, 0);
}

/* Whether a recording would tell the mode of the code: RTIT has no packet for it. */
static bool tells_mode(const struct import *import, enum cofi_gen gen, const struct file *bytes)
{
    return import->modules || (gen == COFI_PT && cofi_stream_guess_mode(bytes->bytes, bytes->n));
}

int import_raw(struct import *import, struct session *session, const struct session_options *options,
               const struct file *trace)
{
    struct ran ran = {.is_64_only = true};
    struct session_stream stream;
    const struct session_visitor visitor = {.blocks = take_blocks, .event = take_event, .opaque = &ran};
    session_stream(session, 0, &stream);
    import->status = session_walk(&stream, &visitor);
    sort(&ran);
    import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = UINT32_MAX, .pid = ONLY, .tid = ONLY,
                                                .name = file_name(options->raw)});
    if (import->status >= 0)
        import->status = tell_pages(import, session, &ran);
    free(ran.pages);
    import_stream(import, options->raw, options->gen, trace, ONLY, ONLY);
    put_tail(import, options);
    if (ran.gaps && import->bytes)
        import_lack(import, options->raw, "%" PRIu64 " gap%s: 'cofi check' tells where and why", ran.gaps,
                    ran.gaps == 1 ? "" : "s");
    if (!ran.is_64_only && !tells_mode(import, options->gen, trace))
        import_lack(import, options->raw,
                    "neither it nor an ELF file tells the mode of its code: in the recording it is 64-bit code");
    return import->status;
}
