/* The receive operations, the messages that wait for one, and who polls for how many.
 *
 *   wait ─► polls at each broker, for the free slots ─► messages into `ready` ─► on_done(0, n)
 *    ▲          │
 *    │          ├► nothing, an error while others poll: that broker again, after its pause
 *    │          └► an error, and nobody else polls: on_done(error)
 *    └ settled, route, tick, a slot is free
 *
 * A poll outlives the receive that caused it. So what it may still bring counts as asked for: the
 * next receive polls for that many less. A cancelled receive begins none and waits for those under
 * way: cut off, a poll strands what is popped for it, for seconds or for a whole lease. */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include "base/panic.h"
#include <assert.h>

/* A batch is there within 3–12 ms; one that hangs is handed over as it is. */
#define LINGER_US 20000
#define CANCEL_GRACE_US 1000000 /* beyond a poll's time, for those that a cancel waits for */
#define DEAD_SLOTS 4 /* dead letters are rare; their poll must not keep the others' slots */
#define DEAD_TURN 3  /* polls of the group, between two of the dead letters where slots are few */

struct receiving {
    struct list link;
    struct queue_receive *r;
    struct timer timer;
    struct rmq_consumer *c;
    bool canceled, usable;
};
static_assert(sizeof(struct receiving) <= sizeof(struct op_space), "op_space");

static struct receiving *first(const struct rmq_consumer *c)
{
    return list_empty(&c->receives) ? NULL : container_of(c->receives.next, struct receiving, link);
}

static void complete(struct receiving *x, int rc)
{
    struct queue_receive *r = x->r;
    struct rmq_consumer *c = x->c;
    sched_clear(loop_sched(c->mq->loop), &x->timer);
    list_remove(&x->link);
    if (r->n)
        metric_observe(c->m.batch_size, r->n);
    r->op.on_done(&r->op, rc);
}

/* A batch is on its way: more of it comes in a moment. */
static bool in_the_middle(const struct rmq_source *s)
{
    for (int i = 0; i < s->n_outlets; i++) {
        for (int k = 0; k < RMQ_POLLS; k++) {
            const struct rmq_poll *p = &s->outlets[i]->polls[k];
            if (p->busy && p->got > 0)
                return true;
        }
    }
    return false;
}

static bool more_is_coming(const struct rmq_consumer *c, const struct receiving *x)
{
    return in_the_middle(&c->group) || in_the_middle(&c->dead) || (x->canceled && rmq_polls_run(c));
}

/* --- handing over --- */
static void take_ready(struct rmq_consumer *c, struct receiving *x)
{
    /* What waited so long that little of its lease is left would only be dropped further on. */
    int64_t least = rmq_consumer_now(c) + c->mq->c.lease_us / 8;
    while (x->r->n < x->r->max && c->n_ready) {
        struct queue_message *m =
            container_of(list_pop_front(&c->ready), struct queue_message, link);
        c->n_ready--;
        if (m->lease_until_us <= least) {
            metric_add(c->m.expired, 1);
            rmq_slot_free(rmq_slot_of(m));
            continue;
        }
        list_push_back(&x->r->messages, &m->link);
        x->r->n++;
    }
}

static void hand_over(struct rmq_consumer *c, bool at_once)
{
    struct receiving *x;
    while ((x = first(c))) {
        take_ready(c, x);
        if (x->r->n == 0 && !(x->canceled && !rmq_polls_run(c)))
            break;
        if (x->r->n > 0 && x->r->n < x->r->max && !at_once && more_is_coming(c, x)) {
            if (!c->linger.slot)
                sched_set_in(loop_sched(c->mq->loop), &c->linger, LINGER_US);
            break;
        }
        complete(x, x->r->n ? 0 : ERR_CANCELED);
    }
    if (c->n_ready == 0 && (!x || x->r->n == 0))
        sched_clear(loop_sched(c->mq->loop), &c->linger);
}

static void on_linger(struct timer *t)
{
    struct rmq_consumer *c = container_of(t, struct rmq_consumer, linger);
    hand_over(c, true);
    rmq_receive_pump(c);
}

