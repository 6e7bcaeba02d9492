/* Cancels, payments, parked commands and expiry over the fake database, as sql/0007_commands.sql
 * decides them. One call is one transaction. */
#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include <stdlib.h>

#define CLAIM_US 1000000

static struct mem_command *find(const struct mem_db *db, const struct uuid *message_id)
{
    list_for_each (l, &db->commands) {
        struct mem_command *c = container_of(l, struct mem_command, link);
        if (uuid_eq(&c->row.message_id, message_id))
            return c;
    }
    return NULL;
}

static struct mem_order *order_of(const struct mem_db *db, struct item item,
                                  const struct orders_command *row)
{
    for (struct mem_order *o = mem_db_orders_of(db, row->user_id); o; o = o->next_of_user) {
        if (uuid_eq(&o->o.request_id, &row->request_id) && item_eq(o->o.item, item))
            return o;
    }
    return NULL;
}

/* NULL: the reservation has no outcome yet. */
static const struct mem_inbox *ended(const struct mem_db *db, struct item item,
                                     const struct orders_command *row)
{
    size_t at = 0;
    uint64_t key, value;
    while (map_next(&db->by_message, &at, &key, &value)) {
        const struct mem_inbox *in = (const struct mem_inbox *)(uintptr_t)value;
        if (in->user_id == row->user_id && item_eq(in->item, item) &&
            uuid_eq(&in->request_id, &row->request_id) && strcmp(in->row.status, "REJECTED") == 0)
            return in;
    }
    return NULL;
}

static void decide(struct orders_command *row, enum orders_command_outcome o, struct str reason)
{
    row->outcome = o;
    str_copy(row->reason, sizeof row->reason, reason);
}

static void decide_cancel(struct mem_db *db, struct item item, struct orders_command *row,
                          bool give_up)
{
    struct mem_order *o = order_of(db, item, row);
    const struct mem_inbox *in = o ? NULL : ended(db, item, row);
    if (o && mem_db_end_order(db, o, REASON_CANCELLED, &row->outbox_id) == 0) {
        decide(row, ORDERS_CANCELLED, STR(""));
        row->settle_reservation_id = o->o.reservation_id;
    } else if (o && mem_order_active(o)) {
        decide(row, ORDERS_REFUSED, STR("PAID"));
    } else if (o) {
        decide(row, ORDERS_ALREADY, STR("CANCELLED"));
    } else if (in) {
        decide(row, ORDERS_NOTHING, verdict_reason_name(in->row.verdict.reason));
    } else if (give_up) {
        decide(row, ORDERS_NOTHING, STR("NO_OUTCOME"));
    } else {
        decide(row, ORDERS_PARKED, STR(""));
    }
}

static void decide_pay(struct mem_db *db, struct item item, struct orders_command *row,
                       bool give_up)
{
    struct mem_order *o = order_of(db, item, row);
    if (o && mem_order_active(o) && strcmp(o->o.status, "PAID") != 0) {
        str_copy(o->o.status, sizeof o->o.status, STR("PAID"));
        decide(row, ORDERS_PAID, STR(""));
    } else if (o) {
        decide(row, ORDERS_REFUNDED, mem_order_active(o) ? STR("ALREADY_PAID") : STR("CANCELLED"));
    } else if (give_up || ended(db, item, row)) {
        decide(row, ORDERS_REFUNDED, STR("NO_OUTCOME"));
    } else {
        decide(row, ORDERS_PARKED, STR(""));
    }
}

static void keep(struct mem_db *db, enum event_command kind, struct item item,
                 struct mem_command *c, const struct orders_command *row)
{
    if (!c) {
        c = mem_alloc(sizeof *c);
        c->kind = kind;
        c->item = item;
        c->parked_us = db->sched->now_us;
        c->body_len = row->body.len;
        memcpy(c->body, row->body.ptr, row->body.len);
        list_push_back(&db->commands, &c->link);
    }
    c->row = *row;
    c->row.body = c->row.payment_id = STR("");
    c->parked = row->outcome == ORDERS_PARKED;
}

static void run_one(struct mem_db *db, enum event_command kind, struct item item,
                    struct orders_command *row, bool give_up)
{
    struct mem_command *c = find(db, &row->message_id);
    row->outbox_id = 0;
    row->fresh = !c || c->parked;
    if (!row->fresh) {
        decide(row, c->row.outcome, str_of(c->row.reason));
        return;
    }
    if (kind == EVENT_CANCEL)
        decide_cancel(db, item, row, give_up);
    else
        decide_pay(db, item, row, give_up);
    keep(db, kind, item, c, row);
}

static int run(struct mem_db *db, enum event_command kind, struct item item,
               struct orders_command *rows, int n, bool give_up)
{
    for (int i = 0; i < n; i++) {
        int rc = mem_db_poisoned(db, &rows[i].message_id);
        if (rc)
            return rc;
    }
    if (!mem_db_inventory(db, item))
        return ERR_NOTFOUND;
    for (int i = 0; i < n; i++)
        run_one(db, kind, item, &rows[i], give_up);
    return 0;
}

static int call(struct orders *o, const struct ctx *ctx, enum event_command kind, struct item item,
                struct orders_command *rows, int n, bool give_up)
{
    int rc = mem_orders_enter(o, ctx, kind == EVENT_CANCEL ? MEM_ORDERS_CANCEL : MEM_ORDERS_PAY);
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    if (mem_orders_twice(o))
        run(db, kind, item, rows, n, give_up);
    return mem_orders_leave(o, ctx, run(db, kind, item, rows, n, give_up));
}

