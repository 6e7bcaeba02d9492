/* A test's straight access to the fake's store. */
#include "adapter/mem/mem_stock.h"

#include "adapter/mem/mem_store.h"
#include "base/panic.h"

#define DAY_MS INT64_C(86400000)

static struct mem_item *existing(struct stock *s, struct item item)
{
    struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    if (!it)
        panic("mem_stock: no item %lld:%lld", (long long)item.activity_id, (long long)item.sku_id);
    return it;
}

void mem_stock_put_item(struct stock *s, struct item item, int64_t total)
{
    struct mem_store *st = mem_stock_store(s);
    struct mem_item *it = mem_store_add_item(st, item);
    int64_t now = mem_store_now_ms(st);
    mem_store_empty_item(it);
    it->meta = it->listed = true;
    it->version = (struct item_version){1, 0};
    it->state = STOCK_STATE_OPEN;
    it->total = it->free = total;
    it->starts_ms = now;
    it->ends_ms = now + DAY_MS;
    it->expires_ms = now + 3 * DAY_MS;
}

void mem_stock_set_window(struct stock *s, struct item item, int64_t starts_ms, int64_t ends_ms)
{
    struct mem_item *it = existing(s, item);
    it->starts_ms = starts_ms;
    it->ends_ms = ends_ms;
}

void mem_stock_set_state(struct stock *s, struct item item, enum stock_state state)
{
    existing(s, item)->state = state;
}

void mem_stock_set_epoch(struct stock *s, struct item item, int64_t epoch)
{
    struct mem_item *it = existing(s, item);
    it->rebuild = epoch > it->version.epoch ? epoch : 0;
    it->version.epoch = epoch;
}

void mem_stock_lose_item(struct stock *s, struct item item)
{
    struct mem_item *it = existing(s, item);
    mem_store_empty_item(it);
    it->meta = false;
    it->rebuild = 0;
    it->version = (struct item_version){0};
}

void mem_stock_set_version(struct stock *s, struct item item, struct item_version v)
{
    existing(s, item)->version = v;
}

void mem_stock_lose_record(struct stock *s, struct item item, int64_t user_id,
                           const struct uuid *request_id)
{
    struct mem_item *it = existing(s, item);
    mem_store_remove_record(it, mem_store_record(it, user_id, request_id));
    mem_store_remove_buyer(it, user_id);
    it->free++;
}

void mem_stock_list_item(struct stock *s, struct item item)
{
    mem_store_add_item(mem_stock_store(s), item)->listed = true;
}

bool mem_stock_reported(struct stock *s, struct item item)
{
    const struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    return it && it->suspect;
}

void mem_stock_unlist_all(struct stock *s)
{
    list_for_each (l, &mem_stock_store(s)->items)
        container_of(l, struct mem_item, link)->listed = false;
}

void mem_stock_spoil(struct stock *s, struct item item, int64_t user_id, enum stock_row result)
{
    list_for_each (l, &existing(s, item)->records) {
        struct mem_record *rec = container_of(l, struct mem_record, link);
        if (rec->r.user_id == user_id)
            rec->result = result;
    }
}

void mem_stock_put_junk(struct stock *s, struct item item, int64_t created_at_ms, int n)
{
    struct mem_item *it = existing(s, item);
    for (int i = 0; i < n; i++) {
        const struct reservation r = {.created_at_ms = created_at_ms,
                                      .status = RESERVATION_RELEASED};
        struct mem_record *rec = mem_store_add_record(it, &r);
        rec->result = STOCK_ROW_UNREADABLE;
        list_remove(&rec->link);
        list_push_front(&it->records, &rec->link);
    }
}

int64_t mem_stock_pending(struct stock *s, struct item item)
{
    int64_t n = 0;
    list_for_each (l, &existing(s, item)->records)
        n += container_of(l, struct mem_record, link)->pending;
    return n;
}

bool mem_stock_info(struct stock *s, struct item item, struct stock_item_info *info)
{
    struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    if (!it || !it->meta)
        return false;
    mem_store_info(mem_stock_store(s), it, info);
    return true;
}

const struct reservation *mem_stock_find(struct stock *s, struct item item, int64_t user_id,
                                         const struct uuid *request_id)
{
    struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    struct mem_record *rec = it ? mem_store_record(it, user_id, request_id) : NULL;
    return rec ? &rec->r : NULL;
}

int64_t mem_stock_units_held(struct stock *s, struct item item)
{
    int64_t held = 0;
    list_for_each (l, &existing(s, item)->records)
        held += container_of(l, struct mem_record, link)->r.status != RESERVATION_RELEASED;
    return held;
}

void mem_stock_news_start(struct stock *s, struct stock_news *news)
{
    struct mem_store *st = mem_stock_store(s);
    for (int i = 0; i < MEM_STORE_SUBSCRIBERS; i++) {
        if (!st->subscribers[i]) {
            st->subscribers[i] = news;
            mem_store_tell_link(st, news);
            return;
        }
    }
    panic("mem_stock: more than %d subscribers", MEM_STORE_SUBSCRIBERS);
}

void mem_stock_news_stop(struct stock *s, struct stock_news *news)
{
    struct mem_store *st = mem_stock_store(s);
    for (int i = 0; i < MEM_STORE_SUBSCRIBERS; i++) {
        if (st->subscribers[i] == news)
            st->subscribers[i] = NULL;
    }
}

void mem_stock_news_link(struct stock *s, bool up)
{
    struct mem_store *st = mem_stock_store(s);
    st->link_up = up;
    for (int i = 0; i < MEM_STORE_SUBSCRIBERS; i++) {
        if (st->subscribers[i])
            st->subscribers[i]->on_link(st->subscribers[i], up);
    }
}
