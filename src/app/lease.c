#include "app/lease.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include <stdlib.h>

enum { EXTEND_BATCH = 256 };

struct extension {
    struct worker *w;
    struct queue_batch op;
    int n;
    struct work *works[EXTEND_BATCH];
    struct queue_message *messages[EXTEND_BATCH];
};

static int64_t period_us(const struct worker *w)
{
    int64_t p = w->cfg.lease_margin_us / 4;
    return p < 20000 ? 20000 : p > 500000 ? 500000 : p;
}

static void on_extended(struct op *op, int rc)
{
    struct extension *x = container_of(op, struct extension, op.op);
    struct worker *w = x->w;
    crashpoint("after_extend");
    if (rc >= 0)
        metric_add(w->metrics.extended, (uint64_t)x->op.done);
    for (int i = 0; i < x->n; i++)
        hand_unpin(x->works[i]);
    free(x);
    worker_op_ended(w);
}

static void extend(struct extension *x)
{
    struct worker *w = x->w;
    for (int i = 0; i < x->n; i++) {
        x->messages[i] = x->works[i]->m;
        x->works[i]->extended++;
        hand_pin(x->works[i]);
    }
    x->op = (struct queue_batch){.op = {on_extended, worker_store_deadline(w)},
                                 .item = x->works[0]->e.item,
                                 .messages = x->messages,
                                 .n = x->n};
    worker_op_begun(w);
    crashpoint("before_extend");
    w->queue->ops->extend(w->queue, &x->op);
}

/* Collects what is to be prolonged; of one item, the others have their turn at the next tick. */
static void look_at(struct work *k, struct extension **x)
{
    struct worker *w = k->w;
    int64_t left = hand_deadline_us(k) - w->sched->now_us;
    if (left <= 0) {
        worker_outcome(k, OUTCOME_DROPPED);
        worker_unroute(k);
        hand_put(k);
        return;
    }
    /* One extension at a time, and only while it leads somewhere. */
    if (left > w->cfg.lease_margin_us / 2 || k->pins > 0 || !worker_may_place(w) ||
        (k->extended >= LEASE_EXTEND_MAX && !lanes_moves(k)))
        return;
    if (*x && (*x)->n == EXTEND_BATCH) {
        extend(*x);
        *x = NULL;
    }
    if (!*x) {
        *x = calloc(1, sizeof **x);
        if (!*x)
            return;
        (*x)->w = w;
    }
    if ((*x)->n == 0 || item_eq((*x)->works[0]->e.item, k->e.item))
        (*x)->works[(*x)->n++] = k;
}

static void on_tick(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, lease.timer);
    struct extension *x = NULL;
    for (int i = 0; i < w->hand.size; i++) {
        struct work *k = &w->hand.works[i];
        if (k->m && k->waiting)
            look_at(k, &x);
    }
    if (x)
        extend(x);
    sched_set_in(w->sched, t, period_us(w));
}

void lease_start(struct worker *w)
{
    w->lease.timer = (struct timer){.on_fire = on_tick};
    sched_set_in(w->sched, &w->lease.timer, period_us(w));
}

void lease_stop(struct worker *w)
{
    sched_clear(w->sched, &w->lease.timer);
}
