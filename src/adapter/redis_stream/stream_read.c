/* receive. Messages come by one fetch at a time: XREADGROUP of one stream, COUNT = free slots, in
 * fair rotation over the items that may have something, by turns with the takeover of ended leases.
 *
 *   wait ─► RECLAIM (due) ─┬► messages ─► next item, until the receive is full or each was asked
 * once ─► on_done(0, n) ▲   ► READ (hot)  ───┤ │                    ├► nothing: not hot any more ─►
 * POSITION (others took it: XINFO tells where they stand) │                    ├► NOGROUP: CREATE
 * at 0, then again; no such stream: left to the bell └ bell, timer ◄──────┘► error: on_done(error);
 * what Redis may have handed to us comes back after the lease
 *
 * A fetch belongs to the queue, not to the receive that caused it: when the receive ends first
 * (deadline), what arrives later waits in `ready` for the next one, so nothing that was received is
 * lost to its lease. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/log.h"
#include "base/panic.h"
#include "base/parse.h"
#include <assert.h>

#define FETCH_US 1000000   /* a fetch that takes longer is unknown */
#define INTERVAL_US 250000 /* between looks for ended leases while something is pending */
#define POLL_US 10000      /* between looks at items that no bell listens to */
#define POLL_ITEMS 16      /* of them at once */
#define BROKEN_US 1000000  /* a key of another type is not asked before this */

struct receiving {
    struct list link;
    struct queue_receive *r;
    struct timer timer;
    struct stream *s;
    bool canceled;
};
static_assert(sizeof(struct receiving) <= sizeof(struct op_space), "op_space");

static void pump(struct stream *s);

static struct receiving *first(const struct stream *s)
{
    return list_empty(&s->receives) ? NULL : container_of(s->receives.next, struct receiving, link);
}

static int64_t interval_us(const struct stream *s)
{
    return s->c.lease_us / 4 < INTERVAL_US ? s->c.lease_us / 4 : INTERVAL_US;
}

static void reclaim_by(struct stream_item *it, int64_t at_us)
{
    if (at_us < it->reclaim_at_us)
        it->reclaim_at_us = at_us;
}

static void complete(struct receiving *x, int rc)
{
    struct queue_receive *r = x->r;
    struct stream *s = x->s;
    sched_clear(loop_sched(s->loop), &x->timer);
    list_remove(&x->link);
    s->visits = 0;
    if (r->n)
        metric_observe(s->batch_size, r->n);
    r->op.on_done(&r->op, rc);
}

/* --- messages into slots --- */
static struct str body_of(const struct redis_reply *fields)
{
    for (size_t i = 0; fields && fields->type == REDIS_ARRAY && i + 1 < fields->n; i += 2) {
        if (str_eq(fields->items[i]->s, STR("b")))
            return fields->items[i + 1]->s;
    }
    return STR(""); /* malformed: the worker's decoder refuses it and stores it as a dead letter
                       (rule 24) */
}

static void take(struct stream *s, struct stream_item *it, struct str id, int64_t deliveries,
                 const struct redis_reply *fields)
{
    struct list *l = list_pop_front(&s->free_slots);
    if (!l) /* more than COUNT: not Redis. It stays pending and comes back. */
        return;
    struct stream_slot *slot = container_of(l, struct stream_slot, free_link);
    struct str body = body_of(fields), ms;
    if (body.len > STREAM_BODY_MAX) {
        metric_add(s->cut_bodies, 1);
        body.len = STREAM_BODY_MAX;
    }
    s->n_free--;
    metric_gauge_add(s->in_hand, 1);
    memcpy(slot->body, body.ptr, body.len);
    slot->m = (struct queue_message){.item = it->item,
                                     .body = {slot->body, body.len},
                                     .deliveries = (int)deliveries,
                                     .lease_until_us = s->fetch.call.sent_us + s->c.lease_us};
    str_copy(slot->m.id, sizeof slot->m.id, id);
    str_split(id, '-', &ms);
    if (parse_i64(ms, 0, INT64_MAX, &slot->m.enqueued_ms))
        slot->m.enqueued_ms = 0;
    list_push_back(&s->ready, &slot->m.link);
    s->n_ready++;
    it->used = true;
}

static void hand_over(struct stream *s, struct receiving *x)
{
    int64_t now = loop_now_us(s->loop);
    while (x->r->n < x->r->max && s->n_ready) {
        struct queue_message *m =
            container_of(list_pop_front(&s->ready), struct queue_message, link);
        s->n_ready--;
        if (m->lease_until_us <= now) { /* waited too long for somebody to take it */
            s->port.ops->release(&s->port, m);
            continue;
        }
        list_push_back(&x->r->messages, &m->link);
        x->r->n++;
    }
}

