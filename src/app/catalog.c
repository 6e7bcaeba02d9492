#include "app/catalog.h"

#include "app/worker.h"

static struct catalog_item *find(struct catalog *c, struct item item)
{
    for (int i = 0; i < c->n; i++) {
        if (item_eq(c->items[i].item, item))
            return &c->items[i];
    }
    return NULL;
}

/* --- the items --- */

static bool same(const struct catalog *c, int n)
{
    if (n != c->n)
        return false;
    for (int i = 0; i < n; i++) {
        if (!item_eq(c->items[i].item, c->read[i]))
            return false;
    }
    return true;
}

static void take_over(struct worker *w, int n)
{
    struct catalog *c = &w->catalog;
    static struct catalog_item old[STOCK_ITEMS_MAX];
    int n_old = c->n;
    memcpy(old, c->items, (size_t)n_old * sizeof old[0]);
    for (int i = 0; i < n; i++) {
        c->items[i] = (struct catalog_item){.item = c->read[i], .pending = -1};
        for (int j = 0; j < n_old; j++) {
            if (item_eq(old[j].item, c->read[i]))
                c->items[i] = old[j];
        }
    }
    c->n = n;
    w->queue->ops->set_items(w->queue, c->read, n);
    log_info("items changed", LOG_I("items", n));
}

static void on_items(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, catalog.op.op);
    struct catalog *c = &w->catalog;
    c->reading = false;
    /* An empty answer too: the item set may be gone with its Redis, but then there is nothing to
     * receive either. On an error the items known so far stay. */
    if (rc >= 0 && !same(c, c->op.n))
        take_over(w, c->op.n);
    worker_op_ended(w);
}

static void on_items_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, catalog.items_timer);
    struct catalog *c = &w->catalog;
    if (!c->reading) {
        c->reading = true;
        c->op = (struct stock_items){
            .op = {on_items, worker_store_deadline(w)}, .items = c->read, .max = STOCK_ITEMS_MAX};
        worker_op_begun(w);
        w->stock->ops->items(w->stock, &c->op);
    }
    sched_set_in(w->sched, t, w->cfg.items_refresh_us);
}

/* --- their backlogs --- */

static void on_lag(struct op *op, int rc)
{
    struct catalog_ask *a = container_of(op, struct catalog_ask, op.op);
    struct worker *w = a->w;
    struct catalog_item *it = find(&w->catalog, a->op.item);
    a->busy = false;
    if (it && rc >= 0) {
        it->lag_at_us = w->sched->now_us;
        it->waiting = a->op.waiting;
        it->in_hand = a->op.in_hand;
        it->oldest_age_ms = a->op.oldest_age_ms;
    }
    worker_op_ended(w);
}

static void on_lag_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, catalog.lag_timer);
    struct catalog *c = &w->catalog;
    int n = c->n < CATALOG_LAG_UNDER_WAY ? c->n : CATALOG_LAG_UNDER_WAY;
    for (int i = 0; i < CATALOG_LAG_UNDER_WAY && n > 0; i++) {
        struct catalog_ask *a = &c->asks[i];
        if (a->busy)
            continue;
        n--;
        c->next = c->next < c->n ? c->next : 0;
        *a = (struct catalog_ask){.w = w, .busy = true};
        a->op = (struct queue_lag){.op = {on_lag, worker_store_deadline(w)},
                                   .item = c->items[c->next++].item};
        worker_op_begun(w);
        w->queue->ops->lag(w->queue, &a->op);
    }
    sched_set_in(w->sched, t, CATALOG_LAG_TICK_US);
}

const struct catalog_item *catalog_backlog(struct worker *w, struct item item)
{
    struct catalog_item *it = find(&w->catalog, item);
    if (!it || it->lag_at_us == 0 || w->sched->now_us - it->lag_at_us > CATALOG_LAG_FRESH_US)
        return NULL;
    return it;
}

void catalog_saw_pending(struct worker *w, struct item item, int64_t pending)
{
    struct catalog *c = &w->catalog;
    struct catalog_item *seen = find(c, item);
    if (seen)
        seen->pending = pending;
    int64_t sum = 0;
    for (int i = 0; i < c->n && sum >= 0; i++)
        sum = c->items[i].pending < 0 ? -1 : sum + c->items[i].pending;
    if (sum < 0)
        metric_set_unknown(w->metrics.pending);
    else
        metric_set(w->metrics.pending, sum);
}

void catalog_start(struct worker *w)
{
    struct catalog *c = &w->catalog;
    c->n = c->next = 0;
    c->items_timer = (struct timer){.on_fire = on_items_time};
    c->lag_timer = (struct timer){.on_fire = on_lag_time};
    sched_set(w->sched, &c->items_timer, w->sched->now_us);
    sched_set_in(w->sched, &c->lag_timer, CATALOG_LAG_TICK_US / 10);
}

void catalog_stop(struct worker *w)
{
    sched_clear(w->sched, &w->catalog.items_timer);
    sched_clear(w->sched, &w->catalog.lag_timer);
}
