/* A call's life on our side: admitted → waits → (session.c) → over. What ends without the server's
 * word ends through `done`, in a task of its own, so never inside the caller; what the server says
 * ends the call at once. */
#include "adapter/h2grpc/internal.h"

#include "base/panic.h"

static void finish(struct h2grpc_call *c, const struct h2grpc_end *end)
{
    struct h2grpc *ch = c->channel;
    grpc_metrics_call(&ch->metrics, end->rc, end->from_server,
                      loop_now_us(ch->loop) - c->queued_us);
    c->state = CALL_IDLE; /* before the callback: it may start the call again, or end its memory */
    c->on_end(c, end);
}

void h2_call_run_done(struct h2grpc *ch)
{
    struct list now;
    list_init(&now);
    list_splice_back(&now, &ch->done);
    for (struct list *n; (n = list_pop_front(&now)) != NULL;) {
        struct h2grpc_call *c = container_of(n, struct h2grpc_call, link);
        struct h2grpc_end end = {.rc = c->rc, .status = c->status, .message = str_of(c->why)};
        finish(c, &end);
    }
}

void h2_call_done_later(struct h2grpc_call *c, int rc, int status, const char *why)
{
    struct h2grpc *ch = c->channel;
    sched_clear(loop_sched(ch->loop), &c->timer);
    if (c->stream)
        h2_stream_drop(c->stream);
    c->state = CALL_DONE;
    c->rc = rc;
    c->status = status >= 0 ? status : grpc_status_of_rc(rc);
    c->why = why;
    list_push_back(&ch->done, &c->link);
    loop_defer(ch->loop, &ch->done_task);
    loop_flush_later(ch->loop, &ch->flush); /* reaps the stream */
}

void h2_call_end(struct h2grpc_stream *s, int rc, int status, struct str message, bool from_server)
{
    struct h2grpc_call *c = s->call;
    sched_clear(loop_sched(c->channel->loop), &c->timer);
    h2_stream_drop(s); /* `message` may be its text: it is reaped later */
    struct h2grpc_end end = {rc, status, message, from_server};
    finish(c, &end);
}

static void enqueue(struct h2grpc_call *c, bool first)
{
    struct h2grpc *ch = c->channel;
    c->state = CALL_WAITING;
    if (first)
        list_push_front(&ch->waiting, &c->link);
    else
        list_push_back(&ch->waiting, &c->link);
    ch->waiting_n++;
    metric_gauge_add(ch->metrics.pending, 1);
}

void h2_call_refused(struct h2grpc_stream *s, const char *why)
{
    struct h2grpc_call *c = s->call;
    struct h2grpc *ch = c->channel;
    if (c->tries >= RETRIES_MAX || s->wrote || ch->closing) {
        h2_call_done_later(c, ERR_UNAVAIL, -1, why);
        return;
    }
    c->tries++;
    c->sent_us = 0;
    metric_add(ch->metrics.retries, 1);
    h2_stream_rewind(s);
    enqueue(c, true);
    h2_channel_want(ch);
}

void h2_call_lost(struct h2grpc_stream *s, const char *why)
{
    if (s->begin >= s->on->taken) /* the kernel never took its HEADERS */
        h2_call_refused(s, why);
    else
        h2_call_done_later(s->call, ERR_UNCERTAIN, -1, why);
}

/* rc for a call that is not on the wire; on the wire the server may have acted. */
static void give_up(struct h2grpc_call *c, int rc, int status, const char *why)
{
    struct h2grpc *ch = c->channel;
    if (c->state == CALL_WAITING) {
        list_remove(&c->link);
        ch->waiting_n--;
        metric_gauge_add(ch->metrics.pending, -1);
        h2_call_done_later(c, rc, status, why);
    } else if (c->state == CALL_WIRE) {
        h2_session_reset(c->stream);
        h2_call_done_later(c, ERR_UNCERTAIN, status, why);
    }
}

static void on_deadline(struct timer *t)
{
    struct h2grpc_call *c = container_of(t, struct h2grpc_call, timer);
    bool no_link = c->state == CALL_WAITING && c->channel->failing;
    give_up(c, ERR_DEADLINE, GRPC_DEADLINE_EXCEEDED,
            no_link ? c->channel->error : "no answer within the deadline");
}