/* --- fetches --- */
static void put_z(struct redis_writer *w, const char *z)
{
    redis_put(w, str_of(z));
}

static void encode_fetch(struct redis_call *c, struct redis_writer *w)
{
    struct stream *s = container_of(c, struct stream, fetch.call);
    switch (s->fetch.kind) {
    case FETCH_READ:
        put_z(w, "XREADGROUP");
        put_z(w, "GROUP");
        put_z(w, s->group);
        put_z(w, s->consumer);
        put_z(w, "COUNT");
        redis_put_i64(w, s->fetch.count);
        put_z(w, "STREAMS");
        put_z(w, s->fetch.item->key);
        put_z(w, ">");
        break;
    case FETCH_RECLAIM:
        put_z(w, s->fetch.item->key);
        put_z(w, s->group);
        put_z(w, s->consumer);
        redis_put_i64(w, stream_lease_ms(s));
        redis_put_i64(w, s->fetch.count);
        break;
    case FETCH_POSITION:
        put_z(w, "XINFO");
        put_z(w, "GROUPS");
        put_z(w, s->fetch.item->key);
        break;
    case FETCH_CREATE:
        put_z(w, "XGROUP");
        put_z(w, "CREATE");
        put_z(w, s->fetch.item->key);
        put_z(w, s->group);
        put_z(w, "0");
        break;
    }
}

static void on_fetched(struct redis_call *c, int rc, const struct redis_reply *reply);

static void fetch(struct stream *s, struct stream_item *it, int kind, int count)
{
    static const struct {
        const char *name;
        struct redis_script *script;
        int keys, args;
    } how[] = {[FETCH_READ] = {"xreadgroup", NULL, 0, 9},
               [FETCH_RECLAIM] = {NULL, &stream_script_reclaim, 1, 5},
               [FETCH_POSITION] = {"xinfo", NULL, 0, 3},
               [FETCH_CREATE] = {"xgroup", NULL, 0, 5}};
    struct stream_fetch *f = &s->fetch;
    f->call = (struct redis_call){.script = how[kind].script,
                                  .name = how[kind].name,
                                  .keys = how[kind].keys,
                                  .args = how[kind].args,
                                  .on_encode = encode_fetch,
                                  .on_reply = on_fetched,
                                  .deadline_us = loop_now_us(s->loop) + FETCH_US};
    f->item = stream_ref(it);
    f->kind = kind;
    f->count = count;
    f->busy = true;
    if (kind == FETCH_READ) {
        it->rung = false;
        s->visits++;
    }
    redis_send(s->redis, &f->call);
}

/* There is no such stream: nothing to read until somebody makes it; then the bell rings for its
 * first entry. */
static void absent(struct stream *s, struct stream_item *it)
{
    stream_cool(s, it);
    str_copy(it->pos, sizeof it->pos, STR("0-0"));
    it->pos_known = true;
    it->reclaim_at_us = loop_now_us(s->loop) + s->c.lease_us;
}

static void fail(struct stream *s, int rc)
{
    struct receiving *x = first(s);
    metric_add(s->receive_failures, 1);
    if (x)
        complete(x, x->r->n ? 0 : x->canceled ? ERR_CANCELED : rc);
}

static void broken(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    static struct log_limit limit;
    uint64_t suppressed;
    it->not_before_us = loop_now_us(s->loop) + BROKEN_US;
    it->reclaim_at_us = it->not_before_us;
    metric_add(s->receive_failures, 1);
    if (log_allowed(&limit, loop_now_us(s->loop), &suppressed))
        log_error("event stream is unusable", LOG_I("activity_id", it->item.activity_id),
                  LOG_I("sku_id", it->item.sku_id), LOG_S("error", reply->s),
                  LOG_I("suppressed", (int64_t)suppressed));
}

static void entries_read(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    const struct redis_reply *entries = NULL;
    if (reply->type == REDIS_ARRAY && reply->n == 1 && reply->items[0]->n == 2)
        entries = reply->items[0]->items[1];
    size_t n = entries && entries->type == REDIS_ARRAY ? entries->n : 0;
    for (size_t i = 0; i < n; i++) {
        const struct redis_reply *e = entries->items[i];
        if (e->type != REDIS_ARRAY || e->n != 2)
            continue;
        take(s, it, e->items[0]->s, 1, e->items[1]);
        str_copy(it->pos, sizeof it->pos, e->items[0]->s);
    }
    it->pos_known = n > 0;
    if (n)
        reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
    bool more = (int)n >= s->fetch.count || it->rung;
    stream_cool(s, it);
    if (more)
        stream_heat(s, it); /* to the end of the rotation */
}

