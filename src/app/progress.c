#include "app/progress.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include <stdlib.h>

struct call {
    struct worker *w;
    struct stock_settle op;
    struct stock_settle_row rows[PROGRESS_MAX];
};

static void on_done(struct op *op, int rc)
{
    struct call *c = container_of(op, struct call, op.op);
    struct worker *w = c->w;
    (void)rc;
    crashpoint("after_progress");
    free(c);
    w->progress.calls--;
    worker_op_ended(w);
}

static void send(struct call *c)
{
    struct worker *w = c->w;
    c->op.op = (struct op){on_done, worker_store_deadline(w)};
    c->op.rows = c->rows;
    w->progress.calls++;
    worker_op_begun(w);
    crashpoint("before_progress");
    w->stock->ops->progress(w->stock, &c->op);
}

/* The call that has room for this item's next row; NULL: no more now. */
static struct call *room(struct worker *w, struct call *c, struct item item)
{
    if (c && c->op.n < PROGRESS_MAX && item_eq(c->op.item, item))
        return c;
    if (c)
        send(c);
    if (w->progress.calls >= PROGRESS_UNDER_WAY_MAX)
        return NULL;
    c = malloc(sizeof *c);
    if (!c)
        return NULL;
    c->w = w;
    c->op = (struct stock_settle){.item = item};
    return c;
}

static bool is_due(const struct work *k, int64_t now_us)
{
    return k->m && k->untold && !k->put && now_us - k->received_us >= PROGRESS_AFTER_US;
}

static void on_tick(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, progress.timer);
    struct call *c = NULL;
    bool full = false, more = false;
    for (int i = 0; i < w->hand.size; i++) {
        struct work *k = &w->hand.works[i];
        if (!full && is_due(k, w->sched->now_us)) {
            c = room(w, c, k->e.item);
            full = !c;
            if (full)
                continue;
            k->untold = false;
            c->rows[c->op.n++] =
                (struct stock_settle_row){.user_id = k->e.user_id,
                                          .request_id = k->e.request_id,
                                          .reservation_id = k->e.reservation_id,
                                          .verdict = {VERDICT_PROCESSING, REASON_NONE}};
        }
        more |= k->m && k->untold && !k->put;
    }
    if (c)
        send(c);
    if (more)
        sched_set_in(w->sched, t, PROGRESS_TICK_US);
}

void progress_init(struct worker *w)
{
    w->progress = (struct progress){.timer.on_fire = on_tick};
}

void progress_received(struct work *k)
{
    struct worker *w = k->w;
    k->untold = true;
    if (w->progress.timer.slot == 0 && !w->stopping)
        sched_set_in(w->sched, &w->progress.timer, PROGRESS_TICK_US);
}

void progress_stop(struct worker *w)
{
    sched_clear(w->sched, &w->progress.timer);
}
