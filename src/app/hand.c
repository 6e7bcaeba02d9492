#include "app/hand.h"

#include "app/worker.h"
#include "base/panic.h"
#include <stdlib.h>

void hand_init(struct worker *w, int size)
{
    struct hand *h = &w->hand;
    *h = (struct hand){.size = size};
    h->works = calloc((size_t)size, sizeof h->works[0]);
    if (!h->works)
        panic("no memory for %d messages in hand", size);
    list_init(&h->free);
    for (int i = 0; i < size; i++)
        list_push_back(&h->free, &h->works[i].link);
    metric_set(w->metrics.inflight, 0);
    metric_set(w->metrics.jobs_queue, 0);
}

void hand_deinit(struct worker *w)
{
    if (w->hand.used || w->hand.reserved)
        panic("%d messages still in hand, %d slots reserved", w->hand.used, w->hand.reserved);
    free(w->hand.works);
}

int hand_reserve(struct worker *w, int max)
{
    struct hand *h = &w->hand;
    int n = h->size - h->used - h->reserved;
    if (n > max)
        n = max;
    h->reserved += n;
    return n;
}

void hand_unreserve(struct worker *w, int n)
{
    if (n > w->hand.reserved)
        panic("%d slots given back, %d reserved", n, w->hand.reserved);
    w->hand.reserved -= n;
}

struct work *hand_take(struct worker *w, struct queue_message *m)
{
    struct hand *h = &w->hand;
    hand_unreserve(w, 1);
    struct work *k = container_of(list_pop_front(&h->free), struct work, link);
    *k = (struct work){.w = w, .m = m, .received_us = w->sched->now_us};
    list_init(&k->link);
    h->used++;
    metric_set(w->metrics.inflight, h->used);
    return k;
}

static void drop_if_over(struct work *k)
{
    struct worker *w = k->w;
    if (!k->put || k->pins > 0)
        return;
    w->queue->ops->release(w->queue, k->m);
    k->m = NULL;
    list_push_back(&w->hand.free, &k->link);
    w->hand.used--;
    metric_set(w->metrics.inflight, w->hand.used);
    worker_changed(w);
}

void hand_put(struct work *k)
{
    if (k->put)
        panic("message %s was put back twice", k->m->id);
    hand_set_waiting(k, false);
    list_remove(&k->link);
    k->put = true;
    drop_if_over(k);
}

void hand_pin(struct work *k)
{
    k->pins++;
}

void hand_unpin(struct work *k)
{
    k->pins--;
    drop_if_over(k);
}

int64_t hand_deadline_us(const struct work *k)
{
    return k->m->lease_until_us - k->w->cfg.lease_margin_us;
}

int64_t hand_oldest_age_ms(struct worker *w)
{
    int64_t now = worker_wall_ms(w), oldest = 0;
    for (int i = 0; i < w->hand.size; i++) {
        const struct queue_message *m = w->hand.works[i].m;
        if (!m)
            continue;
        int64_t age = m->deliveries > 1 || m->enqueued_ms == 0 ? 1 : now - m->enqueued_ms;
        age = age < 1 ? 1 : age;
        oldest = age > oldest ? age : oldest;
    }
    return oldest;
}

void hand_set_waiting(struct work *k, bool waiting)
{
    k->w->hand.waiting += (int)waiting - (int)k->waiting;
    k->waiting = waiting;
    metric_set(k->w->metrics.jobs_queue, k->w->hand.waiting);
}