static void leases_taken(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    int64_t now = loop_now_us(s->loop);
    if (reply->type != REDIS_ARRAY || reply->n != 3 || reply->items[2]->type != REDIS_ARRAY) {
        it->reclaim_at_us = now + BROKEN_US;
        return;
    }
    const struct redis_reply *taken = reply->items[2];
    for (size_t i = 0; i < taken->n; i++) {
        const struct redis_reply *e = taken->items[i];
        if (e->type == REDIS_ARRAY && e->n == 3)
            take(s, it, e->items[0]->s, e->items[1]->i, e->items[2]);
    }
    metric_add(s->reclaimed, taken->n);
    s->reclaimed_last = taken->n > 0;
    int64_t wait = reply->items[1]->i * 1000, most = interval_us(s);
    if ((int)taken->n >= s->fetch.count)
        it->reclaim_at_us = now;
    else if (reply->items[0]->i > 0)
        it->reclaim_at_us = now + (wait < 2000 ? 2000 : wait < most ? wait : most);
    else {
        /* Nothing is pending for anybody: look again in a lease's time. That one read more is the
         * backstop for whatever a bell could miss (a stream made anew with earlier ids). */
        it->reclaim_at_us = now + s->c.lease_us;
        stream_heat(s, it);
    }
}

static void position_told(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    for (size_t i = 0; reply->type == REDIS_ARRAY && i < reply->n; i++) {
        const struct redis_reply *g = reply->items[i];
        bool ours = false;
        for (size_t k = 0; k + 1 < g->n; k += 2) {
            const struct redis_reply *v = g->items[k + 1];
            if (str_eq(g->items[k]->s, STR("name")))
                ours = str_eq(v->s, str_of(s->group));
            else if (ours && str_eq(g->items[k]->s, STR("pending")) && v->i > 0)
                reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
            else if (ours && str_eq(g->items[k]->s, STR("last-delivered-id")))
                it->pos_known = str_copy(it->pos, sizeof it->pos, v->s);
        }
        if (ours)
            return;
    }
    fetch(s, it, FETCH_CREATE, 0);
}

static void answered(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    switch (s->fetch.kind) {
    case FETCH_READ:
        entries_read(s, it, reply);
        break;
    case FETCH_RECLAIM:
        leases_taken(s, it, reply);
        break;
    case FETCH_POSITION:
        position_told(s, it, reply);
        break;
    case FETCH_CREATE:
        stream_heat(s, it);
        break;
    }
}

static void refused(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    if (stream_says(reply, "NOGROUP"))
        fetch(s, it, FETCH_CREATE, 0);
    else if (stream_says(reply, "BUSYGROUP"))
        stream_heat(s, it);
    else if (s->fetch.kind == FETCH_CREATE || s->fetch.kind == FETCH_POSITION) {
        if (stream_says(reply, "WRONGTYPE"))
            broken(s, it, reply);
        else
            absent(s, it); /* "requires the key to exist", "no such key" */
    } else {
        broken(s, it, reply);
    }
}

static void on_fetched(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct stream *s = container_of(c, struct stream, fetch.call);
    struct stream_item *it = s->fetch.item;
    s->fetch.busy = false;
    if (s->ending)
        ;
    else if (rc == 0)
        answered(s, it, reply);
    else if (rc == ERR_INTERNAL && reply)
        refused(s, it, reply);
    else {
        reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
        fail(s, rc);
    }
    stream_unref(s, it);
    if (!s->ending)
        pump(s);
}

/* --- what to do next --- */
static struct stream_item *due(const struct stream *s, int64_t now)
{
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (it->reclaim_at_us <= now)
            return it;
    }
    return NULL;
}

static struct stream_item *hottest(struct stream *s, int64_t now)
{
    for (int i = 0; i < s->n_hot; i++) {
        struct stream_item *it = container_of(s->hot.next, struct stream_item, hot_link);
        if (it->not_before_us <= now)
            return it;
        list_remove(&it->hot_link);
        list_push_back(&s->hot, &it->hot_link);
    }
    return NULL;
}

static bool fetch_messages(struct stream *s, const struct receiving *x)
{
    int64_t now = loop_now_us(s->loop);
    int room = x->r->max - x->r->n < s->n_free ? x->r->max - x->r->n : s->n_free;
    if (room < 1 || (x->r->n && s->visits > s->n_hot))
        return false;
    struct stream_item *hot = hottest(s, now), *ended = due(s, now);
    /* By turns: leases that end one after the other must not keep new messages waiting, nor the
     * other way round. */
    if (ended && !(hot && s->reclaimed_last)) {
        fetch(s, ended, FETCH_RECLAIM, hot ? (room + 1) / 2 : room);
        return true;
    }
    s->reclaimed_last = false;
    if (hot)
        fetch(s, hot, FETCH_READ, room);
    return hot != NULL;
}

