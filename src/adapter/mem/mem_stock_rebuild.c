/* relist, unlist, reports, unreport and the steps of a rebuild: lua/rebuild_*.lua in plain C. */
#include "adapter/mem/mem_store.h"
#include "base/panic.h"
#include <stdlib.h>

/* --- the catalogue, the reports --- */

static int apply_relist(struct mem_call *c, void *request)
{
    const struct stock_relist *r = request;
    for (int i = 0; i < r->n; i++)
        mem_store_add_item(c->port, r->items[i])->listed = true;
    return 0;
}

static void keep_callers_items(struct mem_call *c, void *request, void *callers)
{
    (void)c;
    ((struct stock_relist *)request)->items = ((const struct stock_relist *)callers)->items;
}

void mem_op_relist(struct stock *s, struct stock_relist *r)
{
    struct mem_call *c = mem_stock_start(s, MEM_STOCK_RELIST, &r->op, sizeof *r, apply_relist);
    struct stock_relist *copy = (struct stock_relist *)c->request;
    c->aux = mem_alloc((size_t)r->n * sizeof r->items[0]);
    memcpy(c->aux, r->items, (size_t)r->n * sizeof r->items[0]);
    copy->items = c->aux;
    c->before_answer = keep_callers_items;
}

static int apply_unlist(struct mem_call *c, void *request)
{
    const struct stock_unlist *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (it)
        it->listed = false;
    return 0;
}

void mem_op_unlist(struct stock *s, struct stock_unlist *r)
{
    mem_stock_start(s, MEM_STOCK_UNLIST, &r->op, sizeof *r, apply_unlist);
}

static int apply_reports(struct mem_call *c, void *request)
{
    struct stock_reports *r = request;
    const struct mem_store *st = c->port;
    r->n = 0;
    list_for_each (l, &st->items) {
        const struct mem_item *it = container_of(l, struct mem_item, link);
        if (it->suspect && r->n < STOCK_REPORTS_MAX)
            r->items[r->n++] = it->item;
    }
    return 0;
}

void mem_op_reports(struct stock *s, struct stock_reports *r)
{
    mem_stock_start(s, MEM_STOCK_REPORTS, &r->op, sizeof *r, apply_reports);
}

static int apply_unreport(struct mem_call *c, void *request)
{
    const struct stock_unreport *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (it)
        it->suspect = false;
    return 0;
}

void mem_op_unreport(struct stock *s, struct stock_unreport *r)
{
    mem_stock_start(s, MEM_STOCK_UNREPORT, &r->op, sizeof *r, apply_unreport);
}

/* --- the steps --- */

static int apply_begin(struct mem_call *c, void *request)
{
    struct stock_rebuild_begin *r = request;
    struct mem_item *it = mem_store_add_item(c->port, r->item);
    int64_t had = it->meta ? it->version.epoch : 0;
    r->was_there = it->meta || it->buyers.n > 0;
    if (had > r->epoch || (had == r->epoch && it->rebuild != r->epoch))
        return 1;
    if (had == r->epoch)
        return 0;
    it->meta = true;
    it->version = (struct item_version){r->epoch, 0};
    it->state = r->after == STOCK_STATE_CLOSED ? STOCK_STATE_CLOSED : STOCK_STATE_PAUSED;
    it->after = r->after;
    it->total = r->total;
    it->free = 0;
    it->starts_ms = r->starts_ms;
    it->ends_ms = r->ends_ms;
    it->expires_ms = r->expires_ms;
    it->rebuild = r->epoch;
    it->step = 0;
    mem_store_publish(c->port, it);
    return 0;
}

void mem_op_rebuild_begin(struct stock *s, struct stock_rebuild_begin *r)
{
    mem_stock_start(s, MEM_STOCK_REBUILD_BEGIN, &r->op, sizeof *r, apply_begin);
}

static void empty(struct mem_item *it)
{
    size_t at = 0;
    uint64_t user, value;
    while (map_next(&it->buyers, &at, &user, &value)) {
        mem_store_remove_buyer(it, (int64_t)user);
        at = 0;
    }
    list_for_each (l, &it->records)
        container_of(l, struct mem_record, link)->pending = false;
}

static void restore(struct mem_item *it, const struct stock_hold *h)
{
    struct mem_record *rec = mem_store_record(it, h->user_id, &h->request_id);
    if (rec && !uuid_eq(&rec->r.reservation_id, &h->reservation_id)) {
        mem_store_remove_record(it, rec);
        rec = NULL;
    }
    if (!rec) {
        const struct reservation made = {.user_id = h->user_id,
                                         .order_id = h->order_id,
                                         .request_id = h->request_id,
                                         .reservation_id = h->reservation_id,
                                         .message_id = h->message_id,
                                         .status = RESERVATION_MQ_PENDING,
                                         .created_at_ms = h->created_at_ms,
                                         .verdict = {VERDICT_QUEUED, REASON_NONE}};
        rec = mem_store_add_record(it, &made);
    }
    rec->r.epoch = it->version.epoch;
    rec->r.seq = 0;
    rec->pending = !h->ordered;
    rec->r.status = RESERVATION_MQ_PENDING;
    if (h->ordered) {
        rec->r.status = RESERVATION_ORDERED;
        rec->r.verdict = (struct verdict){VERDICT_SUCCEEDED, REASON_NONE};
    }
    if (h->ordered || !mem_store_buyer(it, h->user_id))
        mem_store_set_buyer(it, h->user_id, &h->reservation_id, h->order_id, &h->request_id);
}

static int apply_restore(struct mem_call *c, void *request)
{
    const struct stock_rebuild_restore *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!it || !it->meta || it->version.epoch != r->epoch || it->rebuild != r->epoch ||
        r->step > it->step + 1)
        return 1;
    if (r->step <= it->step)
        return 0;
    if (r->step == 1)
        empty(it);
    for (int i = 0; i < r->n; i++)
        restore(it, &r->rows[i]);
    it->step = r->step;
    return 0;
}

static void keep_callers_rows(struct mem_call *c, void *request, void *callers)
{
    (void)c;
    ((struct stock_rebuild_restore *)request)->rows =
        ((const struct stock_rebuild_restore *)callers)->rows;
}

void mem_op_rebuild_restore(struct stock *s, struct stock_rebuild_restore *r)
{
    struct mem_call *c =
        mem_stock_start(s, MEM_STOCK_REBUILD_RESTORE, &r->op, sizeof *r, apply_restore);
    struct stock_rebuild_restore *copy = (struct stock_rebuild_restore *)c->request;
    c->aux = mem_alloc(((size_t)r->n + 1) * sizeof r->rows[0]);
    if (r->n > 0)
        memcpy(c->aux, r->rows, (size_t)r->n * sizeof r->rows[0]);
    copy->rows = c->aux;
    c->before_answer = keep_callers_rows;
}

static int apply_end(struct mem_call *c, void *request)
{
    const struct stock_rebuild_end *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!it || !it->meta || it->version.epoch != r->epoch || it->rebuild != r->epoch ||
        r->step != it->step + 1)
        return 1;
    it->total = r->total;
    it->free = r->free;
    it->state = it->after;
    it->rebuild = it->step = 0;
    it->version.seq++;
    mem_store_publish(c->port, it);
    return 0;
}

void mem_op_rebuild_end(struct stock *s, struct stock_rebuild_end *r)
{
    mem_stock_start(s, MEM_STOCK_REBUILD_END, &r->op, sizeof *r, apply_end);
}
