#include "adapter/mem/mem_store.h"

#include "base/panic.h"
#include <stdlib.h>

#define ITEM_USERS_MAX (1u << 22)
#define NEWS_DELAY_US 500

struct mem_store *mem_store_new(struct sched *sched, struct mem_broker *stream)
{
    struct mem_store *st = mem_alloc(sizeof *st);
    st->sched = sched;
    st->stream = stream;
    st->link_up = true;
    list_init(&st->items);
    list_init(&st->news);
    return st;
}

void mem_store_empty_item(struct mem_item *it)
{
    size_t at = 0;
    uint64_t user, value;
    while (map_next(&it->buyers, &at, &user, &value))
        free((void *)(uintptr_t)value);
    map_deinit(&it->buyers);
    map_deinit(&it->by_user);
    map_init(&it->buyers, ITEM_USERS_MAX);
    map_init(&it->by_user, ITEM_USERS_MAX);
    struct list *l;
    while ((l = list_pop_front(&it->records)))
        free(container_of(l, struct mem_record, link));
    while ((l = list_pop_front(&it->commands)))
        free(container_of(l, struct mem_remembered, link));
}

int64_t mem_store_now_ms(const struct mem_store *st)
{
    return mem_clock_wall_ms(st->sched);
}

struct mem_item *mem_store_item(const struct mem_store *st, struct item item)
{
    list_for_each (l, &st->items) {
        struct mem_item *it = container_of(l, struct mem_item, link);
        if (item_eq(it->item, item))
            return it;
    }
    return NULL;
}

bool mem_store_listed(const struct mem_store *st, struct item item)
{
    bool any = false;
    list_for_each (l, &st->items) {
        const struct mem_item *it = container_of(l, struct mem_item, link);
        if (it->listed && item_eq(it->item, item))
            return true;
        any |= it->listed;
    }
    return !any;
}

struct mem_item *mem_store_add_item(struct mem_store *st, struct item item)
{
    struct mem_item *it = mem_store_item(st, item);
    if (it)
        return it;
    it = mem_alloc(sizeof *it);
    it->item = item;
    list_init(&it->records);
    list_init(&it->commands);
    map_init(&it->buyers, ITEM_USERS_MAX);
    map_init(&it->by_user, ITEM_USERS_MAX);
    list_push_back(&st->items, &it->link);
    return it;
}

struct mem_record *mem_store_record(const struct mem_item *it, int64_t user_id,
                                    const struct uuid *request_id)
{
    uint64_t value;
    if (!map_get(&it->by_user, (uint64_t)user_id, &value))
        return NULL;
    struct mem_record *rec = (struct mem_record *)(uintptr_t)value;
    while (rec && (rec->result != STOCK_ROW_GOOD || !uuid_eq(&rec->r.request_id, request_id)))
        rec = rec->next_of_user;
    return rec;
}

static void put(struct map *m, int64_t key, const void *value)
{
    if (map_put(m, (uint64_t)key, (uint64_t)(uintptr_t)value))
        panic("mem_store: more than %zu users of an item", m->max);
}

struct mem_record *mem_store_add_record(struct mem_item *it, const struct reservation *r)
{
    struct mem_record *rec = mem_alloc(sizeof *rec);
    uint64_t first;
    rec->r = *r;
    rec->pending = true;
    if (map_get(&it->by_user, (uint64_t)r->user_id, &first))
        rec->next_of_user = (struct mem_record *)(uintptr_t)first;
    put(&it->by_user, r->user_id, rec);
    list_push_back(&it->records, &rec->link);
    return rec;
}

