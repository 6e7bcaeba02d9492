/* receive of the fake: arrives after half the latency, waits at the broker until something is
 * deliverable, answers half a latency later.
 *
 *   ON_ITS_WAY ─► WAITING ─► ANSWERING ─► on_done(0, n)
 *        │           │           └ deadline, or a lost reply: on_done(ERR_UNCERTAIN); what was
 *        │           │             taken is leased to us all the same
 *        └───────────┴ deadline: on_done(0, n = 0); cancel: ERR_CANCELED; scripted: that error */
#include "adapter/mem/mem_broker.h"

#include "base/err.h"
#include "base/panic.h"
#include <assert.h>
#include <stdlib.h>

enum { ON_ITS_WAY, WAITING, ANSWERING };

struct receiving {
    struct list link, waiter;
    struct timer timer;
    struct timer deadline;
    struct mem_queue *queue;
    struct queue_receive *r;
    struct mem_fault fault;
    int state, rc;
};

static_assert(sizeof(struct receiving) <= sizeof(struct op_space), "op_space");

static struct receiving *of(struct queue_receive *r)
{
    return (struct receiving *)(void *)r->space.bytes;
}

static void drop(struct receiving *x)
{
    struct list *l;
    while ((l = list_pop_front(&x->r->messages)))
        x->queue->port.ops->release(&x->queue->port, container_of(l, struct queue_message, link));
    x->r->n = 0;
}

static void finish(struct receiving *x, int rc)
{
    struct queue_receive *r = x->r;
    sched_clear(x->queue->broker->sched, &x->timer);
    sched_clear(x->queue->broker->sched, &x->deadline);
    list_remove(&x->link);
    list_remove(&x->waiter);
    if (rc < 0)
        drop(x);
    r->op.on_done(&r->op, rc);
}

static void on_answer(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, timer);
    bool lost = x->fault.kind == MEM_FAULT_REPLY_LOST || x->fault.kind == MEM_FAULT_REQUEST_LOST;
    finish(x, lost ? ERR_UNCERTAIN : x->rc);
}

static void answer(struct receiving *x, int rc)
{
    int64_t late = x->fault.kind == MEM_FAULT_REPLY_LATE ? x->fault.delay_us : 0;
    struct mem_broker *b = x->queue->broker;
    x->state = ANSWERING;
    x->rc = rc;
    list_remove(&x->waiter);
    x->timer.on_fire = on_answer;
    sched_set_in(b->sched, &x->timer, b->latency_us - b->latency_us / 2 + late);
}

static void on_deadline(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, deadline);
    finish(x, x->state == ANSWERING && x->r->n ? ERR_UNCERTAIN : 0);
}

static void on_arrive(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, timer);
    struct mem_broker *b = x->queue->broker;
    if (x->fault.kind == MEM_FAULT_NOT_DONE || x->fault.kind == MEM_FAULT_ANSWER) {
        answer(x, x->fault.kind == MEM_FAULT_NOT_DONE ? ERR_UNAVAIL : (int)x->fault.delay_us);
        return;
    }
    x->state = WAITING;
    list_push_back(&b->waiters, &x->waiter);
    mem_broker_wake(b);
}

void mem_receive_start(struct mem_queue *q, struct queue_receive *r)
{
    struct receiving *x = of(r);
    struct sched *s = q->broker->sched;
    if (r->max < 1)
        panic("queue receive: max %d", r->max);
    *x = (struct receiving){.queue = q,
                            .r = r,
                            .state = ON_ITS_WAY,
                            .fault = mem_faults_take(&q->link.faults, MEM_QUEUE_RECEIVE)};
    list_init(&r->messages);
    r->n = 0;
    list_init(&x->waiter);
    list_push_back(&q->receives, &x->link);
    int64_t held = x->fault.kind == MEM_FAULT_HELD_BACK ? x->fault.delay_us : 0;
    x->timer.on_fire = on_arrive;
    sched_set_in(s, &x->timer, q->broker->latency_us / 2 + held);
    x->deadline.on_fire = on_deadline;
    sched_set(s, &x->deadline, r->op.deadline_us > s->now_us ? r->op.deadline_us : s->now_us);
}