void rmq_receive_got(struct rmq_consumer *c, struct rmq_slot *slot)
{
    const struct receiving *x = first(c);
    list_push_back(&c->ready, &slot->m.link);
    c->n_ready++;
    if (!x || c->closing)
        return;
    if (x->r->n + c->n_ready >= x->r->max)
        rmq_receive_pump_later(c);
    else if (!c->linger.slot)
        sched_set_in(loop_sched(c->mq->loop), &c->linger, LINGER_US);
}

/* --- polling --- */
static struct rmq_poll *idle_poll(struct rmq_outlet *o)
{
    for (int i = 0; i < RMQ_POLLS; i++) {
        if (!o->polls[i].busy)
            return &o->polls[i];
    }
    return NULL;
}

/* May this one be polled now? *ch: where. */
static bool open_for(struct rmq_outlet *o, struct rmq_channel **ch)
{
    if (!o->present || o->polling >= (o->full && !o->source->dead ? RMQ_POLLS : 1) ||
        o->not_before_us > rmq_consumer_now(o->source->c))
        return false;
    *ch = rmq_outlet_channel(o, true);
    return *ch != NULL;
}

/* One round over the brokers: each gets its share of `want`. What was promised. */
static int poll_round(struct rmq_source *s, int want)
{
    struct rmq_channel *ch;
    int open = 0, promised = 0;
    for (int i = 0; i < s->n_outlets; i++)
        open += open_for(s->outlets[i], &ch);
    if (open == 0)
        return 0;
    assert(want > 0);
    int share = want / open > 1 ? want / open : 1;
    share = share < RMQ_POLL_BATCH ? share : RMQ_POLL_BATCH;
    for (int i = 0; i < s->n_outlets && promised < want; i++) {
        struct rmq_outlet *o = s->outlets[(s->turn + i) % s->n_outlets];
        if (!open_for(o, &ch))
            continue;
        int n = share < want - promised ? share : want - promised;
        rmq_poll_start(idle_poll(o), ch, n);
        promised += n;
    }
    s->turn = (s->turn + 1) % s->n_outlets;
    return promised;
}

static int wanted(const struct rmq_consumer *c)
{
    int n = -c->n_ready - c->group.promised;
    list_for_each (l, &c->receives) {
        const struct receiving *x = container_of(l, struct receiving, link);
        n += x->canceled ? 0 : x->r->max - x->r->n;
    }
    return n;
}

/* Dead letters get what the group leaves; but where it never leaves any, they have their turn now
 * and then. */
static void poll_dead(struct rmq_consumer *c, int left)
{
    int n = left / 2 < DEAD_SLOTS ? left / 2 : DEAD_SLOTS;
    if (left > 0 && poll_round(&c->dead, n > 0 ? n : 1) > 0)
        c->dead_polled_us = rmq_consumer_now(c);
}

static void begin_polls(struct rmq_consumer *c)
{
    if (rmq_consumer_now(c) - c->dead_polled_us > DEAD_TURN * c->mq->c.poll_us)
        poll_dead(c, rmq_slots_left(c));
    int want = wanted(c), left = rmq_slots_left(c), n;
    want = want < left ? want : left;
    while (want > 0 && (n = poll_round(&c->group, want)) > 0)
        want -= n;
    left = rmq_slots_left(c);
    if (left > 1)
        poll_dead(c, left);
}

static void set_tick(struct rmq_consumer *c)
{
    const struct rmq_source *const sources[] = {&c->group, &c->dead};
    int64_t now = rmq_consumer_now(c), next = INT64_MAX;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < sources[k]->n_outlets; i++) {
            const struct rmq_outlet *o = sources[k]->outlets[i];
            if (o->present && o->polling == 0 && o->not_before_us > now && o->not_before_us < next)
                next = o->not_before_us;
        }
    }
    if (next != INT64_MAX)
        sched_set(loop_sched(c->mq->loop), &c->tick, next);
}

void rmq_receive_pump(struct rmq_consumer *c)
{
    if (c->mq->ending || c->closing)
        return;
    hand_over(c, false);
    if (!first(c) || first(c)->canceled)
        return;
    begin_polls(c);
    set_tick(c);
}

