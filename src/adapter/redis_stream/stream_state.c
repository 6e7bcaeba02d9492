/* publish, locate, lag: one call each. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include <assert.h>
#include <stdio.h>

/* --- publish: the same form as the reserve script's XADD --- */
struct publish_call {
    struct stream_call c; /* first */
    struct queue_publish *p;
    char key[72];
};
static_assert(sizeof(struct publish_call) <= sizeof(struct op_space), "op_space");

static struct publish_call *publish_of(struct redis_call *c)
{
    return container_of(container_of(c, struct stream_call, call), struct publish_call, c);
}

static void encode_publish(struct redis_call *c, struct redis_writer *w)
{
    struct publish_call *x = publish_of(c);
    char mem[EVENT_MAX_BYTES];
    struct strbuf body;
    strbuf_init_fixed(&body, mem, sizeof mem);
    event_encode(x->p->event, false, &body);
    redis_put(w, STR("XADD"));
    redis_put(w, str_of(x->key));
    /* A stream that is not there is an item that is not there: made by warming only, never by a
     * late event. */
    redis_put(w, STR("NOMKSTREAM"));
    redis_put(w, STR("*"));
    redis_put(w, STR("b"));
    redis_put(w, strbuf_str(&body));
}

static void on_published(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct publish_call *x = publish_of(c);
    stream_call_end(c);
    if (rc == 0 && reply->type == REDIS_NIL)
        rc = ERR_UNAVAIL;
    else if (rc == 0)
        str_copy(x->p->queue_id, sizeof x->p->queue_id, reply->s);
    else if (stream_says(reply, "WRONGTYPE"))
        rc = ERR_UNAVAIL; /* refused, not unknown */
    x->c.op->on_done(x->c.op, rc);
}

void stream_publish(struct queue *q, struct queue_publish *p)
{
    struct publish_call *x = (struct publish_call *)(void *)p->space.bytes;
    *x = (struct publish_call){.p = p};
    p->queue_id[0] = '\0';
    stream_key(p->event->item, x->key);
    x->c.call.name = "xadd";
    x->c.call.key_at = 1;
    x->c.call.args = 6;
    x->c.call.on_encode = encode_publish;
    x->c.call.on_reply = on_published;
    stream_call_start(stream_of(q), &x->c, &p->op);
}

/* --- locate --- */
struct locate_call {
    struct stream_call c; /* first */
    struct queue_locate *l;
    char key[72];
};
static_assert(sizeof(struct locate_call) <= sizeof(struct op_space), "op_space");

static struct locate_call *locate_of(struct redis_call *c)
{
    return container_of(container_of(c, struct stream_call, call), struct locate_call, c);
}

static void encode_locate(struct redis_call *c, struct redis_writer *w)
{
    struct locate_call *x = locate_of(c);
    redis_put(w, str_of(x->key));
    redis_put(w, str_of(x->c.s->group));
    redis_put(w, str_of(x->l->queue_id));
}

static void on_located(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct locate_call *x = locate_of(c);
    stream_call_end(c);
    if (rc == 0) {
        static const int position[] = {QUEUE_WAITING, QUEUE_IN_HAND, QUEUE_PASSED};
        rc = reply->type == REDIS_INT && reply->i >= 0 && reply->i <= 2 ? position[reply->i]
                                                                        : ERR_INTERNAL;
    }
    x->c.op->on_done(x->c.op, rc);
}

void stream_locate(struct queue *q, struct queue_locate *l)
{
    struct locate_call *x = (struct locate_call *)(void *)l->space.bytes;
    *x = (struct locate_call){.l = l};
    stream_key(l->item, x->key);
    x->c.call.script = &stream_script_locate;
    x->c.call.keys = 1;
    x->c.call.args = 3;
    x->c.call.on_encode = encode_locate;
    x->c.call.on_reply = on_located;
    stream_call_start(stream_of(q), &x->c, &l->op);
}

/* --- lag --- */
struct lag_call {
    struct stream_call c; /* first */
    struct queue_lag *l;
    char key[72];
};
static_assert(sizeof(struct lag_call) <= sizeof(struct op_space), "op_space");

static struct lag_call *lag_of(struct redis_call *c)
{
    return container_of(container_of(c, struct stream_call, call), struct lag_call, c);
}

static void encode_lag(struct redis_call *c, struct redis_writer *w)
{
    struct lag_call *x = lag_of(c);
    redis_put(w, str_of(x->key));
    redis_put(w, str_of(x->c.s->group));
}

/* Over all items: the sum of what waits, the greatest age; left out as soon as one is unknown. */
static void show(struct stream *s)
{
    int64_t waiting = 0, age = 0;
    list_for_each (l, &s->items) {
        const struct stream_item *it = container_of(l, struct stream_item, link);
        if (it->waiting < 0) {
            metric_set_unknown(s->lag);
            metric_set_unknown(s->age);
            return;
        }
        waiting += it->waiting;
        age = it->age_ms > age ? it->age_ms : age;
    }
    metric_set(s->lag, waiting);
    metric_set(s->age, (age + 999) / 1000);
}

static int parse_lag(struct str text, struct queue_lag *l)
{
    int64_t v[5];
    for (int i = 0; i < 5; i++) {
        struct str word;
        text = str_split(text, ' ', &word);
        if (parse_i64(word, 0, INT64_MAX, &v[i]))
            return ERR_INTERNAL;
        if (v[0] == 1)
            return ERR_NOTFOUND; /* no stream: not empty, but gone */
    }
    l->waiting = v[1];
    l->in_hand = v[2];
    l->oldest_age_ms = 0;
    if (l->waiting || l->in_hand) { /* rule 26: 0 only when nothing is left */
        int64_t age = v[3] ? v[4] - v[3] : 1;
        l->oldest_age_ms = age < 1 ? 1 : age;
    }
    return 0;
}

static void on_lag(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct lag_call *x = lag_of(c);
    struct stream *s = x->c.s;
    stream_call_end(c);
    if (rc == 0)
        rc = parse_lag(reply->s, x->l);
    struct stream_item *it = stream_find(s, x->l->item);
    if (it) {
        it->waiting = rc == 0 ? x->l->waiting : -1;
        it->age_ms = rc == 0 ? x->l->oldest_age_ms : -1;
        show(s);
    }
    x->c.op->on_done(x->c.op, rc);
}

void stream_lag(struct queue *q, struct queue_lag *l)
{
    struct lag_call *x = (struct lag_call *)(void *)l->space.bytes;
    *x = (struct lag_call){.l = l};
    stream_key(l->item, x->key);
    x->c.call.script = &stream_script_backlog;
    x->c.call.keys = 1;
    x->c.call.args = 2;
    x->c.call.on_encode = encode_lag;
    x->c.call.on_reply = on_lag;
    stream_call_start(stream_of(q), &x->c, &l->op);
}
