#include "app/catalogue_watch.h"

#include "base/log.h"
#include <string.h>

static void ask_in(struct catalogue_watch *w, int64_t us)
{
    if (!w->stopped)
        sched_set_in(w->sched, &w->timer, us);
}

static void on_items(struct op *op, int rc)
{
    struct catalogue_watch *w = container_of(op, struct catalogue_watch, call.op);
    bool was = catalogue_missing(w), missing = was;
    if (rc == 0) /* a page may be empty before the last one */
        missing = w->call.n == 0 && strcmp(w->call.cursor, "0") == 0;
    if (missing && !was)
        log_warn("the catalogue of items is missing: nothing is sold");
    else if (was && !missing)
        log_info("the catalogue of items is there");
    atomic_store_explicit(&w->missing, missing, memory_order_relaxed);
    metric_set(w->gauge, missing);
    ask_in(w, missing ? CATALOGUE_AGAIN_US : CATALOGUE_EVERY_US);
}

static void on_timer(struct timer *t)
{
    struct catalogue_watch *w = container_of(t, struct catalogue_watch, timer);
    w->call = (struct stock_items){.op = {on_items, w->sched->now_us + w->call_us},
                                   .cursor = "0",
                                   .items = w->page,
                                   .max = STOCK_ITEMS_PAGE};
    w->stock->ops->items(w->stock, &w->call);
}

void catalogue_watch_start(struct catalogue_watch *w)
{
    w->stopped = false;
    atomic_store_explicit(&w->missing, false, memory_order_relaxed);
    w->timer = (struct timer){.on_fire = on_timer};
    w->gauge = metric_gauge("seckill_catalogue_missing",
                            "1 while the store has no catalogue of items: nothing is sold", NULL);
    metric_set(w->gauge, 0);
    ask_in(w, 0);
}

void catalogue_watch_stop(struct catalogue_watch *w)
{
    w->stopped = true;
    sched_clear(w->sched, &w->timer);
}
