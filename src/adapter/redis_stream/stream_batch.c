/* ack, extend, retry_later: one command each for all messages of the batch. Hints: nothing depends
 * on them. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/panic.h"
#include <assert.h>

struct batch_call {
    struct stream_call c; /* first */
    struct queue_batch *b;
    int64_t idle_ms;
    bool extend;
    char key[72];
};
static_assert(sizeof(struct batch_call) <= sizeof(struct op_space), "op_space");

static struct batch_call *of(struct redis_call *c)
{
    return container_of(container_of(c, struct stream_call, call), struct batch_call, c);
}

static struct batch_call *start(struct queue *q, struct queue_batch *b)
{
    struct batch_call *x = (struct batch_call *)(void *)b->space.bytes;
    (void)q;
    if (b->n < 1 || b->n > 256)
        panic("queue batch: %d messages", b->n);
    *x = (struct batch_call){.b = b};
    b->done = 0;
    stream_key(b->item, x->key);
    return x;
}

static void put_ids(struct redis_writer *w, const struct queue_batch *b)
{
    for (int i = 0; i < b->n; i++)
        redis_put(w, str_of(b->messages[i]->id));
}

/* --- ack --- */
static void encode_ack(struct redis_call *c, struct redis_writer *w)
{
    struct batch_call *x = of(c);
    redis_put(w, STR("XACK"));
    redis_put(w, str_of(x->key));
    redis_put(w, str_of(x->c.s->group));
    put_ids(w, x->b);
}

static void on_acked(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct batch_call *x = of(c);
    stream_call_end(c);
    if (rc == 0)
        x->b->done = (int)reply->i;
    x->c.op->on_done(x->c.op, rc);
}

void stream_ack(struct queue *q, struct queue_batch *b)
{
    struct batch_call *x = start(q, b);
    x->c.call.name = "xack";
    x->c.call.key_at = 1;
    x->c.call.args = 3 + b->n;
    x->c.call.on_encode = encode_ack;
    x->c.call.on_reply = on_acked;
    stream_call_start(stream_of(q), &x->c, &b->op);
}

/* --- extend, retry_later: lease.lua, by the owner only --- */
static void encode_lease(struct redis_call *c, struct redis_writer *w)
{
    struct batch_call *x = of(c);
    redis_put(w, str_of(x->key));
    redis_put(w, str_of(x->c.s->group));
    redis_put(w, str_of(x->c.s->consumer));
    redis_put_i64(w, x->idle_ms);
    put_ids(w, x->b);
}

static void on_leased(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct batch_call *x = of(c);
    struct stream *s = x->c.s;
    stream_call_end(c);
    for (int i = 0; rc == 0 && i < x->b->n && i < (int)reply->s.len; i++) {
        if (reply->s.ptr[i] != '1')
            continue;
        x->b->done++;
        /* From before the call was sent: never longer than what Redis counts. */
        if (x->extend)
            x->b->messages[i]->lease_until_us = c->sent_us + s->c.lease_us;
    }
    struct stream_item *it = stream_find(s, x->b->item);
    if (rc == 0 && !x->extend && it) {
        int64_t at = loop_now_us(s->loop) + (stream_lease_ms(s) - x->idle_ms) * 1000;
        if (at < it->reclaim_at_us) {
            it->reclaim_at_us = at;
            stream_pump_later(s);
        }
    }
    x->c.op->on_done(x->c.op, rc);
}

static void start_lease(struct queue *q, struct queue_batch *b, int64_t idle_ms, bool extend)
{
    struct batch_call *x = start(q, b);
    x->idle_ms = idle_ms;
    x->extend = extend;
    x->c.call.script = &stream_script_lease;
    x->c.call.keys = 1;
    x->c.call.args = 4 + b->n;
    x->c.call.on_encode = encode_lease;
    x->c.call.on_reply = on_leased;
    stream_call_start(stream_of(q), &x->c, &b->op);
}

void stream_extend(struct queue *q, struct queue_batch *b)
{
    start_lease(q, b, 0, true);
}

void stream_retry_later(struct queue *q, struct queue_batch *b)
{
    int64_t lease_ms = stream_lease_ms(stream_of(q)), delay_ms = (b->delay_us + 999) / 1000;
    if (delay_ms < 0)
        delay_ms = 0;
    start_lease(q, b, delay_ms < lease_ms ? lease_ms - delay_ms : 0, false);
}