static void on_pump(struct loop_task *t)
{
    rmq_receive_pump(container_of(t, struct rmq_consumer, pump));
}

static void on_tick(struct timer *t)
{
    rmq_receive_pump(container_of(t, struct rmq_consumer, tick));
}

void rmq_receive_pump_later(struct rmq_consumer *c)
{
    if (!c->mq->ending)
        loop_defer(c->mq->loop, &c->pump);
}

void rmq_receive_succeeded(struct rmq_consumer *c)
{
    list_for_each (l, &c->receives)
        container_of(l, struct receiving, link)->usable = true;
}

void rmq_receive_failed(struct rmq_consumer *c, int rc)
{
    struct receiving *x = first(c);
    /* What did come is handed over by the pump. */
    if (x && x->r->n == 0 && c->n_ready == 0 && rmq_source_polling(&c->group) == 0)
        complete(x, x->canceled ? ERR_CANCELED : rc);
}

/* --- the operation --- */
static void on_deadline(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, timer);
    struct rmq_consumer *c = x->c;
    take_ready(c, x);
    int rc = 0;
    if (x->r->n == 0 && x->canceled)
        rc = ERR_CANCELED;
    /* Nothing came because nobody could be asked: that is not an empty queue. */
    else if (x->r->n == 0 && !x->usable && rmq_source_polling(&c->group) == 0 &&
             rmq_slots_left(c) > 0)
        rc = ERR_UNAVAIL;
    complete(x, rc);
    rmq_receive_pump_later(c);
}

void rmq_queue_receive(struct queue *q, struct queue_receive *r)
{
    struct rmq_consumer *c = rmq_consumer_of(q);
    struct receiving *x = (struct receiving *)(void *)r->space.bytes;
    if (r->max < 1)
        panic("queue receive: max %d", r->max);
    if (!c) {
        r->n = 0;
        list_init(&r->messages);
        rmq_later_start(rmq_of(q), &r->space, &r->op, ERR_INVALID);
        return;
    }
    *x = (struct receiving){.r = r, .c = c, .timer = {.on_fire = on_deadline}};
    list_init(&r->messages);
    r->n = 0;
    list_push_back(&c->receives, &x->link);
    x->canceled = c->closing;
    sched_set(loop_sched(c->mq->loop), &x->timer, c->closing ? 0 : r->op.deadline_us);
    rmq_receive_pump_later(c);
}

bool rmq_receive_cancel(struct rmq_consumer *c, struct op *op)
{
    list_for_each (l, &c->receives) {
        struct receiving *x = container_of(l, struct receiving, link);
        if (&x->r->op != op)
            continue;
        x->canceled = true;
        int64_t wait = rmq_polls_run(c) ? c->mq->c.poll_us + CANCEL_GRACE_US : 0;
        sched_set_in(loop_sched(c->mq->loop), &x->timer, wait);
        return true;
    }
    return false;
}

void rmq_receive_give_back(struct rmq_consumer *c)
{
    while (c->n_ready) {
        struct rmq_slot *slots[RMQ_POLL_BATCH];
        int n = 0;
        while (c->n_ready && n < RMQ_POLL_BATCH) {
            struct queue_message *m =
                container_of(list_pop_front(&c->ready), struct queue_message, link);
            c->n_ready--;
            slots[n++] = rmq_slot_of(m);
        }
        rmq_work_give_back(c, slots, n);
    }
}

void rmq_receive_init(struct rmq_consumer *c)
{
    list_init(&c->receives);
    list_init(&c->ready);
    c->tick.on_fire = on_tick;
    c->linger.on_fire = on_linger;
    list_init(&c->pump.link);
    c->pump.on_run = on_pump;
}

void rmq_receive_end(struct rmq_consumer *c)
{
    struct list all;
    loop_defer_cancel(&c->pump);
    sched_clear(loop_sched(c->mq->loop), &c->tick);
    sched_clear(loop_sched(c->mq->loop), &c->linger);
    list_init(&all);
    list_splice_back(&all, &c->receives);
    while (!list_empty(&all)) {
        struct receiving *x = container_of(all.next, struct receiving, link);
        complete(x, x->r->n ? 0 : ERR_CANCELED);
    }
}
