#include "queue_faulty.h"

#include "base/err.h"
#include "base/panic.h"
#include "queue_backend.h"
#include <stdlib.h>

struct faulty {
    struct queue port;
    struct queue *under;
    struct rng *rng;
    const struct faulty_odds *odds;
    struct faulty_counts *counts;
    struct list unsent; /* struct lost.link */
};

/* A call whose caller hears nothing of what became of it. */
struct lost {
    struct list link;
    struct queue_batch *theirs, ours;
};

static struct faulty *of(struct queue *q)
{
    return container_of(q, struct faulty, port);
}

static void answer(struct lost *l, int rc)
{
    struct queue_batch *theirs = l->theirs;
    free(l);
    theirs->done = 0;
    theirs->op.on_done(&theirs->op, rc);
}

static void on_unheard(struct op *op, int rc)
{
    (void)rc;
    answer(container_of(op, struct lost, ours.op), ERR_UNCERTAIN);
}

static bool strikes(struct faulty *f, uint32_t percent)
{
    return rng_below(f->rng, 100) < percent;
}

/* start NULL: it never leaves. */
static void lose(struct faulty *f, struct queue_batch *b,
                 void (*start)(struct queue *, struct queue_batch *))
{
    struct lost *l = calloc(1, sizeof *l);
    if (!l)
        panic("queue_faulty: no memory");
    l->theirs = b;
    list_init(&l->link);
    if (!start) {
        list_push_back(&f->unsent, &l->link);
        backend_wake();
        return;
    }
    l->ours = *b;
    l->ours.op.on_done = on_unheard;
    start(f->under, &l->ours);
}

static void op_ack(struct queue *q, struct queue_batch *b)
{
    struct faulty *f = of(q);
    f->counts->acks++;
    if (!strikes(f, f->odds->lost_acks)) {
        f->under->ops->ack(f->under, b);
    } else if (strikes(f, 50)) {
        f->counts->acks_unsent++;
        lose(f, b, NULL);
    } else {
        f->counts->acks_unheard++;
        lose(f, b, f->under->ops->ack);
    }
}

static void op_extend(struct queue *q, struct queue_batch *b)
{
    struct faulty *f = of(q);
    f->counts->extensions++;
    if (!strikes(f, f->odds->failed_extensions)) {
        f->under->ops->extend(f->under, b);
        return;
    }
    f->counts->extensions_failed++;
    lose(f, b, strikes(f, 50) ? f->under->ops->extend : NULL);
}

static void op_publish(struct queue *q, struct queue_publish *p)
{
    of(q)->under->ops->publish(of(q)->under, p);
}

static void op_receive(struct queue *q, struct queue_receive *r)
{
    of(q)->under->ops->receive(of(q)->under, r);
}

static void op_retry_later(struct queue *q, struct queue_batch *b)
{
    of(q)->under->ops->retry_later(of(q)->under, b);
}

static void op_locate(struct queue *q, struct queue_locate *l)
{
    of(q)->under->ops->locate(of(q)->under, l);
}

static void op_lag(struct queue *q, struct queue_lag *l)
{
    of(q)->under->ops->lag(of(q)->under, l);
}

static void op_release(struct queue *q, struct queue_message *m)
{
    of(q)->under->ops->release(of(q)->under, m);
}

static void op_cancel(struct queue *q, struct op *op)
{
    of(q)->under->ops->cancel(of(q)->under, op);
}

static void op_set_items(struct queue *q, const struct item *items, int n)
{
    of(q)->under->ops->set_items(of(q)->under, items, n);
}

static const struct queue_ops ops = {
    .publish = op_publish,
    .receive = op_receive,
    .ack = op_ack,
    .extend = op_extend,
    .retry_later = op_retry_later,
    .locate = op_locate,
    .lag = op_lag,
    .release = op_release,
    .cancel = op_cancel,
    .set_items = op_set_items,
};

struct queue *faulty_new(struct queue *under, struct rng *rng, const struct faulty_odds *odds,
                         struct faulty_counts *counts)
{
    struct faulty *f = calloc(1, sizeof *f);
    if (!f)
        panic("queue_faulty: no memory");
    *f = (struct faulty){
        .port.ops = &ops, .under = under, .rng = rng, .odds = odds, .counts = counts};
    list_init(&f->unsent);
    return &f->port;
}

static void answer_unsent(struct faulty *f, int rc)
{
    for (struct list *l; (l = list_pop_front(&f->unsent));)
        answer(container_of(l, struct lost, link), rc);
}

void faulty_turn(struct queue *q)
{
    answer_unsent(of(q), ERR_UNCERTAIN);
}

void faulty_kill(struct queue *q)
{
    struct faulty *f = of(q);
    f->counts->kills++;
    answer_unsent(f, ERR_CANCELED);
    backend_kill(f->under);
    free(f);
}
