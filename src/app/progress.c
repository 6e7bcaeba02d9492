#include "app/progress.h"

#include "app/worker.h"
#include <stdlib.h>

struct call {
    struct worker *w;
    struct stock_settle op;
    struct stock_settle_row rows[];
};

void progress_init(struct progress *p, struct worker *w)
{
    p->w = w;
    p->n = 0;
}

void progress_add(struct progress *p, const struct event *e)
{
    if (p->n == PROGRESS_MAX || (p->n > 0 && !item_eq(p->item, e->item)))
        progress_send(p);
    p->item = e->item;
    p->rows[p->n++] = (struct stock_settle_row){.user_id = e->user_id,
                                                .request_id = e->request_id,
                                                .reservation_id = e->reservation_id,
                                                .verdict = {VERDICT_PROCESSING, REASON_NONE}};
}

static void on_done(struct op *op, int rc)
{
    struct call *c = container_of(op, struct call, op.op);
    struct worker *w = c->w;
    (void)rc;
    free(c);
    w->progress_calls--;
    worker_op_ended(w);
}

void progress_send(struct progress *p)
{
    struct worker *w = p->w;
    int n = p->n;
    p->n = 0;
    if (n == 0 || w->stopping || w->progress_calls >= PROGRESS_UNDER_WAY_MAX)
        return;
    struct call *c = malloc(sizeof *c + (size_t)n * sizeof c->rows[0]);
    if (!c)
        return;
    memcpy(c->rows, p->rows, (size_t)n * sizeof c->rows[0]);
    c->w = w;
    c->op = (struct stock_settle){
        .op = {on_done, worker_store_deadline(w)}, .item = p->item, .rows = c->rows, .n = n};
    w->progress_calls++;
    worker_op_begun(w);
    w->stock->ops->progress(w->stock, &c->op);
}
