#include "app/reads.h"

#include "base/panic.h"
#include "base/rng.h"
#include <stdatomic.h>
#include <stdlib.h>

struct read {
    struct list link; /* of the free ones */
    struct reads *owner;
    struct job job;
    struct reads_key key;
    uint64_t hash;
    struct list waiters;
    struct ctx ctx;
    atomic_bool begun; /* set by the crew's thread: from here on nobody joins */
    int rc;
    struct reads_result result;
};

static bool same(const struct reads_key *a, const struct reads_key *b)
{
    return a->kind == b->kind && a->id == b->id && item_eq(a->item, b->item) &&
           uuid_eq(&a->request_id, &b->request_id);
}

static uint64_t hash_of(const struct reads *r, const struct reads_key *k)
{
    /* Without the struct's padding. */
    struct {
        int64_t kind, activity_id, sku_id, id;
        struct uuid request_id;
    } flat = {k->kind, k->item.activity_id, k->item.sku_id, k->id, k->request_id};
    return hash_sip64(&r->secret, &flat, sizeof flat);
}

static void forget(struct read *d)
{
    uint64_t found;
    if (map_get(&d->owner->by_key, d->hash, &found) && found == (uint64_t)(uintptr_t)d)
        map_remove(&d->owner->by_key, d->hash);
}

/* --- on a thread of the crew --- */

static void run(struct job *j, struct orders *o)
{
    struct read *d = container_of(j, struct read, job);
    atomic_store(&d->begun, true);
    metric_gauge_add(d->owner->count.queued, -1);
    metric_gauge_add(d->owner->count.running, 1);
    switch (d->key.kind) {
    case READS_REQUEST:
        d->rc = o->ops->find_request(o, &d->ctx, d->key.item, d->key.id, &d->key.request_id,
                                     &d->result.row, &d->result.order);
        break;
    case READS_ORDER:
        d->rc = o->ops->find_order(o, &d->ctx, d->key.id, &d->result.order);
        break;
    case READS_ITEM:
        d->rc = o->ops->inventory(o, &d->ctx, d->key.item, &d->result.inventory);
        break;
    }
    metric_gauge_add(d->owner->count.running, -1);
}

/* --- on the loop --- */

static void on_done(struct job *j)
{
    struct read *d = container_of(j, struct read, job);
    struct reads *r = d->owner;
    forget(d);
    struct list *l;
    while ((l = list_pop_front(&d->waiters))) {
        struct reads_waiter *w = container_of(l, struct reads_waiter, link);
        w->read = NULL;
        w->on_read(w, d->rc, &d->result);
    }
    list_push_front(&r->free, &d->link);
    r->busy--;
}

static struct read *joinable(const struct reads *r, const struct reads_key *key, uint64_t hash)
{
    uint64_t found;
    if (!map_get(&r->by_key, hash, &found))
        return NULL;
    struct read *d = (struct read *)(uintptr_t)found;
    return same(&d->key, key) && !atomic_load(&d->begun) ? d : NULL;
}

static int start(struct reads *r, const struct reads_key *key, uint64_t hash, struct read **out)
{
    struct list *l = list_pop_front(&r->free);
    if (!l)
        return ERR_OVERLOAD;
    struct read *d = container_of(l, struct read, link);
    d->key = *key;
    d->hash = hash;
    d->result = (struct reads_result){0};
    atomic_store(&d->begun, false);
    ctx_init(&d->ctx, NULL, r->sched->now_us + r->timeout_us);
    metric_gauge_add(r->count.queued, 1);
    int rc = r->jobs->ops->submit(r->jobs, &d->job);
    if (rc < 0) {
        metric_gauge_add(r->count.queued, -1);
        list_push_front(&r->free, &d->link);
        return rc;
    }
    r->busy++;
    /* In place of the one that has begun. The map is as large as there are reads. */
    if (map_put(&r->by_key, hash, (uint64_t)(uintptr_t)d) < 0)
        panic("reads: more keys than reads");
    *out = d;
    return 0;
}

int reads_ask(struct reads *r, const struct reads_key *key, struct reads_waiter *w)
{
    uint64_t hash = hash_of(r, key);
    struct read *d = joinable(r, key, hash);
    if (d) {
        metric_add(r->count.coalesced, 1);
    } else {
        int rc = start(r, key, hash, &d);
        if (rc < 0) {
            metric_add(r->count.refused, 1);
            return rc;
        }
    }
    w->read = d;
    list_push_back(&d->waiters, &w->link);
    return 0;
}

void reads_leave(struct reads_waiter *w)
{
    struct read *d = w->read;
    if (!d)
        return;
    w->read = NULL;
    list_remove(&w->link);
    if (list_empty(&d->waiters)) {
        forget(d); /* nobody joins what was given up */
        ctx_cancel(&d->ctx);
    }
}

int reads_init(struct reads *r)
{
    r->all = calloc((size_t)r->max, sizeof r->all[0]);
    if (!r->all)
        return ERR_OVERLOAD;
    list_init(&r->free);
    for (int i = r->max; i-- > 0;) {
        struct read *d = &r->all[i];
        d->owner = r;
        d->job.run = run;
        d->job.on_done = on_done;
        list_init(&d->waiters);
        list_push_front(&r->free, &d->link);
    }
    map_init(&r->by_key, (size_t)r->max);
    rng_secret(&r->secret, sizeof r->secret);
    r->busy = 0;
    r->count.coalesced = metric_counter("seckill_query_coalesced_total",
                                        "look-ups that shared another one's read, by what was read",
                                        "read=\"postgresql\"");
    r->count.refused = metric_counter("seckill_query_pg_refused_total",
                                      "reads of PostgreSQL refused because too many wait", NULL);
    r->count.queued = metric_gauge("seckill_query_pg_queued",
                                   "reads of PostgreSQL waiting for a connection", NULL);
    r->count.running =
        metric_gauge("seckill_query_pg_running", "reads of PostgreSQL under way", NULL);
    metric_gauge_add(r->count.queued, 0);
    metric_gauge_add(r->count.running, 0);
    return 0;
}

void reads_deinit(struct reads *r)
{
    if (r->busy)
        panic("reads: %d under way at the end", r->busy);
    map_deinit(&r->by_key);
    free(r->all);
    r->all = NULL;
}
