/* ack, extend, retry later: an operation on many messages is one step on each of them.
 *
 *   begin ─ each message: its turn ─► queued ─► sent ─► step end ─ the last one: on_done, deferred
 *                │ (an earlier step on it is under way)
 *                └ nothing to do: acked, given back or lost before: ends at once, not done
 *
 * Of one message the steps run one after the other, so that never two requests with handles of it
 * are under way. At the deadline, and on cancel, what was not sent ends; what was sent ends by its
 * own deadline, which is not later. */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

/* It is this step's turn on its message. */
static void run(struct rmq_step *s)
{
    struct rmq_slot *slot = s->slot;
    struct rmq_consumer *c = s->work->c;
    if (c->mq->ending) /* rmq_work_end comes */
        return;
    if (slot->hold == RMQ_HELD && s->work->kind != RMQ_WORK_ACK &&
        slot->m.lease_until_us <= rmq_consumer_now(c))
        rmq_slot_lose(slot); /* somebody else's by now: a change could open a second lease */
    if (slot->hold != RMQ_HELD)
        rmq_step_end(s, 0, false);
    else if (s->work->kind == RMQ_WORK_ACK)
        rmq_ack_add(s);
    else if (rmq_again_due(s))
        rmq_again_start(s);
    else
        rmq_change_add(s);
}

static void complete(struct rmq_work *w)
{
    struct queue_batch *b = w->b;
    int rc = w->unknown ? ERR_UNCERTAIN : w->failed_rc, done = w->done;
    struct rmq_consumer *c = w->c;
    sched_clear(loop_sched(c->mq->loop), &w->timer);
    loop_defer_cancel(&w->over);
    list_remove(&w->link);
    free(w);
    if (b) {
        b->done = done;
        b->op.on_done(&b->op, rc);
    }
}

static void on_over(struct loop_task *t)
{
    struct rmq_work *w = container_of(t, struct rmq_work, over);
    struct rmq_consumer *c = w->c;
    complete(w);
    rmq_consumer_moved(c);
}

void rmq_step_end(struct rmq_step *s, int rc, bool done)
{
    struct rmq_slot *slot = s->slot;
    struct rmq_work *w = s->work;
    bool had_turn = slot->steps.next == &s->link;
    list_remove(&s->queued);
    list_remove(&s->link);
    rmq_again_free(s);
    w->done += done;
    w->unknown |= err_is_unknown(rc);
    if (rc < 0 && w->failed_rc == 0)
        w->failed_rc = rc;
    if (--w->left == 0)
        loop_defer(w->c->mq->loop, &w->over);
    if (!had_turn)
        return;
    if (!list_empty(&slot->steps))
        run(container_of(slot->steps.next, struct rmq_step, link));
    else if (slot->released)
        rmq_slot_free(slot);
}

/* What was not sent ends with rc. */
static void end_unsent(struct rmq_work *w, int n, int rc)
{
    for (int i = 0; i < n && w->left; i++) {
        struct rmq_step *s = &w->steps[i];
        if (!list_empty(&s->link) && !s->sent)
            rmq_step_end(s, rc, false);
    }
}

static void on_deadline(struct timer *t)
{
    struct rmq_work *w = container_of(t, struct rmq_work, timer);
    end_unsent(w, w->n, ERR_DEADLINE);
}

static struct rmq_work *work_new(struct rmq_consumer *c, enum rmq_work_kind kind, int n)
{
    struct rmq_work *w = calloc(1, sizeof *w + (size_t)n * sizeof w->steps[0]);
    if (!w)
        panic("rocketmq: no memory for an operation on %d messages", n);
    w->c = c;
    w->kind = kind;
    w->n = w->left = n;
    w->timer.on_fire = on_deadline;
    w->over.on_run = on_over;
    list_init(&w->over.link);
    list_push_back(&c->works, &w->link);
    return w;
}

static void add(struct rmq_work *w, int i, struct rmq_slot *slot)
{
    struct rmq_step *s = &w->steps[i];
    s->work = w;
    s->slot = slot;
    list_init(&s->queued);
    bool idle = list_empty(&slot->steps);
    list_push_back(&slot->steps, &s->link);
    if (idle)
        run(s);
}

static void begin(struct queue *q, struct queue_batch *b, enum rmq_work_kind kind)
{
    struct rmq_consumer *c = rmq_consumer_of(q);
    if (b->n < 1 || b->n > 256)
        panic("queue batch: %d messages", b->n);
    b->done = 0;
    if (!c) {
        rmq_later_start(rmq_of(q), &b->space, &b->op, ERR_INVALID);
        return;
    }
    struct rmq_work *w = work_new(c, kind, b->n);
    w->b = b;
    w->deadline_us = b->op.deadline_us;
    if (kind == RMQ_WORK_EXTEND || b->delay_us > c->mq->c.lease_us)
        w->delay_us = c->mq->c.lease_us;
    else
        w->delay_us = b->delay_us > 0 ? b->delay_us : 0;
    sched_set(loop_sched(c->mq->loop), &w->timer, w->deadline_us);
    for (int i = 0; i < b->n; i++)
        add(w, i, rmq_slot_of(b->messages[i]));
}

void rmq_queue_ack(struct queue *q, struct queue_batch *b)
{
    begin(q, b, RMQ_WORK_ACK);
}

void rmq_queue_extend(struct queue *q, struct queue_batch *b)
{
    begin(q, b, RMQ_WORK_EXTEND);
}

void rmq_queue_retry_later(struct queue *q, struct queue_batch *b)
{
    begin(q, b, RMQ_WORK_LATER);
}

void rmq_work_give_back(struct rmq_consumer *c, struct rmq_slot **slots, int n)
{
    struct rmq_work *w = work_new(c, RMQ_WORK_LATER, n);
    w->deadline_us = rmq_consumer_now(c) + c->mq->c.request_us;
    sched_set(loop_sched(c->mq->loop), &w->timer, w->deadline_us);
    for (int i = 0; i < n; i++)
        add(w, i, slots[i]);
    for (int i = 0; i < n; i++)
        rmq_slot_free(slots[i]);
}

bool rmq_work_cancel(struct rmq_consumer *c, struct op *op)
{
    list_for_each (l, &c->works) {
        struct rmq_work *w = container_of(l, struct rmq_work, link);
        if (!w->b || &w->b->op != op)
            continue;
        end_unsent(w, w->n, ERR_CANCELED);
        return true;
    }
    return false;
}

void rmq_work_init(struct rmq_consumer *c)
{
    list_init(&c->works);
}

void rmq_work_end(struct rmq_consumer *c)
{
    list_for_each (l, &c->works) {
        struct rmq_work *w = container_of(l, struct rmq_work, link);
        for (int i = 0; i < w->n && w->left; i++) {
            struct rmq_step *s = &w->steps[i];
            if (!list_empty(&s->link))
                rmq_step_end(s, s->sent ? ERR_UNCERTAIN : ERR_CANCELED, false);
        }
    }
    while (!list_empty(&c->works))
        complete(container_of(c->works.next, struct rmq_work, link));
}
