/* Items that the store lost, and their rebuild: sql/…_rebuild.sql in plain C. */
#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include <stdlib.h>

#define BUSY_US 3000000
#define OVER_SOON_MS 60000

struct mem_hold {
    struct list link;
    struct orders_hold h;
};
struct mem_over {
    struct list link;
    int64_t epoch, void_us, lost_us;
};

int mem_orders_watch(struct orders *o, const struct ctx *ctx, struct orders_watched *rows, int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_WATCH), max = *n;
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    int64_t soon_ms = mem_clock_wall_ms(db->sched) + OVER_SOON_MS;
    list_for_each (l, &db->inventory) {
        const struct mem_inventory *i = container_of(l, struct mem_inventory, link);
        int at = *n;
        if ((i->expires_ms > 0 && i->expires_ms <= soon_ms) || *n == max)
            continue;
        for (; at > 0 && (rows[at - 1].item.activity_id > i->item.activity_id ||
                          (rows[at - 1].item.activity_id == i->item.activity_id &&
                           rows[at - 1].item.sku_id > i->item.sku_id));
             at--)
            rows[at] = rows[at - 1];
        rows[at] = (struct orders_watched){.item = i->item,
                                           .version = {i->epoch, i->seq},
                                           .epoch_age_ms = (db->sched->now_us - i->epoch_us) / 1000,
                                           .opened = !i->unopened,
                                           .asked = i->asked,
                                           .unfinished = i->rebuilding};
        ++*n;
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_rebuild_take(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t from_epoch, struct str life, struct str reason,
                            int64_t max_hold_ms, struct orders_rebuild *out)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_TAKE);
    char name[sizeof(((struct mem_inventory *)0)->life)];
    (void)reason;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    struct mem_inventory *i = mem_db_inventory(db, item);
    int64_t now_ms = mem_clock_wall_ms(db->sched);
    if (!i || i->epoch != from_epoch)
        return mem_orders_leave(o, ctx, 1);
    str_copy(name, sizeof name, life);
    if (i->rebuilding && strcmp(i->life, name) != 0 && db->sched->now_us - i->beat_us < BUSY_US)
        return mem_orders_leave(o, ctx, 2);
    i->epoch++;
    i->seq = 0;
    i->epoch_us = i->beat_us = db->sched->now_us;
    i->max_hold_us = max_hold_ms * 1000;
    i->rebuilding = true;
    i->asked = false;
    memcpy(i->life, name, sizeof name);
    *out = (struct orders_rebuild){.epoch = i->epoch,
                                   .total = i->total,
                                   .starts_ms = now_ms - 1000,
                                   .ends_ms = now_ms + 3600000,
                                   .expires_ms = i->expires_ms ? i->expires_ms
                                                               : now_ms + 2 * INT64_C(86400000)};
    str_copy(out->state, sizeof out->state, STR("OPEN"));
    return mem_orders_leave(o, ctx, 0);
}

/* The item's attempt; NULL: refused. */
static struct mem_inventory *attempt(struct mem_db *db, struct item item, int64_t epoch)
{
    struct mem_inventory *i = mem_db_inventory(db, item);
    if (!i || i->epoch != epoch || !i->rebuilding)
        return NULL;
    i->beat_us = db->sched->now_us;
    return i;
}

/* By reservation id; the same one is there once. */
static void keep(struct mem_inventory *i, const struct orders_hold *row)
{
    struct list *at = &i->holds;
    list_for_each (l, &i->holds) {
        const struct mem_hold *h = container_of(l, struct mem_hold, link);
        int c = memcmp(&h->h.reservation_id, &row->reservation_id, sizeof(struct uuid));
        if (c == 0)
            return;
        if (c > 0) {
            at = l;
            break;
        }
    }
    struct mem_hold *made = mem_alloc(sizeof *made);
    made->h = *row;
    list_push_back(at, &made->link); /* before it */
}

int mem_orders_rebuild_keep(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t epoch, const struct orders_hold *rows, int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_KEEP);
    if (rc)
        return rc;
    struct mem_inventory *i = attempt(mem_orders_db(o), item, epoch);
    for (int k = 0; i && k < n; k++) {
        struct orders_row row = {.message_id = rows[k].message_id,
                                 .request_id = rows[k].request_id,
                                 .reservation_id = rows[k].reservation_id,
                                 .user_id = rows[k].user_id,
                                 .order_id = rows[k].order_id,
                                 .version.epoch = rows[k].epoch};
        if (mem_db_is_lost(mem_orders_db(o), i, &row))
            mem_db_void(mem_orders_db(o), item, &row, REASON_LOST_RESERVATION);
        keep(i, &rows[k]);
    }
    return mem_orders_leave(o, ctx, i ? 0 : 1);
}

static bool decided(struct mem_db *db, const struct orders_hold *h)
{
    const struct mem_inbox *in = mem_db_inbox(db, &h->message_id);
    if (in && strcmp(in->row.status, "QUARANTINED") != 0)
        return true;
    for (const struct mem_order *p = mem_db_orders_of(db, h->user_id); p; p = p->next_of_user) {
        if (uuid_eq(&p->o.request_id, &h->request_id))
            return true;
    }
    return false;
}

