/* receive. Messages come by one fetch at a time: XREADGROUP of one stream, COUNT = free slots, in
 * fair rotation over the items that may have something, by turns with the takeover of ended leases.
 * Of a cluster's servers each has one of its own, so that one that does not answer keeps only its
 * own streams waiting; a receive that has something does not wait for the slower ones.
 *
 *   wait ─► RECLAIM (due) or READ (hot) ─► messages: next item, until the receive is full or each
 *    ▲                 │                   item was asked once ─► on_done(0, n)
 *    │                 ├► nothing: not hot any more; others took it: POSITION (XINFO) ─► wait
 *    │                 ├► NOGROUP: CREATE at 0, then again; no such stream: left to the bell
 *    └ bell, timer     └► error: on_done(error); what Redis handed to us comes back after its lease
 *
 * A fetch belongs to the queue, not to the receive that caused it: when the receive ends first
 * (deadline), what arrives later waits in `ready` for the next one, so nothing that was received is
 * lost to its lease. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/panic.h"
#include <assert.h>

#define POLL_US 10000 /* between looks at items that no bell listens to */
#define POLL_ITEMS 16 /* of them at once */
#define SHARE_LEAST 16

struct receiving {
    struct list link;
    struct queue_receive *r;
    struct timer timer;
    struct stream *s;
    bool canceled;
};
static_assert(sizeof(struct receiving) <= sizeof(struct op_space), "op_space");

static struct receiving *first(const struct stream *s)
{
    return list_empty(&s->receives) ? NULL : container_of(s->receives.next, struct receiving, link);
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

void stream_fetch_failed(struct stream *s, int rc)
{
    struct receiving *x = first(s);
    metric_add(s->receive_failures, 1);
    if (x)
        complete(x, x->r->n ? 0 : x->canceled ? ERR_CANCELED : rc);
}

/* --- what to do next --- */
/* A cluster's server that is away must not make the others' streams wait. */
static bool reached(const struct stream *s, struct stream_item *it, int64_t now)
{
    if (!s->cluster || redis_reaches(s->redis, str_of(it->key)))
        return true;
    stream_away(it, now);
    return false;
}

static struct stream_item *due(const struct stream *s, int64_t now)
{
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (it->reclaim_at_us <= now && stream_may_fetch(s, it) && reached(s, it, now))
            return it;
    }
    return NULL;
}

static struct stream_item *hottest(struct stream *s, int64_t now)
{
    for (int i = 0; i < s->n_hot; i++) {
        struct stream_item *it = container_of(s->hot.next, struct stream_item, hot_link);
        if (it->not_before_us <= now && stream_may_fetch(s, it) && reached(s, it, now))
            return it;
        list_remove(&it->hot_link);
        list_push_back(&s->hot, &it->hot_link);
    }
    return NULL;
}

static bool fetch_messages(struct stream *s, const struct receiving *x)
{
    int64_t now = loop_now_us(s->loop);
    int wanted = x->r->max - x->r->n, room = stream_room(s);
    room = wanted < room ? wanted : room;
    if (room < 1 || (x->r->n && s->visits > s->n_hot))
        return false;
    struct stream_item *hot = hottest(s, now), *ended = due(s, now);
    /* By turns: leases that end one after the other must not keep new messages waiting, nor the
     * other way round. */
    if (ended && !(hot && s->reclaimed_last)) {
        stream_fetch(s, ended, FETCH_RECLAIM, hot ? (room + 1) / 2 : room);
        return true;
    }
    s->reclaimed_last = false;
    if (!hot)
        return false;
    /* Each hot item its share of the receive: a deep backlog must not fill it before the others'
     * turn comes. */
    int share = room / s->n_hot;
    share = share > SHARE_LEAST ? share : SHARE_LEAST;
    s->position_turn = true;
    stream_fetch(s, hot, FETCH_READ, share < room ? share : room);
    return true;
}

/* For the bell only. */
static bool fetch_position(struct stream *s)
{
    int64_t now = loop_now_us(s->loop);
    if (s->cluster)
        return false;
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (!it->pos_known && !it->hot && it->not_before_us <= now) {
            s->position_turn = false;
            stream_fetch(s, it, FETCH_POSITION, 0);
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
        if (index++ < s->poll_turn || it->hot || stream_bell_hears(s, it))
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
        if (!stream_may_fetch(s, it)) /* the end of what is under way looks again */
            continue;
        if (it->hot && it->not_before_us < at)
            at = it->not_before_us;
        if (at < next)
            next = at;
        unheard |= !stream_bell_hears(s, it) && it->not_before_us <= loop_now_us(s->loop);
    }
    if (unheard && s->poll_at_us < next)
        next = s->poll_at_us;
    if (next != INT64_MAX && stream_room(s) > 0)
        sched_set(loop_sched(s->loop), &s->tick, next);
}

/* In a cluster a receive ends with the first that brings something: what others bring after that is
 * the next one's. */
static bool begin_fetches(struct stream *s, const struct receiving *x)
{
    if (x->canceled || x->r->n == x->r->max)
        return false;
    if (!s->cluster)
        return fetch_messages(s, x);
    bool begun = false;
    while (x->r->n == 0 && fetch_messages(s, x))
        begun = true;
    return begun;
}

void stream_pump(struct stream *s)
{
    struct receiving *x;
    if (!s->ending)
        stream_bell_arm_busy(s);
    while (!s->ending && (x = first(s))) {
        hand_over(s, x);
        if (s->n_fetches > 0 && (!s->cluster || x->canceled))
            return;
        if (s->n_hot > 0)
            poll_unheard(s);
        /* By turns with the reading, so that the bell gets to hear what was read empty although
         * there is always something to read. */
        if (!x->canceled && x->r->n == 0 && s->position_turn && fetch_position(s))
            return;
        bool begun = begin_fetches(s, x);
        if (begun && !s->cluster)
            return;
        if (x->r->n || x->canceled) {
            complete(x, x->r->n ? 0 : ERR_CANCELED);
            continue;
        }
        if (fetch_position(s))
            return;
        stream_bell_arm_idle(s);
        wait(s);
        return;
    }
}

static void on_tick(struct timer *t)
{
    struct stream *s = container_of(t, struct stream, tick);
    if (first(s))
        poll_unheard(s);
    stream_pump(s);
}

static void on_pump(struct loop_task *t)
{
    stream_pump(container_of(t, struct stream, pump));
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
        bool coming = s->promised > 0 && x == first(s);
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