static bool fetch_position(struct stream *s)
{
    int64_t now = loop_now_us(s->loop);
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (!it->pos_known && it->not_before_us <= now) {
            fetch(s, it, FETCH_POSITION, 0);
            return true;
        }
    }
    return false;
}

/* Items without a bell (new ones, a lost connection) are looked at in small numbers instead. */
static void poll_unheard(struct stream *s)
{
    int64_t now = loop_now_us(s->loop);
    int index = 0, heated = 0;
    if (now < s->poll_at_us)
        return;
    s->poll_at_us = now + POLL_US;
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (index++ < s->poll_turn || stream_bell_hears(s, it))
            continue;
        stream_heat(s, it);
        if (++heated == POLL_ITEMS)
            break;
    }
    s->poll_turn = index < s->n_items ? index : 0;
}

static void wait(struct stream *s)
{
    int64_t next = INT64_MAX;
    bool unheard = false;
    list_for_each (l, &s->items) {
        const struct stream_item *it = container_of(l, struct stream_item, link);
        int64_t at = it->reclaim_at_us;
        if (it->hot && it->not_before_us < at)
            at = it->not_before_us;
        if (at < next)
            next = at;
        unheard |= !stream_bell_hears(s, it) && it->not_before_us <= loop_now_us(s->loop);
    }
    if (unheard && s->poll_at_us < next)
        next = s->poll_at_us;
    if (next != INT64_MAX && s->n_free)
        sched_set(loop_sched(s->loop), &s->tick, next);
}

static void pump(struct stream *s)
{
    struct receiving *x;
    while (!s->ending && (x = first(s))) {
        hand_over(s, x);
        if (s->fetch.busy)
            return;
        if (!x->canceled && x->r->n < x->r->max && fetch_messages(s, x))
            return;
        if (x->r->n || x->canceled) {
            complete(x, x->r->n ? 0 : ERR_CANCELED);
            continue;
        }
        if (fetch_position(s))
            return;
        stream_bell_arm(s);
        wait(s);
        return;
    }
}

static void on_tick(struct timer *t)
{
    struct stream *s = container_of(t, struct stream, tick);
    if (first(s))
        poll_unheard(s);
    pump(s);
}

static void on_pump(struct loop_task *t)
{
    pump(container_of(t, struct stream, pump));
}

void stream_pump_later(struct stream *s)
{
    if (!s->ending)
        loop_defer(s->loop, &s->pump);
}

/* --- the operation --- */
static void on_deadline(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, timer);
    struct stream *s = x->s;
    complete(x, x->canceled && !x->r->n ? ERR_CANCELED : 0);
    stream_pump_later(s);
}

void stream_receive(struct queue *q, struct queue_receive *r)
{
    struct stream *s = stream_of(q);
    struct receiving *x = (struct receiving *)(void *)r->space.bytes;
    if (r->max < 1)
        panic("queue receive: max %d", r->max);
    *x = (struct receiving){.r = r, .s = s, .timer = {.on_fire = on_deadline}};
    list_init(&r->messages);
    r->n = 0;
    list_push_back(&s->receives, &x->link);
    sched_set(loop_sched(s->loop), &x->timer, r->op.deadline_us);
    stream_pump_later(s);
}

bool stream_receive_cancel(struct stream *s, struct op *op)
{
    list_for_each (l, &s->receives) {
        struct receiving *x = container_of(l, struct receiving, link);
        if (&x->r->op != op)
            continue;
        x->canceled = true;
        /* What is being fetched for it comes first, so that nothing received is dropped; its reply
         * ends the receive. */
        bool coming = s->fetch.busy && x == first(s) && s->fetch.kind <= FETCH_RECLAIM;
        if (!coming)
            sched_set(loop_sched(s->loop), &x->timer, 0);
        return true;
    }
    return false;
}

void stream_read_init(struct stream *s)
{
    list_init(&s->receives);
    list_init(&s->ready);
    s->tick.on_fire = on_tick;
    list_init(&s->pump.link);
    s->pump.on_run = on_pump;
}

void stream_read_end(struct stream *s)
{
    struct receiving *x;
    loop_defer_cancel(&s->pump);
    sched_clear(loop_sched(s->loop), &s->tick);
    while ((x = first(s)))
        complete(x, x->r->n ? 0 : ERR_CANCELED);
}
