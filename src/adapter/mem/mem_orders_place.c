/* The order function's outcomes (rules 16–19) over the fake database. One call is one transaction.
 */
#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include <stdlib.h>

static int poisoned(struct mem_db *db, const struct orders_row *rows, int n)
{
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = mem_db_poisoned(db, &rows[i].message_id);
    return rc;
}

/* Settled before: a redelivery hears the same. */
static void tell_known(const struct mem_inbox *in, struct orders_row *row)
{
    row->outcome = strcmp(in->row.status, "QUARANTINED") == 0 ? ORDERS_QUARANTINED : ORDERS_KNOWN;
    row->verdict = in->outcome.verdict;
    row->give_back = in->outcome.give_back;
    row->other_order_id = in->outcome.other_order_id;
    row->other_reservation_id = in->outcome.other_reservation_id;
    row->other_request_id = in->outcome.other_request_id;
    row->outbox_id = 0;
}

static void point_at(struct orders_row *row, const struct mem_order *o)
{
    row->other_order_id = o->o.order_id;
    row->other_reservation_id = o->o.reservation_id;
    row->other_request_id = o->o.request_id;
}

static void reject(struct orders_row *row, enum verdict_reason reason)
{
    row->outcome = ORDERS_REJECTED;
    row->verdict = verdict_of_reason(reason);
    row->give_back = verdict_returns_unit(row->verdict);
}

/* Rule 19, in its order. True when the row has its outcome. */
static bool conflicts(const struct mem_db *db, struct item item, struct orders_row *row)
{
    const struct mem_order *mine = mem_db_orders_of(db, row->user_id);
    for (const struct mem_order *o = mine; o; o = o->next_of_user) {
        if (!uuid_eq(&o->o.reservation_id, &row->reservation_id))
            continue;
        const struct mem_inbox *in = mem_db_inbox(db, &o->message_id);
        row->outcome = ORDERS_KNOWN;
        row->verdict = in->outcome.verdict;
        row->give_back = in->outcome.give_back;
        return true;
    }
    for (const struct mem_order *o = mine; o; o = o->next_of_user) {
        if (!uuid_eq(&o->o.request_id, &row->request_id))
            continue;
        if (!item_eq(o->o.item, item)) {
            reject(row, REASON_IDEMPOTENCY_KEY_REUSED);
            return true;
        }
        row->outcome = ORDERS_KNOWN;
        row->verdict = mem_db_inbox(db, &o->message_id)->outcome.verdict;
        row->give_back = true;
        point_at(row, o);
        return true;
    }
    for (const struct mem_order *o = mine; o; o = o->next_of_user) {
        if (item_eq(o->o.item, item) && mem_order_active(o)) {
            reject(row, REASON_ONE_USER_ONE_ORDER);
            point_at(row, o);
            return true;
        }
    }
    if (mem_db_order(db, row->order_id)) {
        reject(row, REASON_ID_COLLISION);
        return true;
    }
    return false;
}

static void place_fresh(struct mem_db *db, struct mem_inventory *inv, struct orders_row *row)
{
    const char *status = "REJECTED";
    row->give_back = false;
    row->other_order_id = 0;
    if (mem_db_is_lost(db, inv, row)) {
        reject(row, REASON_LOST_RESERVATION);
    } else if (!conflicts(db, inv->item, row)) {
        if (inv->sold < inv->total) {
            inv->sold++;
            if (row->version.epoch == inv->epoch && row->version.seq > inv->seq)
                inv->seq = row->version.seq;
            mem_db_add_order(db, inv->item, row);
            row->outcome = ORDERS_CREATED;
            row->verdict = (struct verdict){VERDICT_SUCCEEDED, REASON_NONE};
        } else {
            reject(row, REASON_PG_STOCK_EXHAUSTED);
        }
    }
    if (row->outcome == ORDERS_CREATED ||
        (row->outcome == ORDERS_KNOWN && row->verdict.state == VERDICT_SUCCEEDED))
        status = "COMPLETED";
    mem_db_add_inbox(db, inv->item, row, status);
    row->outbox_id = mem_db_add_outbox(db, inv->item, row);
    row->decided_at_ms = mem_clock_wall_ms(db->sched);
}

static int by_seq(const void *a, const void *b)
{
    const struct orders_row *x = *(struct orders_row *const *)a,
                            *y = *(struct orders_row *const *)b;
    int c = item_version_cmp(x->version, y->version);
    return c ? c : (x > y) - (x < y);
}

int mem_db_place(struct mem_db *db, struct item item, struct orders_row *rows, int n)
{
    int rc = poisoned(db, rows, n);
    struct mem_inventory *inv = mem_db_inventory(db, item);
    if (rc || n == 0)
        return rc;
    if (!inv)
        return ERR_NOTFOUND;
    /* Rule 18: when there are too few, the last by seq go without. */
    struct orders_row **order = mem_alloc((size_t)n * sizeof *order);
    for (int i = 0; i < n; i++)
        order[i] = &rows[i];
    qsort(order, (size_t)n, sizeof *order, by_seq);
    for (int i = 0; i < n; i++) {
        const struct mem_inbox *in = mem_db_inbox(db, &order[i]->message_id);
        if (in)
            tell_known(in, order[i]);
        else
            place_fresh(db, inv, order[i]);
    }
    free(order);
    return 0;
}