static void hand_over(struct receiving *x, struct mem_msg *m)
{
    struct mem_queue *q = x->queue;
    struct mem_broker *b = q->broker;
    struct mem_hand *h = mem_alloc(sizeof *h);
    m->state = MEM_MSG_IN_HAND;
    m->owner = q->number;
    m->deliveries++;
    mem_broker_lease(m, b->sched->now_us + b->lease_us);
    /* Counted from before the receive was sent: never longer than the broker's. */
    h->m.lease_until_us = m->lease_until_us - b->latency_us / 2;
    h->m.item = m->stream->item;
    h->m.body = (struct str){m->body, m->len};
    h->m.deliveries = m->deliveries;
    h->m.dead = b->dead_after > 0 && m->deliveries > b->dead_after;
    h->m.enqueued_ms = m->enqueued_ms;
    str_copy(h->m.id, sizeof h->m.id, str_of(m->id));
    h->msg = m;
    list_push_back(&q->hands, &h->all);
    list_push_back(&x->r->messages, &h->m.link);
    q->in_hand++;
    x->r->n++;
    if (x->fault.kind == MEM_FAULT_TWICE)
        mem_broker_lease(m, b->sched->now_us + 1); /* the next receive gets it again */
}

/* A fair share of each item: one message of each by turns, starting with the item after the last
 * one served. */
static void fill(struct receiving *x)
{
    struct mem_queue *q = x->queue;
    int idle = 0;
    bool expired_first = true;
    while (q->n_items && idle < q->n_items && x->r->n < x->r->max && q->in_hand < q->max_in_hand) {
        struct item item = q->items[q->next_item++ % q->n_items];
        struct mem_msg *m =
            mem_broker_take(q->broker, mem_broker_stream(q->broker, item), expired_first);
        idle = m ? 0 : idle + 1;
        expired_first = !expired_first;
        if (m)
            hand_over(x, m);
    }
    q->next_item = q->n_items ? q->next_item % q->n_items : 0;
}

static int64_t next_expiry(const struct mem_broker *b)
{
    int64_t next = INT64_MAX;
    list_for_each (l, &b->streams) {
        const struct mem_stream *s = container_of(l, struct mem_stream, link);
        next = s->next_expiry_us < next ? s->next_expiry_us : next;
    }
    return next;
}

void mem_receive_pump(struct mem_broker *b)
{
    /* The first waiter gets what there is; each is asked once, so that one without items does not
     * block the others. */
    list_for_each_safe (l, &b->waiters) {
        struct receiving *x = container_of(l, struct receiving, waiter);
        fill(x);
        if (x->r->n)
            answer(x, 0);
    }
    int64_t next = list_empty(&b->waiters) ? INT64_MAX : next_expiry(b);
    /* An expired one that no waiter wants (not its item) would fire for ever: look again a little
     * later. */
    if (next != INT64_MAX)
        sched_set(b->sched, &b->pump, next > b->sched->now_us ? next : b->sched->now_us + 10000);
}

static void on_canceled(struct timer *t)
{
    struct receiving *x = container_of(t, struct receiving, timer);
    finish(x, x->r->n ? 0 : ERR_CANCELED);
}

bool mem_receive_cancel(struct mem_queue *q, struct op *op)
{
    list_for_each (l, &q->receives) {
        struct receiving *x = container_of(l, struct receiving, link);
        if (&x->r->op != op)
            continue;
        list_remove(&x->waiter);
        x->state = ANSWERING;
        x->timer.on_fire = on_canceled;
        sched_set_in(q->broker->sched, &x->timer, 0);
        return true;
    }
    return false;
}

void mem_receive_end_all(struct mem_queue *q)
{
    while (!list_empty(&q->receives))
        finish(container_of(q->receives.next, struct receiving, link), ERR_CANCELED);
}
