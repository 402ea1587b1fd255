/* SPDX-License-Identifier: MIT
 * A thread's streams, one after the other, or its turns on processors -> a run of a diff. */
#include "diff_feed.h"

static int pause(int status) { return status < 0 ? status : SESSION_PAUSE; }

/* Threads that were there before it, and those behind it, may have its number; where no time is told, nobody knows. */
static bool is_its_turn(const struct diff_feed *feed)
{
    const struct thread *thread = feed->thread;
    if (!feed->merge)
        return true;
    bool lives = !feed->now_ns || (feed->now_ns >= thread->since && feed->now_ns < thread->over);
    return lives && feed->processor && feed->processor->tid == thread->tid;
}

static int show_blocks(void *opaque, struct cofi_flow *flow, const struct cofi_flow_block *const *blocks, size_t n)
{
    struct diff_feed *feed = opaque;
    return is_its_turn(feed) ? pause(cofi_diff_blocks(feed->diff, feed->run, cofi_flow_view(flow), blocks, n)) : 0;
}

static int show_event(void *opaque, struct cofi_flow *flow, const struct cofi_flow_event *event)
{
    struct diff_feed *feed = opaque;
    if (event->time.known && event->time.ns > feed->now_ns)
        feed->now_ns = event->time.ns;
    return is_its_turn(feed) ? cofi_diff_event(feed->diff, feed->run, cofi_flow_view(flow), event) : 0;
}

static int show_stream(void *opaque, struct session_stream *stream)
{
    ((struct diff_feed *)opaque)->processor = stream;
    return 0;
}

/* The next stream of its own, which does not follow the one before. 1; 0: there is none; or an error. */
static int open_next(struct diff_feed *feed)
{
    if (feed->next == feed->thread->streams_n)
        return 0;
    bool first = !feed->next;
    session_stream(feed->session, feed->thread->streams[feed->next++], &feed->stream);
    int status = walk_open(&feed->walk, &feed->stream, false, true);
    if (status >= 0 && !first)
        status = cofi_diff_event(feed->diff, feed->run, cofi_flow_view(walk_flow(feed->walk)),
                                 &(struct cofi_flow_event){.kind = COFI_FLOW_GAP, .ip = COFI_NO_IP});
    return status < 0 ? status : 1;
}

static int more_of_streams(struct diff_feed *feed, const struct session_visitor *visitor)
{
    for (;;) {
        int status = feed->walk ? 1 : open_next(feed);
        if (status <= 0)
            return status;
        status = walk_show(feed->walk, visitor, UINT64_MAX);
        if (status < 0 || status == WALK_PAUSED)
            return status < 0 ? status : 1;
        walk_close(feed->walk);
        feed->walk = NULL;
    }
}

static int more_of_processors(struct diff_feed *feed, const struct session_visitor *visitor)
{
    int status = feed->merge ? 0 : merge_open(&feed->merge, feed->session, feed->thread->since);
    if (status < 0)
        return status;
    bool past = feed->thread->until != UINT64_MAX && merge_is_past(feed->merge, feed->thread->until, feed->thread->tid);
    return past ? 0 : merge_step(feed->merge, visitor);
}

int diff_feed_more(struct diff_feed *feed)
{
    const struct session_visitor visitor = {.blocks = show_blocks, .event = show_event, .opaque = feed,
                                            .stream = show_stream};
    return session_per_processor(feed->session) ? more_of_processors(feed, &visitor) : more_of_streams(feed, &visitor);
}

void diff_feed_end(struct diff_feed *feed)
{
    walk_close(feed->walk);
    merge_close(feed->merge);
    cofi_view_close(feed->view);
}

/* The flow's own view may be closed already. */
static struct cofi_view *view_now(struct diff_feed *feed)
{
    const struct cofi_image *image = session_image(feed->session, feed->thread->pid);
    if (!feed->view && (!image || cofi_view_open(&feed->view, image) < 0))
        return NULL;
    return cofi_view_advance(feed->view, feed->now_ns, NULL, NULL) < 0 ? NULL : feed->view;
}

void diff_feed_symbol(struct diff_feed *feed, uint64_t ip, bool want_line, struct cofi_symbol *symbol)
{
    struct cofi_view *view = view_now(feed);
    *symbol = (struct cofi_symbol){0};
    if (view)
        cofi_view_symbol(view, ip, want_line, symbol);
    symbol->name = cofi_demangle(session_names(feed->session), symbol->name);
}
