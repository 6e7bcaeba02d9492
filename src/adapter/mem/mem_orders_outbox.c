/* The outbox over the fake database: settling, publishing, and what retention takes of it. */
#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include <stdlib.h>

static struct mem_outbox *outbox_of(struct list *l)
{
    return container_of(l, struct mem_outbox, link);
}

static bool among(int64_t id, const int64_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

int mem_orders_mark_settled(struct orders *o, const struct ctx *ctx, const int64_t *ids, int n,
                            bool tell)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_MARK_SETTLED);
    if (rc)
        return rc;
    list_for_each (l, &mem_orders_db(o)->outbox) {
        struct mem_outbox *out = outbox_of(l);
        if (out->settled || !among(out->row.outbox_id, ids, n))
            continue;
        out->settled = true;
        out->published |= !tell;
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_unsettled(struct orders *o, const struct ctx *ctx, int64_t min_age_ms,
                         struct orders_unsettled *rows, int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_UNSETTLED), cap = *n;
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    list_for_each (l, &db->outbox) {
        const struct mem_outbox *out = outbox_of(l);
        if (!out->settled && *n < cap && out->created_us <= db->sched->now_us - min_age_ms * 1000)
            rows[(*n)++] = out->row;
    }
    return mem_orders_leave(o, ctx, 0);
}

static struct result result_of(const struct mem_db *db, const struct mem_outbox *out)
{
    const struct orders_unsettled *u = &out->row;
    struct result r = {.id = u->outbox_id,
                       .message_id = out->message_id,
                       .request_id = u->request_id,
                       .reservation_id = u->reservation_id,
                       .item = u->item,
                       .user_id = u->user_id,
                       .order_id = result_order(u->verdict, out->order_id, u->other_order_id),
                       .verdict = u->verdict,
                       .decided_at_ms = mem_clock_wall_ms(db->sched) -
                                        (db->sched->now_us - out->created_us) / 1000};
    str_copy(r.event, sizeof r.event,
             u->verdict.state == VERDICT_SUCCEEDED   ? STR("ORDER_CREATED")
             : u->verdict.state == VERDICT_CANCELLED ? STR("ORDER_CANCELLED")
                                                     : STR("RESERVATION_REJECTED"));
    return r;
}

int mem_orders_unpublished(struct orders *o, const struct ctx *ctx, int64_t claim_ms,
                           struct result *rows, int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_UNPUBLISHED), cap = *n;
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    list_for_each (l, &db->outbox) {
        struct mem_outbox *out = outbox_of(l);
        if (!out->settled || out->published || *n == cap ||
            (out->claimed_us && db->sched->now_us - out->claimed_us < claim_ms * 1000))
            continue;
        out->claimed_us = db->sched->now_us;
        rows[(*n)++] = result_of(db, out);
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_mark_published(struct orders *o, const struct ctx *ctx, const int64_t *ids, int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_MARK_PUBLISHED);
    if (rc)
        return rc;
    list_for_each (l, &mem_orders_db(o)->outbox)
        outbox_of(l)->published |= among(outbox_of(l)->row.outbox_id, ids, n);
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_unpublished_backlog(struct orders *o, const struct ctx *ctx, int max,
                                   struct orders_unpublished *backlog)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_UNPUBLISHED_BACKLOG);
    *backlog = (struct orders_unpublished){0};
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    list_for_each (l, &db->outbox) {
        const struct mem_outbox *out = outbox_of(l);
        int64_t age_ms = (db->sched->now_us - out->created_us) / 1000;
        if (!out->settled || out->published || backlog->waiting == max)
            continue;
        backlog->waiting++;
        if (age_ms > backlog->oldest_age_ms)
            backlog->oldest_age_ms = age_ms;
    }
    return mem_orders_leave(o, ctx, 0);
}

static bool over(const struct mem_db *db, struct item item, int64_t after_ms)
{
    const struct mem_inventory *i = mem_db_inventory(db, item);
    return i && i->expires_ms > 0 && i->expires_ms + after_ms < mem_clock_wall_ms(db->sched);
}

/* Of the outbox alone, which is what its conditions are about. */
int mem_orders_retain(struct orders *o, const struct ctx *ctx, const struct orders_retention *what,
                      struct orders_retained *taken)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_RETAIN);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    int left = what->max;
    list_for_each_safe (l, &db->outbox) {
        struct mem_outbox *out = outbox_of(l);
        if (left == 0 || !out->settled || (what->results && !out->published) ||
            !over(db, out->row.item, what->after_ms))
            continue;
        list_remove(&out->link);
        free(out);
        taken->rows[ORDERS_T_OUTBOX]++;
        left--;
    }
    taken->more |= left < what->max;
    return mem_orders_leave(o, ctx, 0);
}

/* --- straight access for tests --- */

int mem_db_outbox(struct mem_db *db, bool unpublished)
{
    int n = 0;
    pthread_mutex_lock(&db->mutex);
    list_for_each (l, &db->outbox)
        n += !unpublished || !outbox_of(l)->published;
    pthread_mutex_unlock(&db->mutex);
    return n;
}
