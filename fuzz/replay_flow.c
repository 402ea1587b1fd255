/* SPDX-License-Identifier: MIT
 * cofi replay of any trace bytes over any code, whatever is told of the configuration: it ends, no crash, and no more is equal than was compared. The
 * input's head is the configuration and the code. */
#include <cofi/flow.h>
#include <cofi/unit.h>

#include "../cli/cli.h"
#include "../cli/replay.h"
#include "base/bytes.h"
#include "fuzz.h"

void complain(const char *format, ...) { (void)format; }

enum { HEAD = 32, CODE = 256, BASE = 0x401000 };

/* ---- a session of one stream in memory ---- */

struct session {
    struct cofi_flow_config flow;
    size_t piece;
};

const struct cofi_recording *session_recording(const struct session *session)
{
    (void)session;
    return NULL;
}

const uint8_t *session_bytes(const struct session_stream *stream, uint64_t offset, size_t *n)
{
    const struct session *s = stream->session;
    size_t left = offset < s->flow.n ? (size_t)(s->flow.n - offset) : 0;
    *n = left < s->piece ? left : s->piece;
    return s->flow.bytes + (s->flow.n - left);
}

void session_unneeded(struct session_stream *stream, uint64_t offset)
{
    (void)stream, (void)offset;
}

/* What stands before an event, then it. */
static int show(const struct cofi_flow_batch *batch, struct cofi_flow *flow, const struct session_visitor *visitor)
{
    size_t block = 0;
    int status = 0;
    for (size_t i = 0; i <= batch->events_n && !status; i++) {
        size_t until = i < batch->events_n ? batch->events[i].at : batch->blocks_n;
        if (until > block)
            status = visitor->blocks(visitor->opaque, flow, batch->blocks + block, until - block);
        block = until;
        if (!status && i < batch->events_n)
            status = visitor->event(visitor->opaque, flow, &batch->events[i]);
    }
    return status;
}

int session_walk(struct session_stream *stream, const struct session_visitor *visitor)
{
    static const struct cofi_flow_block *blocks[1024];
    static struct cofi_flow_event events[64];
    struct cofi_flow_batch batch = {.blocks = blocks, .blocks_max = 1024, .events = events, .events_max = 64};
    struct cofi_flow *flow;
    int status = cofi_flow_open(&flow, &stream->session->flow);
    if (status < 0)
        return status;
    while (!status && (status = cofi_flow_next(flow, &batch)) > 0)
        status = show(&batch, flow, visitor);
    cofi_flow_close(flow);
    return status < 0 ? status : 0;
}

/* ---- what is told ---- */

static void configure(struct cofi_flow_config *c, const uint8_t *head)
{
    static const uint8_t models[] = {0, 0x3d, 0x5e, 0x55, 0x8f, 0x97, 0x5c, 0x5f};
    cofi_flow_config_init(c, COFI_PT);
    c->mode = head[0] & 2 ? 32 : head[0] & 4 ? 16 : 64;
    c->family = 6;
    c->model = models[head[1] & 7];
    c->ctl_known = head[0] & 8;
    c->ctl = le64(head + 8);
    c->ranges_known = head[0] & 16;
    for (unsigned i = 0; i < RANGES_MAX; i++) {
        c->range_base[i] = BASE + head[16 + 2 * i];
        c->range_limit[i] = BASE + head[17 + 2 * i];
    }
}

static void differs(void *opaque, const struct replay_item *was, const struct replay_item *is)
{
    ++*(size_t *)opaque;
    MUST(was || is);
}

static void tell(struct replay_setup *setup, const struct cofi_flow_config *c, const uint8_t *head, size_t *differences)
{
    *setup = (struct replay_setup){.ctl_known = c->ctl_known, .ctl = c->ctl_known ? c->ctl : 0, .unfiltered = head[0] & 32,
        .errata = cofi_unit_errata(COFI_PT, c->family, c->model), .returns_pop = head[0] & 64, .deferred = head[0] & 128,
        .differs = differs, .opaque = differences};
    setup->ranges.known = c->ranges_known;
    setup->ranges.cfg = c->ctl & PT_ADDR_CFG;
    memcpy(setup->ranges.base, c->range_base, sizeof setup->ranges.base);
    memcpy(setup->ranges.limit, c->range_limit, sizeof setup->ranges.limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct session session = {.piece = 1 + (n > 2 ? data[2] : 0)};
    struct cofi_image *image;
    struct replay_setup setup;
    struct replay_result result;
    size_t differences = 0;
    if (n < HEAD + CODE || cofi_image_open(&image) < 0)
        return 0;
    cofi_image_map_bytes(image, 0, BASE, data + HEAD, CODE, "code");
    configure(&session.flow, data);
    session.flow.image = image;
    session.flow.bytes = data + HEAD + CODE;
    session.flow.n = n - HEAD - CODE;
    tell(&setup, &session.flow, data, &differences);
    struct session_stream stream = {.session = &session, .bytes = session.flow.n, .tid = -1, .cpu = -1, .comm = "fuzz"};
    int status = setup.ctl_known ? 0 : replay_setup_guess(&setup, &stream);
    if (status == 0)
        status = replay_stream(&stream, &setup, data[1] & 8, &result);
    MUST(status < 0 || (differences == result.differences && result.equal <= result.compared));
    if (status == 0 && result.wants_ranges && replay_setup_ranges(&setup, &stream) == 0)
        replay_stream(&stream, &setup, data[1] & 8, &result);
    cofi_image_close(image);
    return 0;
}