int mem_orders_rebuild_count(struct orders *o, const struct ctx *ctx, struct item item,
                             int64_t epoch, struct orders_held *held)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_COUNT);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    struct mem_inventory *i = attempt(db, item, epoch);
    if (!i)
        return mem_orders_leave(o, ctx, 1);
    *held = (struct orders_held){.total = i->total};
    list_for_each_safe (l, &i->holds) {
        struct mem_hold *h = container_of(l, struct mem_hold, link);
        if (h->h.ordered || decided(db, &h->h)) {
            list_remove(&h->link);
            free(h);
        } else {
            held->live++;
        }
    }
    list_for_each (l, &db->orders) {
        const struct mem_order *p = container_of(l, struct mem_order, link);
        if (!item_eq(p->o.item, item) || !mem_order_active(p))
            continue;
        held->ordered++;
        keep(i, &(struct orders_hold){.reservation_id = p->o.reservation_id,
                                      .message_id = p->message_id,
                                      .request_id = p->o.request_id,
                                      .user_id = p->o.user_id,
                                      .order_id = p->o.order_id,
                                      .created_at_ms = p->o.created_at_ms,
                                      .ordered = true});
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_rebuild_page(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t epoch, const struct uuid *after, struct orders_hold *rows,
                            int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_PAGE), max = *n;
    *n = 0;
    if (rc)
        return rc;
    struct mem_inventory *i = attempt(mem_orders_db(o), item, epoch);
    if (i) {
        list_for_each (l, &i->holds) {
            const struct mem_hold *h = container_of(l, struct mem_hold, link);
            if (*n < max && memcmp(&h->h.reservation_id, after, sizeof *after) > 0)
                rows[(*n)++] = h->h;
        }
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_rebuild_resettle(struct orders *o, const struct ctx *ctx, struct item item,
                                int64_t epoch, int64_t *from)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_RESETTLE);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    bool mine = attempt(db, item, epoch);
    if (mine) {
        list_for_each (l, &db->outbox) {
            struct mem_outbox *out = container_of(l, struct mem_outbox, link);
            if (item_eq(out->row.item, item))
                out->settled = false;
        }
    }
    *from = 0;
    return mem_orders_leave(o, ctx, mine ? 0 : 1);
}

static void note_over(struct mem_db *db, struct mem_inventory *i)
{
    struct mem_over *over = mem_alloc(sizeof *over);
    int64_t now = db->sched->now_us, hold = i->max_hold_us;
    int64_t early = hold - 15000000 > hold / 2 ? hold - 15000000 : hold / 2;
    *over = (struct mem_over){.epoch = i->epoch, .void_us = now + early, .lost_us = now + hold};
    list_push_back(&i->over, &over->link);
}

int mem_orders_rebuild_finish(struct orders *o, const struct ctx *ctx, struct item item,
                              int64_t epoch)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_REBUILD_FINISH);
    if (rc)
        return rc;
    struct mem_inventory *i = mem_db_inventory(mem_orders_db(o), item);
    if (!i || i->epoch != epoch)
        return mem_orders_leave(o, ctx, 1);
    if (i->rebuilding)
        note_over(mem_orders_db(o), i);
    i->rebuilding = false;
    list_for_each_safe (l, &i->holds) {
        struct mem_hold *h = container_of(l, struct mem_hold, link);
        if (h->h.ordered) {
            list_remove(&h->link);
            free(h);
        }
    }
    return mem_orders_leave(o, ctx, 0);
}

int64_t mem_db_lost_epoch(const struct mem_db *db, const struct mem_inventory *i, bool told)
{
    int64_t epoch = 0;
    list_for_each (l, &i->over) {
        const struct mem_over *over = container_of(l, struct mem_over, link);
        if (db->sched->now_us >= (told ? over->lost_us : over->void_us) && over->epoch > epoch)
            epoch = over->epoch;
    }
    return epoch;
}

const struct orders_hold *mem_db_kept(const struct mem_inventory *i, int64_t user_id,
                                      const struct uuid *request_id)
{
    list_for_each (l, &i->holds) {
        const struct orders_hold *h = &container_of(l, struct mem_hold, link)->h;
        if (!h->ordered && h->user_id == user_id && uuid_eq(&h->request_id, request_id))
            return h;
    }
    return NULL;
}

bool mem_db_is_lost(const struct mem_db *db, const struct mem_inventory *i,
                    const struct orders_row *row)
{
    if (row->version.epoch >= mem_db_lost_epoch(db, i, false) || mem_db_inbox(db, &row->message_id))
        return false;
    list_for_each (l, &i->holds) {
        if (uuid_eq(&container_of(l, struct mem_hold, link)->h.reservation_id,
                    &row->reservation_id))
            return false;
    }
    return true;
}

void mem_db_forget_rebuilds(struct mem_inventory *i)
{
    for (struct list *l; (l = list_pop_front(&i->over));)
        free(container_of(l, struct mem_over, link));
    for (struct list *l; (l = list_pop_front(&i->holds));)
        free(container_of(l, struct mem_hold, link));
}

void mem_db_rebuilt(struct mem_db *db, struct item item, int64_t epoch, int64_t max_hold_us)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_inventory *i = mem_db_inventory(db, item);
    i->epoch = epoch;
    i->max_hold_us = max_hold_us;
    note_over(db, i);
    pthread_mutex_unlock(&db->mutex);
}

void mem_db_ask_rebuild(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    mem_db_inventory(db, item)->asked = true;
    pthread_mutex_unlock(&db->mutex);
}

int64_t mem_db_epoch(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    int64_t epoch = mem_db_inventory(db, item)->epoch;
    pthread_mutex_unlock(&db->mutex);
    return epoch;
}
