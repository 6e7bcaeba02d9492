#include "adapter/mem/mem_store.h"

#include <stdlib.h>
#include <string.h>

struct saved_item {
    struct mem_item item; /* its lists and maps are not used */
    struct mem_record *records;
    struct mem_remembered *commands;
    struct reservation *buyers;
    int n_records, n_commands, n_buyers;
};

struct mem_stock_snapshot {
    struct saved_item *items;
    int n;
};

static int count(const struct list *of)
{
    int n = 0;
    list_for_each (l, of)
        n++;
    return n;
}

static void save(struct saved_item *to, const struct mem_item *it)
{
    int i = 0;
    to->item = *it;
    to->n_records = count(&it->records);
    to->records = mem_alloc((size_t)to->n_records * sizeof to->records[0]);
    list_for_each (l, &it->records)
        to->records[i++] = *container_of(l, struct mem_record, link);
    to->n_commands = count(&it->commands);
    to->commands = mem_alloc((size_t)to->n_commands * sizeof to->commands[0]);
    i = 0;
    list_for_each (l, &it->commands)
        to->commands[i++] = *container_of(l, struct mem_remembered, link);
    to->buyers = mem_alloc(it->buyers.n * sizeof to->buyers[0]);
    size_t at = 0;
    uint64_t user, value;
    while (map_next(&it->buyers, &at, &user, &value)) {
        struct reservation *r = &to->buyers[to->n_buyers++];
        *r = *(const struct reservation *)(uintptr_t)value;
        r->user_id = (int64_t)user;
    }
}

struct mem_stock_snapshot *mem_stock_snapshot(struct stock *s)
{
    struct mem_store *st = mem_stock_store(s);
    struct mem_stock_snapshot *snap = mem_alloc(sizeof *snap);
    snap->items = mem_alloc((size_t)count(&st->items) * sizeof snap->items[0]);
    list_for_each (l, &st->items)
        save(&snap->items[snap->n++], container_of(l, struct mem_item, link));
    return snap;
}

static void restore(struct mem_item *it, const struct saved_item *from)
{
    const struct mem_item *was = &from->item;
    mem_store_empty_item(it);
    it->meta = was->meta;
    it->listed = was->listed;
    it->suspect = was->suspect;
    it->version = was->version;
    it->state = was->state;
    it->total = was->total;
    it->free = was->free;
    it->starts_ms = was->starts_ms;
    it->ends_ms = was->ends_ms;
    it->expires_ms = was->expires_ms;
    it->rebuild = was->rebuild;
    it->step = was->step;
    it->after = was->after;
    for (int i = 0; i < from->n_records; i++) {
        struct mem_record *rec = mem_store_add_record(it, &from->records[i].r);
        rec->pending = from->records[i].pending;
        rec->result = from->records[i].result;
    }
    for (int i = 0; i < from->n_commands; i++) {
        struct mem_remembered *m = mem_alloc(sizeof *m);
        m->at_ms = from->commands[i].at_ms;
        m->command = from->commands[i].command;
        list_push_back(&it->commands, &m->link);
    }
    for (int i = 0; i < from->n_buyers; i++) {
        const struct reservation *b = &from->buyers[i];
        mem_store_set_buyer(it, b->user_id, &b->reservation_id, b->order_id, &b->request_id);
    }
}

void mem_stock_restore(struct stock *s, const struct mem_stock_snapshot *snap)
{
    for (int i = 0; i < snap->n; i++)
        restore(mem_store_add_item(mem_stock_store(s), snap->items[i].item.item), &snap->items[i]);
}

void mem_stock_snapshot_free(struct mem_stock_snapshot *snap)
{
    for (int i = 0; snap && i < snap->n; i++) {
        free(snap->items[i].records);
        free(snap->items[i].commands);
        free(snap->items[i].buyers);
    }
    if (snap)
        free(snap->items);
    free(snap);
}