int mem_orders_cancel(struct orders *o, const struct ctx *ctx, struct item item,
                      struct orders_command *rows, int n, bool give_up)
{
    return call(o, ctx, EVENT_CANCEL, item, rows, n, give_up);
}

int mem_orders_pay(struct orders *o, const struct ctx *ctx, struct item item,
                   struct orders_command *rows, int n, bool give_up)
{
    return call(o, ctx, EVENT_PAY, item, rows, n, give_up);
}

int mem_orders_park(struct orders *o, const struct ctx *ctx, struct item item,
                    enum event_command kind, const struct orders_command *rows, int *n)
{
    int max = *n, rc = mem_orders_enter(o, ctx, MEM_ORDERS_PARK);
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    if (!mem_db_inventory(db, item))
        return mem_orders_leave(o, ctx, ERR_NOTFOUND);
    for (int i = 0; i < max; i++) {
        rc = mem_db_poisoned(db, &rows[i].message_id);
        if (rc)
            return mem_orders_leave(o, ctx, rc);
    }
    for (int i = 0; i < max; i++) {
        struct orders_command row = rows[i];
        if (find(db, &row.message_id))
            continue;
        row.outcome = ORDERS_PARKED;
        keep(db, kind, item, NULL, &row);
        ++*n;
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_parked(struct orders *o, const struct ctx *ctx, int64_t give_up_ms,
                      struct orders_parked *rows, int *n)
{
    int max = *n, rc = mem_orders_enter(o, ctx, MEM_ORDERS_PARKED);
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    int64_t now = db->sched->now_us;
    list_for_each (l, &db->commands) {
        struct mem_command *c = container_of(l, struct mem_command, link);
        bool due = order_of(db, c->item, &c->row) || ended(db, c->item, &c->row);
        bool old = now - c->parked_us >= give_up_ms * 1000;
        if (!c->parked || (!due && !old) || *n == max ||
            (c->claimed_us && now - c->claimed_us < CLAIM_US))
            continue;
        struct orders_parked *row = &rows[(*n)++];
        c->claimed_us = now;
        row->message_id = c->row.message_id;
        row->given_up = !due;
        row->body_len = c->body_len;
        memcpy(row->body, c->body, c->body_len);
    }
    return mem_orders_leave(o, ctx, 0);
}

int mem_orders_parked_failed(struct orders *o, const struct ctx *ctx, const struct uuid *ids, int n,
                             const char *error_kind, int max_attempts, int *quarantined)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_PARKED_FAILED);
    (void)error_kind;
    *quarantined = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    for (int i = 0; i < n; i++) {
        struct mem_command *c = find(db, &ids[i]);
        if (!c || !c->parked || mem_db_count_attempt(db, &ids[i]) < max_attempts)
            continue;
        mem_db_add_note(db, MEM_NOTE_DEAD_LETTER, &ids[i], "parked");
        c->parked = false;
        ++*quarantined;
    }
    return mem_orders_leave(o, ctx, 0);
}

static bool paid_in_time(const struct mem_db *db, const struct mem_order *o, int64_t within_ms)
{
    list_for_each (l, &db->commands) {
        const struct mem_command *c = container_of(l, struct mem_command, link);
        if (c->kind == EVENT_PAY && c->parked && order_of(db, c->item, &c->row) == o &&
            c->row.accepted_at_ms <= o->o.created_at_ms + within_ms)
            return true;
    }
    return false;
}

int mem_orders_expire(struct orders *o, const struct ctx *ctx, struct item item,
                      int64_t created_before_ms, int64_t pay_within_ms,
                      struct orders_unsettled *rows, int *n)
{
    int max = *n, rc = mem_orders_enter(o, ctx, MEM_ORDERS_EXPIRE);
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = mem_orders_db(o);
    list_for_each (l, &db->orders) {
        struct mem_order *order = container_of(l, struct mem_order, link);
        int64_t outbox_id;
        if (*n == max || !item_eq(order->o.item, item) ||
            order->o.created_at_ms >= created_before_ms || paid_in_time(db, order, pay_within_ms) ||
            mem_db_end_order(db, order, REASON_EXPIRED, &outbox_id))
            continue;
        rows[(*n)++] = (struct orders_unsettled){
            .outbox_id = outbox_id,
            .item = item,
            .user_id = order->o.user_id,
            .request_id = order->o.request_id,
            .reservation_id = order->o.reservation_id,
            .verdict = verdict_of_reason(REASON_EXPIRED),
            .give_back = true,
        };
    }
    return mem_orders_leave(o, ctx, 0);
}

/* --- straight access for tests --- */

static int count(struct mem_db *db, bool parked)
{
    int n = 0;
    pthread_mutex_lock(&db->mutex);
    list_for_each (l, &db->commands) {
        const struct mem_command *c = container_of(l, struct mem_command, link);
        n += parked ? c->parked : c->row.outcome == ORDERS_REFUNDED;
    }
    pthread_mutex_unlock(&db->mutex);
    return n;
}

int mem_db_parked(struct mem_db *db)
{
    return count(db, true);
}

int mem_db_refunds(struct mem_db *db)
{
    return count(db, false);
}

const char *mem_db_order_status(struct mem_db *db, int64_t order_id)
{
    pthread_mutex_lock(&db->mutex);
    const struct mem_order *o = mem_db_order(db, order_id);
    pthread_mutex_unlock(&db->mutex);
    return o ? o->o.status : "NONE";
}
