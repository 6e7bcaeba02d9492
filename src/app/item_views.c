#include "app/item_views.h"

#include "base/panic.h"
#include "base/rng.h"
#include <stdlib.h>

struct item_entry {
    struct list link; /* of lru */
    struct item_views *owner;
    uint64_t hash;
    bool loading;
    struct list waiters;
    struct item_view view;
    int64_t asked_us; /* of the load under way */
    struct stock_item_get get;
};

static uint64_t hash_of(const struct item_views *v, struct item item)
{
    int64_t flat[2] = {item.activity_id, item.sku_id};
    return hash_sip64(&v->secret, flat, sizeof flat);
}

static void on_loaded(struct op *op, int rc)
{
    struct item_entry *e = container_of(op, struct item_entry, get.op);
    struct item_views *v = e->owner;
    struct item_view view = {rc, e->get.listed, e->get.info, e->asked_us, v->sched->now_us};
    struct list waiters, *l;
    e->view = view;
    e->loading = false;
    v->loading--;
    list_push_front(&v->lru, &e->link);
    list_init(&waiters);
    list_splice_back(&waiters, &e->waiters);
    /* From a copy: a waiter may ask for something else, and that may take this very place. */
    while ((l = list_pop_front(&waiters))) {
        struct item_waiter *w = container_of(l, struct item_waiter, link);
        w->entry = NULL;
        w->on_view(w, &view);
    }
}

static void load(struct item_entry *e)
{
    struct item_views *v = e->owner;
    e->loading = true;
    v->loading++;
    list_remove(&e->link);
    e->asked_us = v->sched->now_us;
    e->get.op = (struct op){.on_done = on_loaded, .deadline_us = v->sched->now_us + v->call_us};
    v->stock->ops->item(v->stock, &e->get);
}

static struct item_entry *find(const struct item_views *v, struct item item, uint64_t hash)
{
    uint64_t found;
    if (!map_get(&v->by_item, hash, &found))
        return NULL;
    struct item_entry *e = (struct item_entry *)(uintptr_t)found;
    return item_eq(e->get.item, item) ? e : NULL;
}

static void unmap(struct item_entry *e)
{
    uint64_t found;
    if (map_get(&e->owner->by_item, e->hash, &found) && found == (uint64_t)(uintptr_t)e)
        map_remove(&e->owner->by_item, e->hash);
}

/* A place for an item, not in lru and not loading. NULL: all are being loaded. */
static struct item_entry *place(struct item_views *v)
{
    if (v->used < ITEM_VIEWS_MAX) {
        struct item_entry *e = &v->all[v->used++];
        e->owner = v;
        list_init(&e->link);
        list_init(&e->waiters);
        return e;
    }
    if (list_empty(&v->lru))
        return NULL;
    struct item_entry *e = container_of(v->lru.prev, struct item_entry, link);
    list_remove(&e->link);
    unmap(e);
    return e;
}

static bool fresh(const struct item_entry *e, int64_t since_us)
{
    return e->view.rc >= 0 && e->view.asked_us >= since_us &&
           e->owner->sched->now_us - e->view.loaded_us <= ITEM_VIEWS_FRESH_US;
}

int item_views_ask(struct item_views *v, struct item item, int64_t since_us, struct item_waiter *w,
                   const struct item_view **now)
{
    uint64_t hash = hash_of(v, item);
    struct item_entry *e = find(v, item, hash);
    if (e && !e->loading && fresh(e, since_us)) {
        list_remove(&e->link);
        list_push_front(&v->lru, &e->link);
        metric_add(v->count.cached, 1);
        *now = &e->view;
        return ITEM_VIEW_NOW;
    }
    if (!e) {
        e = place(v);
        if (!e)
            return ERR_OVERLOAD;
        e->hash = hash;
        e->get.item = item;
        if (map_put(&v->by_item, hash, (uint64_t)(uintptr_t)e) < 0)
            panic("item_views: more items than places");
    }
    if (e->loading)
        metric_add(v->count.coalesced, 1);
    else
        load(e);
    w->entry = e;
    list_push_back(&e->waiters, &w->link);
    return ITEM_VIEW_LATER;
}

void item_views_leave(struct item_waiter *w)
{
    if (!w->entry)
        return;
    w->entry = NULL;
    list_remove(&w->link);
}

int item_views_init(struct item_views *v)
{
    v->all = calloc(ITEM_VIEWS_MAX, sizeof v->all[0]);
    if (!v->all)
        return ERR_OVERLOAD;
    v->used = v->loading = 0;
    list_init(&v->lru);
    map_init(&v->by_item, ITEM_VIEWS_MAX);
    rng_secret(&v->secret, sizeof v->secret);
    v->count.cached = metric_counter("seckill_query_item_cached_total",
                                     "items answered without asking the store", NULL);
    v->count.coalesced = metric_counter("seckill_query_coalesced_total",
                                        "look-ups that shared another one's read, by what was read",
                                        "read=\"item\"");
    return 0;
}

void item_views_deinit(struct item_views *v)
{
    if (v->loading)
        panic("item_views: %d loads at the end", v->loading);
    map_deinit(&v->by_item);
    free(v->all);
    v->all = NULL;
}

/* --- what is told of it --- */

enum item_state item_view_state(const struct stock_item_info *i, int64_t now_ms)
{
    if (now_ms < i->starts_ms)
        return ITEM_NOT_OPEN;
    if (now_ms >= i->ends_ms || i->state == STOCK_STATE_CLOSED)
        return ITEM_ENDED;
    if (i->state != STOCK_STATE_OPEN)
        return ITEM_PAUSED;
    return i->free > 0 ? ITEM_OPEN : ITEM_SOLD_OUT;
}

struct str item_view_state_name(enum item_state s)
{
    static const struct str names[] = {
        [ITEM_NOT_OPEN] = STR("NOT_OPEN"), [ITEM_OPEN] = STR("OPEN"),
        [ITEM_PAUSED] = STR("PAUSED"),     [ITEM_ENDED] = STR("ENDED"),
        [ITEM_SOLD_OUT] = STR("SOLD_OUT"),
    };
    return names[s];
}

int64_t item_view_free_about(const struct stock_item_info *i)
{
    int64_t step = i->total / 10 > 0 ? i->total / 10 : 1;
    if (i->free <= 0)
        return 0;
    if (i->free >= i->total)
        return i->total;
    int64_t up = (i->free + step - 1) / step * step;
    return up < i->total ? up : i->total;
}
