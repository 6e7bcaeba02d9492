/* Housekeeping, one item after the other, at an interval: tidy.lua trims what everybody has acked
 * and removes consumers of dead lives. The clean end (redis_stream_close) runs the same over all
 * items once, our own consumer included. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/parse.h"

#define TIDY_US 1000000 /* one call's patience */
#define DEAD_LEASES 10  /* without a sign of life for this many leases: a dead life */

static void step(struct stream *s);
static void round_over(struct stream *s);

static void encode(struct redis_call *c, struct redis_writer *w)
{
    struct stream *s = container_of(c, struct stream, tidy.call);
    redis_put(w, str_of(s->tidy.item->key));
    redis_put(w, str_of(s->group));
    redis_put(w, str_of(s->consumer));
    redis_put_i64(w, DEAD_LEASES * stream_lease_ms(s));
    redis_put(w, s->tidy.closing ? STR("1") : STR("0"));
}

static struct stream_item *next_of(const struct stream *s, const struct stream_item *it)
{
    const struct list *l = it && !it->gone ? it->link.next : s->items.next;
    return l == &s->items ? NULL
                          : container_of((struct list *)(uintptr_t)l, struct stream_item, link);
}

static void begin(struct stream *s)
{
    s->tidy.closing = s->tidy.wanted;
    s->tidy.wanted = NULL;
    s->tidy.busy = true;
    s->tidy.item = next_of(s, NULL);
    if (s->tidy.item)
        step(s);
    else
        round_over(s);
}

static void round_over(struct stream *s)
{
    struct op *closing = s->tidy.closing;
    s->tidy.busy = false;
    s->tidy.closing = NULL;
    if (s->tidy.wanted && !s->ending)
        begin(s);
    else if (!closing && !s->ending)
        sched_set_in(loop_sched(s->loop), &s->tidy.timer, s->c.trim_interval_us);
    if (closing)
        closing->on_done(closing, s->ending ? ERR_CANCELED : 0);
}

static void on_tidied(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct stream *s = container_of(c, struct stream, tidy.call);
    struct stream_item *it = s->tidy.item, *next = next_of(s, it);
    struct str trimmed;
    int64_t n;
    if (rc == 0) {
        str_split(reply->s, ' ', &trimmed);
        if (parse_i64(trimmed, 0, INT64_MAX, &n) == 0)
            metric_add(s->trimmed, (uint64_t)n);
    }
    /* A gone item starts the round anew with the list as it is now; nothing of it is done twice
     * that matters. */
    s->tidy.item = it->gone ? NULL : next;
    stream_unref(s, it);
    if (s->ending || !s->tidy.item)
        round_over(s);
    else
        step(s);
}

static void step(struct stream *s)
{
    int64_t deadline = loop_now_us(s->loop) + TIDY_US;
    if (s->tidy.closing && s->tidy.closing->deadline_us < deadline)
        deadline = s->tidy.closing->deadline_us;
    s->tidy.call = (struct redis_call){.script = &stream_script_tidy,
                                       .keys = 1,
                                       .args = 5,
                                       .on_encode = encode,
                                       .on_reply = on_tidied,
                                       .deadline_us = deadline};
    stream_ref(s->tidy.item);
    redis_send(s->redis, &s->tidy.call);
}

static void on_timer(struct timer *t)
{
    struct stream *s = container_of(t, struct stream, tidy.timer);
    if (!s->tidy.busy)
        begin(s);
}

void redis_stream_close(struct queue *q, struct op *op)
{
    struct stream *s = stream_of(q);
    s->tidy.wanted = op;
    if (!s->tidy.busy) /* else the round that is under way begins it at its end */
        sched_set_in(loop_sched(s->loop), &s->tidy.timer, 0);
}

void stream_tidy_init(struct stream *s)
{
    s->tidy.timer.on_fire = on_timer;
    if (!s->c.publish_only)
        sched_set_in(loop_sched(s->loop), &s->tidy.timer, s->c.trim_interval_us);
}

void stream_tidy_end(struct stream *s)
{
    struct op *op = s->tidy.wanted;
    s->tidy.wanted = NULL;
    sched_clear(loop_sched(s->loop), &s->tidy.timer);
    if (op)
        op->on_done(op, ERR_CANCELED);
}
