#include "app/lanes.h"

#include "app/place.h"
#include "app/worker.h"
#include "base/hash.h"
#include "base/panic.h"
#include <stdlib.h>

void lanes_init(struct worker *w, int slots)
{
    struct lanes *l = &w->lanes;
    unsigned buckets = 1;
    while (buckets < (unsigned)slots * 2)
        buckets *= 2;
    *l = (struct lanes){.mask = buckets - 1};
    l->all = calloc((size_t)slots, sizeof l->all[0]);
    l->buckets = calloc(buckets, sizeof l->buckets[0]);
    if (!l->all || !l->buckets)
        panic("no memory for %d lanes", slots);
    for (unsigned i = 0; i < buckets; i++)
        list_init(&l->buckets[i]);
    list_init(&l->free);
    list_init(&l->ready);
    for (int i = 0; i < slots; i++)
        list_push_back(&l->free, &l->all[i].bucket);
}

void lanes_deinit(struct worker *w)
{
    if (w->lanes.busy || w->lanes.waiting)
        panic("%d lanes busy, %d messages waiting", w->lanes.busy, w->lanes.waiting);
    free(w->lanes.all);
    free(w->lanes.buckets);
}

static struct list *bucket_of(struct lanes *l, struct item item)
{
    uint64_t h = hash_mix64((uint64_t)item.activity_id) ^ (uint64_t)item.sku_id;
    return &l->buckets[hash_mix64(h) & l->mask];
}

static struct lane *find(struct lanes *l, struct item item)
{
    list_for_each (it, bucket_of(l, item)) {
        struct lane *lane = container_of(it, struct lane, bucket);
        if (item_eq(lane->item, item))
            return lane;
    }
    return NULL;
}

static struct lane *find_or_take(struct lanes *l, struct item item)
{
    struct lane *lane = find(l, item);
    if (lane)
        return lane;
    struct list *at = list_pop_front(&l->free);
    if (!at)
        panic("more lanes than messages in hand");
    lane = container_of(at, struct lane, bucket);
    *lane = (struct lane){.item = item};
    list_init(&lane->link);
    list_init(&lane->waiting);
    list_push_back(bucket_of(l, item), &lane->bucket);
    return lane;
}

/* Ready, resting, or given back. */
static void settle_lane(struct lanes *l, struct lane *lane)
{
    bool ready = lane->n > 0 && !lane->busy, listed = !list_empty(&lane->link);
    if (ready && !listed)
        list_push_back(&l->ready, &lane->link);
    else if (!ready && listed)
        list_remove(&lane->link);
    if (lane->n == 0 && !lane->busy) {
        list_remove(&lane->bucket);
        list_push_back(&l->free, &lane->bucket);
    }
}

static void add(struct work *k, bool front)
{
    struct lanes *l = &k->w->lanes;
    struct lane *lane = find_or_take(l, k->e.item);
    if (front)
        list_push_front(&lane->waiting, &k->link);
    else
        list_push_back(&lane->waiting, &k->link);
    lane->n++;
    l->waiting++;
    hand_set_waiting(k, true);
    settle_lane(l, lane);
}

void lanes_add(struct work *k)
{
    add(k, false);
}

void lanes_add_front(struct work *k)
{
    add(k, true);
}

static void take_out(struct lanes *l, struct lane *lane, struct work *k)
{
    list_remove(&k->link);
    lane->n--;
    l->waiting--;
    hand_set_waiting(k, false);
}

void lanes_remove(struct work *k)
{
    struct lanes *l = &k->w->lanes;
    struct lane *lane = find(l, k->e.item);
    take_out(l, lane, k);
    settle_lane(l, lane);
}

bool lanes_begin(struct worker *w, struct item item)
{
    struct lane *lane = find_or_take(&w->lanes, item);
    if (lane->busy)
        return false;
    lane->busy = true;
    w->lanes.busy++;
    settle_lane(&w->lanes, lane);
    return true;
}

void lanes_end(struct worker *w, struct item item)
{
    struct lane *lane = find(&w->lanes, item);
    lane->busy = false;
    w->lanes.busy--;
    settle_lane(&w->lanes, lane);
    worker_changed(w);
}

void lanes_done(struct worker *w, struct item item)
{
    find(&w->lanes, item)->done_us = w->sched->now_us;
}

bool lanes_moves(const struct work *k)
{
    struct worker *w = k->w;
    const struct lane *lane = find(&w->lanes, k->e.item);
    return lane && lane->done_us > 0 && w->sched->now_us - lane->done_us < w->cfg.lease_margin_us;
}

/* May be in one transaction. */
static bool alike(const struct work *a, const struct work *b)
{
    return a->e.command == b->e.command && (a->m->deliveries > 1) == (b->m->deliveries > 1);
}

static void on_batch_end(struct batch *b)
{
    lanes_end(b->w, b->item);
}

bool lanes_start_one(struct worker *w)
{
    struct lanes *l = &w->lanes;
    if (list_empty(&l->ready) || !worker_may_place(w) || suspects_hold(w))
        return false;
    struct lane *lane = container_of(l->ready.next, struct lane, link);
    struct work *first = container_of(lane->waiting.next, struct work, link);
    struct work *taken[PLACE_BATCH_MAX];
    int n = 0;
    list_for_each_safe (it, &lane->waiting) {
        struct work *k = container_of(it, struct work, link);
        if (!alike(k, first))
            continue;
        take_out(l, lane, k);
        taken[n++] = k;
        if (n == batch_limit_now(&w->batch_limit))
            break;
    }
    struct item item = lane->item;
    lanes_begin(w, item);
    place_start(w, item, taken, n, on_batch_end);
    return true;
}
