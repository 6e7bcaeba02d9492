/* Reconciliation's calls on the fake database, as sql/ answers them; and a test's ways to lose an
 * order. */
#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

static struct mem_reconciled *of_item(struct mem_db *db, struct item item)
{
    list_for_each (l, &db->reconciled) {
        struct mem_reconciled *r = container_of(l, struct mem_reconciled, link);
        if (item_eq(r->item, item))
            return r;
    }
    struct mem_reconciled *r = mem_alloc(sizeof *r);
    r->item = item;
    list_push_back(&db->reconciled, &r->link);
    return r;
}

static bool is_turn(const struct mem_db *db, const struct mem_reconciled *r, struct str life,
                    int64_t lease_ms)
{
    return !r->life[0] || str_eq(str_of(r->life), life) ||
           db->sched->now_us - r->beat_us > lease_ms * 1000;
}

int mem_orders_reconcile_begin(struct orders *o, const struct ctx *ctx, struct item item,
                               struct str life, int64_t lease_ms, struct orders_books *books)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RECONCILE_BEGIN);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    const struct mem_inventory *i = mem_db_inventory(db, item);
    struct mem_reconciled *r = of_item(db, item);
    if (!i || !is_turn(db, r, life, lease_ms))
        return mem_orders_leave(o, ctx, 1);
    str_copy(r->life, sizeof r->life, life);
    r->beat_us = db->sched->now_us;
    *books = (struct orders_books){.total = i->total,
                                   .sold = i->sold,
                                   .epoch = i->epoch,
                                   .timeline = db->timeline,
                                   .walked = r->walked,
                                   .asked = r->asked};
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_reconcile_asked(struct orders *o, const struct ctx *ctx, struct str life,
                               int64_t lease_ms, struct item *item)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RECONCILE_ASKED);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    list_for_each (l, &db->reconciled) {
        const struct mem_reconciled *r = container_of(l, struct mem_reconciled, link);
        if (r->asked && is_turn(db, r, life, lease_ms)) {
            *item = r->item;
            return mem_orders_leave(o, ctx, 0);
        }
    }
    return mem_orders_leave(o, ctx, 1);
}

static const struct mem_order *by_reservation(const struct mem_db *db, const struct uuid *id)
{
    list_for_each (l, &db->orders) {
        const struct mem_order *x = container_of(l, struct mem_order, link);
        if (uuid_eq(&x->o.reservation_id, id))
            return x;
    }
    return NULL;
}

static void look(const struct mem_db *db, struct orders_look *row)
{
    const struct mem_inbox *in = mem_db_inbox(db, &row->message_id);
    const struct mem_order *order = by_reservation(db, &row->reservation_id);
    row->inbox = in ? in->row : (struct orders_inbox){.message_id = row->message_id};
    row->order_status[0] = '\0';
    if (order)
        str_copy(row->order_status, sizeof row->order_status, str_of(order->o.status));
    row->ledger = order && mem_order_active(order) ? -1 : 0;
    row->unsettled = false;
    list_for_each (l, &db->outbox) {
        const struct mem_outbox *out = container_of(l, struct mem_outbox, link);
        row->unsettled |= !out->settled && uuid_eq(&out->row.reservation_id, &row->reservation_id);
    }
}

int mem_orders_reconcile_look(struct orders *o, const struct ctx *ctx, struct orders_look *rows,
                              int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RECONCILE_LOOK);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        look(mem_orders_db(o), &rows[i]);
    return mem_orders_leave(o, ctx, 0);
}

static int by_user(const void *a, const void *b)
{
    const struct orders_active *x = a, *y = b;
    return x->user_id < y->user_id ? -1 : x->user_id > y->user_id;
}

int mem_orders_reconcile_orders(struct orders *o, const struct ctx *ctx, struct item item,
                                int64_t after_user, struct orders_active *rows, int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RECONCILE_ORDERS), max = *n, found = 0;
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    struct orders_active *all = mem_alloc(sizeof *all);
    list_for_each (l, &db->orders) {
        const struct mem_order *x = container_of(l, struct mem_order, link);
        if (!item_eq(x->o.item, item) || !mem_order_active(x) || x->o.user_id <= after_user)
            continue;
        all = realloc(all, ((size_t)found + 1) * sizeof *all);
        if (!all)
            panic("mem_orders: no memory");
        all[found++] = (struct orders_active){.user_id = x->o.user_id,
                                              .order_id = x->o.order_id,
                                              .request_id = x->o.request_id,
                                              .reservation_id = x->o.reservation_id,
                                              .message_id = x->message_id};
    }
    qsort(all, (size_t)found, sizeof *all, by_user);
    *n = found < max ? found : max;
    memcpy(rows, all, (size_t)*n * sizeof *all);
    free(all);
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_reconcile_end(struct orders *o, const struct ctx *ctx, struct str life,
                             const struct orders_reconciled *end)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RECONCILE_END);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    struct mem_reconciled *r = of_item(db, end->item);
    if (str_eq(str_of(r->life), life)) {
        r->beat_us = db->sched->now_us;
        r->walked = end->walked > r->walked ? end->walked : r->walked;
        r->asked &= !end->answered;
    }
    r->rounds++;
    str_copy(r->outcome, sizeof r->outcome, str_of(end->outcome));
    if (!str_copy(r->detail, sizeof r->detail, end->detail))
        panic("mem_orders: the detail does not fit");
    return mem_orders_leave(o, ctx, 0);
}

/* --- a test's hand --- */

const char *mem_db_reconciled(struct mem_db *db, struct item item, int *rounds)
{
    pthread_mutex_lock(&db->mutex);
    const struct mem_reconciled *r = of_item(db, item);
    if (rounds)
        *rounds = r->rounds;
    pthread_mutex_unlock(&db->mutex);
    return r->rounds > 0 ? r->outcome : "";
}

const char *mem_db_reconciled_detail(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    const char *detail = of_item(db, item)->detail;
    pthread_mutex_unlock(&db->mutex);
    return detail;
}

void mem_db_ask_reconcile(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    of_item(db, item)->asked = true;
    pthread_mutex_unlock(&db->mutex);
}

bool mem_db_asked_reconcile(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    bool asked = of_item(db, item)->asked;
    pthread_mutex_unlock(&db->mutex);
    return asked;
}

void mem_db_promote(struct mem_db *db)
{
    pthread_mutex_lock(&db->mutex);
    db->timeline++;
    pthread_mutex_unlock(&db->mutex);
}

void mem_db_set_total(struct mem_db *db, struct item item, int64_t total)
{
    pthread_mutex_lock(&db->mutex);
    mem_db_inventory(db, item)->total = total;
    pthread_mutex_unlock(&db->mutex);
}

void mem_db_settled_all(struct mem_db *db)
{
    pthread_mutex_lock(&db->mutex);
    list_for_each (l, &db->outbox)
        container_of(l, struct mem_outbox, link)->settled = true;
    pthread_mutex_unlock(&db->mutex);
}