static bool metadata_fits(const struct h2grpc_call *c)
{
    if (c->n_metadata > METADATA_MAX || !c->path || c->path[0] != '/')
        return false;
    for (int i = 0; i < c->n_metadata; i++) {
        const char *name = c->metadata[i].name;
        struct str value = c->metadata[i].value;
        /* These are the client's own. */
        if (!*name || strcmp(name, "te") == 0 || strcmp(name, "content-type") == 0 ||
            strncmp(name, "grpc-", 5) == 0)
            return false;
        for (; *name; name++) {
            if (!((*name >= 'a' && *name <= 'z') || (*name >= '0' && *name <= '9') ||
                  strchr("-_.", *name)))
                return false;
        }
        for (size_t b = 0; b < value.len; b++) {
            if (value.ptr[b] < ' ' || value.ptr[b] > '~')
                return false;
        }
    }
    return true;
}

void h2grpc_start(struct h2grpc *ch, struct h2grpc_call *c)
{
    if (c->state != CALL_IDLE)
        panic("h2grpc_start: the call is under way already");
    c->channel = ch;
    c->stream = NULL;
    c->sent_us = 0;
    c->tries = 0;
    c->queued_us = loop_now_us(ch->loop);
    c->timer = (struct timer){.on_fire = on_deadline};
    list_init(&c->link);
    if (ch->closing) {
        h2_call_done_later(c, ERR_CANCELED, -1, "the channel ends");
    } else if (!metadata_fits(c)) {
        h2_call_done_later(c, ERR_INVALID, -1, "metadata or path that cannot be sent");
    } else if (ch->waiting_n >= ch->config.max_pending) {
        metric_add(ch->metrics.overload, 1);
        h2_call_done_later(c, ERR_OVERLOAD, -1, "too many calls wait");
    } else if (c->fail_fast && ch->failing) {
        ch->asked = true;
        h2_channel_want(ch);
        h2_call_done_later(c, ERR_UNAVAIL, -1, ch->error);
    } else {
        enqueue(c, false);
        if (c->deadline_us != INT64_MAX)
            sched_set(loop_sched(ch->loop), &c->timer, c->deadline_us);
        h2_channel_want(ch);
    }
}

void h2grpc_cancel(struct h2grpc_call *c)
{
    if (c->state == CALL_WAITING || c->state == CALL_WIRE)
        give_up(c, ERR_CANCELED, GRPC_CANCELLED, "canceled");
}

static bool may_write(const struct h2grpc_call *c)
{
    return (c->state == CALL_WAITING || c->state == CALL_WIRE) && c->streaming &&
           !(c->stream && c->stream->closing);
}

int h2grpc_write(struct h2grpc_call *c, struct str message)
{
    if (!may_write(c))
        return ERR_INVALID;
    struct h2grpc_stream *s = h2_stream_get(c->channel, c);
    int rc = s ? h2_stream_write(s, message) : ERR_OVERLOAD;
    if (rc) {
        metric_add(c->channel->metrics.overload, 1);
        return rc;
    }
    if (c->state == CALL_WIRE)
        h2_session_resume(s);
    return 0;
}

void h2grpc_close_send(struct h2grpc_call *c)
{
    if (!may_write(c))
        return;
    struct h2grpc_stream *s = h2_stream_get(c->channel, c);
    if (!s) { /* it would stay open for ever */
        metric_add(c->channel->metrics.overload, 1);
        give_up(c, ERR_OVERLOAD, -1, "no memory");
        return;
    }
    s->closing = true;
    if (c->state == CALL_WIRE)
        h2_session_resume(s);
}

void h2_call_cancel_all(struct h2grpc *ch)
{
    while (!list_empty(&ch->waiting))
        h2grpc_cancel(container_of(ch->waiting.next, struct h2grpc_call, link));
    list_for_each_safe (l, &ch->links) {
        struct h2_link *k = container_of(l, struct h2_link, node);
        while (!list_empty(&k->streams))
            h2grpc_cancel(container_of(k->streams.next, struct h2grpc_stream, link)->call);
    }
    while (!list_empty(&ch->done)) /* what a callback starts is refused into `done` as well */
        h2_call_run_done(ch);
}