void mem_store_remove_record(struct mem_item *it, struct mem_record *rec)
{
    uint64_t value;
    if (!map_get(&it->by_user, (uint64_t)rec->r.user_id, &value))
        panic("mem_store: a record of nobody");
    struct mem_record *at = (struct mem_record *)(uintptr_t)value;
    if (at == rec && rec->next_of_user) {
        put(&it->by_user, rec->r.user_id, rec->next_of_user);
    } else if (at == rec) {
        map_remove(&it->by_user, (uint64_t)rec->r.user_id);
    } else {
        while (at->next_of_user != rec)
            at = at->next_of_user;
        at->next_of_user = rec->next_of_user;
    }
    list_remove(&rec->link);
    free(rec);
}

struct reservation *mem_store_buyer(const struct mem_item *it, int64_t user_id)
{
    uint64_t value;
    if (!map_get(&it->buyers, (uint64_t)user_id, &value))
        return NULL;
    return (struct reservation *)(uintptr_t)value;
}

void mem_store_set_buyer(struct mem_item *it, int64_t user_id, const struct uuid *reservation_id,
                         int64_t order_id, const struct uuid *request_id)
{
    struct reservation *b = mem_store_buyer(it, user_id);
    if (!b) {
        b = mem_alloc(sizeof *b);
        put(&it->buyers, user_id, b);
    }
    b->user_id = user_id;
    b->reservation_id = *reservation_id;
    b->order_id = order_id;
    b->request_id = *request_id;
}

void mem_store_remove_buyer(struct mem_item *it, int64_t user_id)
{
    free(mem_store_buyer(it, user_id));
    map_remove(&it->buyers, (uint64_t)user_id);
}

void mem_store_info(const struct mem_store *st, const struct mem_item *it,
                    struct stock_item_info *info)
{
    *info = (struct stock_item_info){.version = it->version,
                                     .state = it->state,
                                     .starts_ms = it->starts_ms,
                                     .ends_ms = it->ends_ms,
                                     .expires_ms = it->expires_ms,
                                     .total = it->total,
                                     .free = it->free,
                                     .buyers = (int64_t)it->buyers.n,
                                     .rebuilding = it->rebuild != 0,
                                     .now_ms = mem_store_now_ms(st)};
    list_for_each (l, &it->records)
        info->pending += container_of(l, struct mem_record, link)->pending;
}

struct publication {
    struct list link;
    struct timer timer;
    struct mem_store *store;
    struct item item;
    struct item_version version;
    struct stock_news *link_of; /* not NULL: only "the link is up or down", to this one */
};

static void on_publication(struct timer *t)
{
    struct publication *p = container_of(t, struct publication, timer);
    struct mem_store *st = p->store;
    for (int i = 0; i < MEM_STORE_SUBSCRIBERS; i++) {
        if (p->link_of && p->link_of == st->subscribers[i])
            st->subscribers[i]->on_link(st->subscribers[i], st->link_up);
        else if (!p->link_of && st->subscribers[i] && st->link_up)
            st->subscribers[i]->on_version(st->subscribers[i], p->item, p->version);
    }
    list_remove(&p->link);
    free(p);
}

static struct publication *publish(struct mem_store *st)
{
    struct publication *p = mem_alloc(sizeof *p);
    p->store = st;
    p->timer.on_fire = on_publication;
    list_push_back(&st->news, &p->link);
    sched_set_in(st->sched, &p->timer, NEWS_DELAY_US);
    return p;
}

void mem_store_publish(struct mem_store *st, const struct mem_item *it)
{
    struct publication *p = publish(st);
    p->item = it->item;
    p->version = it->version;
}

void mem_store_tell_link(struct mem_store *st, struct stock_news *news)
{
    publish(st)->link_of = news;
}

void mem_store_free(struct mem_store *st)
{
    struct list *l;
    while ((l = list_pop_front(&st->news))) {
        struct publication *p = container_of(l, struct publication, link);
        sched_clear(st->sched, &p->timer);
        free(p);
    }
    while ((l = list_pop_front(&st->items))) {
        struct mem_item *it = container_of(l, struct mem_item, link);
        mem_store_empty_item(it);
        map_deinit(&it->buyers);
        map_deinit(&it->by_user);
        free(it);
    }
    free(st);
}
