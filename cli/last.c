/* SPDX-License-Identifier: MIT
 * A stream and a number -> the PSB from which as many instructions ran, and how many more. */
#include "last.h"

static int count(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    uint64_t *insns = opaque;
    (void)flow;
    for (size_t i = 0; i < n; i++)
        *insns += blocks[i]->n;
    return 0;
}

static int no_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    (void)opaque;
    (void)flow;
    (void)event;
    return 0;
}

int last_find(struct session *session, size_t i, uint64_t n)
{
    enum { BACK = 1 << 20 };
    struct session_stream stream;
    session_stream(session, i, &stream);
    for (uint64_t back = 1, all = stream.bytes, start = UINT64_MAX;; back = back < BACK ? BACK : back * 8) {
        uint64_t psb = back < all ? session_psb(&stream, all - back, false) : 0, insns = 0;
        if (psb == UINT64_MAX)
            psb = 0;
        if (psb == start) /* the same again */
            continue;
        start = psb;
        session_start(session, i, start, 0);
        session_stream(session, i, &stream);
        int status = session_walk(&stream, &(struct session_visitor){count, no_event, NULL, &insns});
        if (status < 0)
            return status;
        if (insns >= n || !start) {
            session_start(session, i, start, insns > n ? insns - n : 0);
            return 0;
        }
    }
}
