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
    import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_CODE, .cpu = UINT32_MAX, .pid = ONLY, .tid = ONLY, .kernel = start >> 63,
                                                .addr = start, .len = end - start, .bytes = code->bytes + (start - code->start),
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

void import_raw_info(const struct session_options *options, struct cofi_recording_info *info)
{
    struct registers registers = options->registers;
    struct cofi_flow_config config = {.gen = options->gen};
    registers_apply(&registers, &config);
    *info = (struct cofi_recording_info){.size = sizeof *info, .gen = options->gen, .config = config.ctl, .family = options->family,
                                         .model = options->model, .stepping = options->stepping, .vendor = options->family ? "GenuineIntel" : NULL,
                                         .ranges_known = config.ranges_known, .time = {.tsc = true}};
    memcpy(info->range_base, config.range_base, sizeof info->range_base);
    memcpy(info->range_limit, config.range_limit, sizeof info->range_limit);
    if (options->gen == COFI_PT && !config.ctl)
        info->config = PT_TRACE_EN | PT_OS | PT_USER | PT_TOPA | PT_TSC_EN | PT_BRANCH_EN;
}

/* Whether a recording would tell the mode of the code: RTIT has no packet for it. */
static bool tells_mode(const struct import *import, enum cofi_gen gen, const struct file *bytes)
{
    return import->modules || (gen == COFI_PT && cofi_stream_guess_mode(bytes->bytes, bytes->n));
}

int import_raw(struct import *import, struct session *session, const struct session_options *options)
{
    struct ran ran = {.is_64_only = true};
    struct session_stream stream;
    struct file bytes = {0};
    const struct session_visitor visitor = {.blocks = take_blocks, .event = take_event, .opaque = &ran};
    session_stream(session, 0, &stream);
    int status = session_walk(&stream, &visitor);
    sort(&ran);
    import_tell(import, &(struct cofi_sideband){.kind = COFI_SB_COMM, .cpu = UINT32_MAX, .pid = ONLY, .tid = ONLY, .name = file_name(options->raw)});
    if (status >= 0)
        status = tell_pages(import, session, &ran);
    free(ran.pages);
    bytes.bytes = session_raw(session, &bytes.n);
    if (status >= 0)
        import_stream(import, options->raw, options->gen, &bytes, ONLY, ONLY);
    if (ran.gaps && import->bytes)
        import_lack(import, options->raw, "%" PRIu64 " gap%s: 'cofi check' tells where and why", ran.gaps, ran.gaps == 1 ? "" : "s");
    if (!ran.is_64_only && !tells_mode(import, options->gen, &bytes))
        import_lack(import, options->raw, "neither it nor an ELF file tells the mode of its code: in the recording it is 64-bit code");
    return status < 0 ? status : import->status;
}
