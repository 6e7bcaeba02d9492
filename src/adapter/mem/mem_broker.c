#include "adapter/mem/mem_broker.h"

#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

static void on_pump(struct timer *t)
{
    mem_receive_pump(container_of(t, struct mem_broker, pump));
}

struct mem_broker *mem_broker_new(const struct mem_broker_config *c)
{
    struct mem_broker *b = mem_alloc(sizeof *b);
    b->sched = c->sched;
    b->latency_us = c->latency_us ? c->latency_us : 1000;
    b->lease_us = c->lease_us ? c->lease_us : 10000000;
    b->shared = c->shared;
    b->dead_after = c->dead_after;
    b->pump.on_fire = on_pump;
    list_init(&b->streams);
    list_init(&b->waiters);
    return b;
}

void mem_broker_free(struct mem_broker *b)
{
    if (b->consumers)
        panic("mem_broker_free: %d consumers are left", b->consumers);
    sched_clear(b->sched, &b->pump);
    struct list *l;
    while ((l = list_pop_front(&b->streams))) {
        struct mem_stream *s = container_of(l, struct mem_stream, link);
        for (int i = 0; i < s->n; i++) {
            free(s->all[i]->body);
            free(s->all[i]);
        }
        free(s->all);
        free(s);
    }
    free(b);
}

static struct mem_stream *find_stream(const struct mem_broker *b, struct item item)
{
    list_for_each (l, &b->streams) {
        struct mem_stream *s = container_of(l, struct mem_stream, link);
        if (b->shared || item_eq(s->item, item))
            return s;
    }
    return NULL;
}

struct mem_stream *mem_broker_stream(struct mem_broker *b, struct item item)
{
    struct mem_stream *s = find_stream(b, item);
    if (!s) {
        s = mem_alloc(sizeof *s);
        s->next_expiry_us = s->scan_min_us = INT64_MAX;
        if (!b->shared)
            s->item = item;
        list_push_back(&b->streams, &s->link);
    }
    return s;
}

struct mem_msg *mem_broker_find(struct mem_broker *b, struct item item, const char *id)
{
    const struct mem_stream *s = find_stream(b, item);
    for (int i = 0; s && i < s->n; i++) {
        if (strcmp(s->all[i]->id, id) == 0)
            return s->all[i];
    }
    return NULL;
}

void mem_broker_wake(struct mem_broker *b)
{
    if (!list_empty(&b->waiters) && (!b->pump.slot || b->pump.at_us > b->sched->now_us))
        sched_set(b->sched, &b->pump, b->sched->now_us);
}

void mem_broker_append(struct mem_broker *b, struct item item, struct str body, char *queue_id)
{
    struct mem_stream *s = mem_broker_stream(b, item);
    struct mem_msg *m = mem_alloc(sizeof *m);
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->all = realloc(s->all, (size_t)s->cap * sizeof *s->all);
        if (!s->all)
            panic("mem_broker: no memory");
    }
    m->stream = s;
    m->enqueued_ms = mem_clock_wall_ms(b->sched);
    s->last_seq = m->enqueued_ms == s->last_ms ? s->last_seq + 1 : 0;
    s->last_ms = m->enqueued_ms;
    snprintf(m->id, sizeof m->id, "%lld-%d", (long long)m->enqueued_ms, s->last_seq);
    m->body = mem_alloc(body.len);
    memcpy(m->body, body.ptr, body.len);
    m->len = body.len;
    s->all[s->n++] = m;
    if (queue_id)
        str_copy(queue_id, 32, str_of(b->shared ? "" : m->id));
    mem_broker_wake(b);
}

void mem_broker_lease(struct mem_msg *m, int64_t until_us)
{
    struct mem_stream *s = m->stream;
    m->lease_until_us = until_us;
    s->next_expiry_us = until_us < s->next_expiry_us ? until_us : s->next_expiry_us;
    s->scan_min_us = until_us < s->scan_min_us ? until_us : s->scan_min_us;
}

static struct mem_msg *scan(const struct mem_broker *b, struct mem_stream *s)
{
    for (; s->scan_from < s->waiting_from; s->scan_from++) {
        struct mem_msg *m = s->all[s->scan_from];
        if (m->state == MEM_MSG_IN_HAND && m->lease_until_us <= b->sched->now_us)
            return m;
        if (m->state == MEM_MSG_IN_HAND && m->lease_until_us < s->scan_min_us)
            s->scan_min_us = m->lease_until_us;
    }
    while (s->over_to < s->waiting_from && s->all[s->over_to]->state > MEM_MSG_IN_HAND)
        s->over_to++;
    s->scan_from = s->over_to;
    s->next_expiry_us = s->scan_min_us;
    s->scan_min_us = INT64_MAX;
    return NULL;
}

static struct mem_msg *take_expired(const struct mem_broker *b, struct mem_stream *s)
{
    struct mem_msg *m = NULL;
    for (int pass = 0; pass < 2 && !m && s->next_expiry_us <= b->sched->now_us; pass++)
        m = scan(b, s);
    return m;
}

static struct mem_msg *take_new(struct mem_stream *s)
{
    while (s->waiting_from < s->n && s->all[s->waiting_from]->state != MEM_MSG_WAITING)
        s->waiting_from++;
    return s->waiting_from < s->n ? s->all[s->waiting_from++] : NULL;
}

struct mem_msg *mem_broker_take(struct mem_broker *b, struct mem_stream *s, bool expired_first)
{
    struct mem_msg *m = expired_first ? take_expired(b, s) : take_new(s);
    if (!m)
        m = expired_first ? take_new(s) : take_expired(b, s);
    return m;
}

void mem_broker_set_deliveries(struct mem_broker *b, struct item item, int deliveries)
{
    const struct mem_stream *s = find_stream(b, item);
    for (int i = 0; s && i < s->n; i++) {
        if (s->all[i]->state <= MEM_MSG_IN_HAND)
            s->all[i]->deliveries = deliveries;
    }
}

void mem_broker_expire_all(struct mem_broker *b)
{
    list_for_each (l, &b->streams) {
        const struct mem_stream *s = container_of(l, struct mem_stream, link);
        for (int i = 0; i < s->n; i++)
            mem_broker_lease(s->all[i], b->sched->now_us);
    }
    mem_broker_wake(b);
}

static int count(const struct mem_broker *b, struct item item, enum mem_msg_state from,
                 enum mem_msg_state to)
{
    const struct mem_stream *s = find_stream(b, item);
    int n = 0;
    for (int i = 0; s && i < s->n; i++)
        n += s->all[i]->state >= from && s->all[i]->state <= to;
    return n;
}

int mem_broker_unacked(const struct mem_broker *b, struct item item)
{
    return count(b, item, MEM_MSG_WAITING, MEM_MSG_IN_HAND);
}

int mem_broker_acked(const struct mem_broker *b, struct item item)
{
    return count(b, item, MEM_MSG_ACKED, MEM_MSG_ACKED);
}

void mem_broker_wipe(struct mem_broker *b, struct item item)
{
    const struct mem_stream *s = find_stream(b, item);
    for (int i = 0; s && i < s->n; i++) {
        if (s->all[i]->state != MEM_MSG_ACKED)
            s->all[i]->state = MEM_MSG_WIPED;
    }
}

struct str mem_broker_body(const struct mem_broker *b, struct item item, int n)
{
    const struct mem_stream *s = find_stream(b, item);
    return s && n >= 0 && n < s->n ? (struct str){s->all[n]->body, s->all[n]->len}
                                   : (struct str){0};
}
