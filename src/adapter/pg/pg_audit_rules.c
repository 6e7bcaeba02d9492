/* The checks that are one statement in PostgreSQL. Each selects the names of its offenders. */
#include "adapter/pg/pg_audit.h"

#include "adapter/pg/pg_audit_query.h"
#include <stdio.h>

#define ACTIVE PG_AUDIT_ACTIVE
#define OF_ITEM PG_AUDIT_OF_ITEM
#define GROUP PG_AUDIT_GROUP

struct statement {
    enum pg_audit_rule rule;
    const char *sql; /* one text column: the offender's name */
    bool global;     /* over all items: without parameters */
};

static const struct statement statements[] = {
    {PG_AUDIT_I1,
     "SELECT format('sold_stock %s is not within 0 and total_stock %s', sold_stock, total_stock) "
     "FROM seckill_inventory WHERE " OF_ITEM " AND sold_stock NOT BETWEEN 0 AND total_stock"},
    {PG_AUDIT_I1, "SELECT format('%s active orders, but sold_stock is %s', o.n, i.sold_stock) "
                  "FROM seckill_inventory i, (SELECT count(*) AS n FROM orders WHERE " OF_ITEM
                  " AND status IN " ACTIVE ") o WHERE i." OF_ITEM " AND o.n <> i.sold_stock"},

    {PG_AUDIT_I2,
     "SELECT format('user %s: active orders %s', user_id, string_agg(order_id::text, ', ' "
     "ORDER BY order_id)) FROM orders WHERE " OF_ITEM " AND status IN " ACTIVE
     " GROUP BY user_id HAVING count(*) > 1"},

    /* A command is an acceptance, too (202): the sweep runs it within a second of the outcome. */
    {PG_AUDIT_I3,
     "SELECT format('user %s, request %s: %s %s waits, though the request has an outcome', "
     "w.user_id, w.request_id, w.command, w.message_id) FROM parked_commands w WHERE " OF_ITEM
     " AND w.done_at IS NULL AND w.parked_at < clock_timestamp() - INTERVAL '1 minute' AND EXISTS "
     "(SELECT 1 FROM consumer_inbox i WHERE i.user_id = w.user_id AND i.request_id = w.request_id "
     "AND i.activity_id = $1 AND i.sku_id = $2 AND i.command IS NULL AND i.status IN ('COMPLETED', "
     "'REJECTED') AND i.processed_at < clock_timestamp() - INTERVAL '1 minute')"},

    {PG_AUDIT_I4,
     "SELECT format('message %s: orders %s', message_id, string_agg(order_id::text, ', ' "
     "ORDER BY order_id)) FROM orders WHERE " OF_ITEM " GROUP BY message_id HAVING count(*) > 1"},
    {PG_AUDIT_I4, "SELECT format('request %s of user %s: orders %s', request_id, user_id, "
                  "string_agg(order_id::text, ', ' ORDER BY order_id)) FROM orders WHERE " OF_ITEM
                  " GROUP BY user_id, request_id HAVING count(*) > 1"},
    {PG_AUDIT_I4, "SELECT format('reservation %s: orders %s', reservation_id, "
                  "string_agg(order_id::text, ', ' ORDER BY order_id)) FROM orders WHERE " OF_ITEM
                  " GROUP BY reservation_id HAVING count(*) > 1"},
    {PG_AUDIT_I4, "SELECT format('order %s: its unit was not taken in the ledger', o.order_id) "
                  "FROM orders o WHERE " OF_ITEM
                  " AND NOT EXISTS (SELECT 1 FROM stock_ledger l WHERE l.reservation_id = "
                  "o.reservation_id AND l.delta = -1 AND l.kind = 'ORDER' AND l.order_id = "
                  "o.order_id AND l.activity_id = $1 AND l.sku_id = $2)"},
    {PG_AUDIT_I4,
     "SELECT format('reservation %s: the ledger took a unit for order %s, which is not "
     "there', l.reservation_id, l.order_id) FROM stock_ledger l WHERE " OF_ITEM
     " AND l.kind = 'ORDER' AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = "
     "l.order_id AND o.reservation_id = l.reservation_id)"},
    {PG_AUDIT_I4,
     "SELECT format('reservation %s: moved %s units as %s', reservation_id, delta, kind) "
     "FROM stock_ledger WHERE " OF_ITEM
     " AND (kind = 'ORDER' AND delta <> -1 OR kind IN ('CANCEL', 'EXPIRE', 'CLOSE') AND "
     "delta <> 1)"},
    {PG_AUDIT_I4,
     "SELECT format('order %s is %s: its unit came back %s times', o.order_id, o.status, "
     "count(l.*)) FROM orders o LEFT JOIN stock_ledger l ON l.reservation_id = "
     "o.reservation_id AND l.delta > 0 WHERE o.activity_id = $1 AND o.sku_id = $2 "
     "GROUP BY o.order_id, o.status HAVING count(l.*) <> CASE WHEN o.status IN " ACTIVE
     " THEN 0 ELSE 1 END"},
    {PG_AUDIT_I4, "SELECT format('order %s: message %s is not completed in the inbox', o.order_id, "
                  "o.message_id) FROM orders o WHERE " OF_ITEM
                  " AND NOT EXISTS (SELECT 1 FROM consumer_inbox i WHERE i.consumer_group = " GROUP
                  " AND i.message_id = o.message_id AND i.status = 'COMPLETED' AND i.order_id = "
                  "o.order_id)"},
    {PG_AUDIT_I4, "SELECT format('message %s is completed with order %s, which is not there', "
                  "i.message_id, i.order_id) FROM consumer_inbox i WHERE " OF_ITEM
                  " AND i.status = 'COMPLETED' AND NOT EXISTS (SELECT 1 FROM orders o WHERE "
                  "o.order_id = i.order_id)"},
    /* No join: outbox has no index on message_id, and on fresh tables the planner would loop. */
    {PG_AUDIT_I4, "SELECT format('message %s was told %s times', message_id, sum(told)) FROM ("
                  "SELECT message_id, 0 AS told, true AS settled FROM consumer_inbox WHERE " OF_ITEM
                  " AND command IS NULL AND status IN ('COMPLETED', 'REJECTED') UNION ALL "
                  "SELECT message_id, 1, false FROM outbox WHERE " OF_ITEM
                  " AND event_type IN ('ORDER_CREATED', 'RESERVATION_SETTLED', "
                  "'RESERVATION_REJECTED')) m GROUP BY message_id "
                  "HAVING bool_or(settled) AND sum(told) <> 1"},
    {PG_AUDIT_I4,
     "SELECT format('reservation %s: the ledger gave a unit back as %s of order %s, which is not "
     "there', l.reservation_id, l.kind, l.order_id) FROM stock_ledger l WHERE " OF_ITEM
     " AND l.kind IN ('CANCEL', 'EXPIRE', 'CLOSE') AND NOT EXISTS (SELECT 1 FROM orders o WHERE "
     "o.order_id = l.order_id AND o.reservation_id = l.reservation_id)"},

    /* Only what is in the list can be replayed. */
    {PG_AUDIT_I4, "SELECT format('message %s is in quarantine, and no dead letter', i.message_id) "
                  "FROM consumer_inbox i WHERE " OF_ITEM " AND i.status = 'QUARANTINED' AND NOT "
                  "EXISTS (SELECT 1 FROM dead_letters d WHERE d.message_id = i.message_id)"},

    /* What an order, its message and what was told about it say of the same thing. */
    {PG_AUDIT_I4, "SELECT format('order %s: its message %s says user %s, request %s, reservation "
                  "%s', o.order_id, i.message_id, i.user_id, i.request_id, i.reservation_id) "
                  "FROM orders o JOIN consumer_inbox i ON i.consumer_group = " GROUP
                  " AND i.message_id = o.message_id AND i.status = 'COMPLETED' WHERE "
                  "o.activity_id = $1 AND o.sku_id = $2 AND (i.user_id, i.request_id, "
                  "i.reservation_id, i.activity_id, i.sku_id) <> (o.user_id, o.request_id, "
                  "o.reservation_id, o.activity_id, o.sku_id)"},
    /* The order that stands for another message is of the same reservation or key (rule 19). */
    {PG_AUDIT_I4, "SELECT format('message %s is completed with order %s, which is of another "
                  "request', i.message_id, i.order_id) FROM consumer_inbox i JOIN orders o ON "
                  "o.order_id = i.order_id AND o.message_id <> i.message_id WHERE "
                  "i.activity_id = $1 AND i.sku_id = $2 AND i.status = 'COMPLETED' AND NOT "
                  "((o.user_id, o.activity_id, o.sku_id) = (i.user_id, $1, $2) AND "
                  "(o.reservation_id = i.reservation_id OR o.request_id = i.request_id))"},
    {PG_AUDIT_I4, "SELECT format('message %s names order %s, which is not of its buyer', "
                  "i.message_id, i.other_order_id) FROM consumer_inbox i WHERE " OF_ITEM
                  " AND i.other_order_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM orders o WHERE "
                  "o.order_id = i.other_order_id AND o.user_id = i.user_id AND o.activity_id = $1 "
                  "AND o.sku_id = $2)"},
    /* A row of the outbox is of its time: the order may have been closed since. */
    {PG_AUDIT_I4,
     "SELECT format('message %s: outbox row %s (%s) does not say what was decided', b.message_id, "
     "b.outbox_id, b.event_type) FROM outbox b "
     "LEFT JOIN consumer_inbox i ON i.consumer_group = " GROUP " AND i.message_id = b.message_id "
     "LEFT JOIN orders o ON o.order_id = i.order_id "
     "LEFT JOIN orders p ON p.order_id = b.other_order_id "
     "WHERE b.activity_id = $1 AND b.sku_id = $2 AND b.event_type IN ('ORDER_CREATED', "
     "'RESERVATION_SETTLED', 'RESERVATION_REJECTED') AND NOT COALESCE("
     "(b.user_id, b.request_id, b.reservation_id) = (i.user_id, i.request_id, i.reservation_id) "
     "AND (i.activity_id, i.sku_id) = ($1, $2) "
     "AND b.other_order_id IS NOT DISTINCT FROM i.other_order_id "
     "AND b.other_reservation_id IS NOT DISTINCT FROM p.reservation_id "
     "AND b.other_request_id IS NOT DISTINCT FROM p.request_id "
     "AND b.state = seckill_state(b.reason) AND CASE b.event_type "
     "WHEN 'ORDER_CREATED' THEN i.status = 'COMPLETED' AND b.order_id = i.order_id AND "
     "b.reason = '' AND NOT b.give_back "
     "WHEN 'RESERVATION_SETTLED' THEN i.status = 'COMPLETED' AND b.reason IN ('', "
     "seckill_order_reason(o.status, o.closed_reason)) AND "
     "b.give_back = (b.reason <> '' OR o.reservation_id <> i.reservation_id) "
     "ELSE i.status = 'REJECTED' AND b.reason = i.last_error_code AND "
     "b.give_back = (b.reason <> 'PG_STOCK_EXHAUSTED') END, false)"},
    {PG_AUDIT_I4,
     "SELECT format('order %s: outbox row %s (%s) does not say what was decided', b.order_id, "
     "b.outbox_id, b.event_type) FROM outbox b LEFT JOIN orders o ON o.order_id = b.order_id "
     "WHERE b.activity_id = $1 AND b.sku_id = $2 AND b.event_type = 'ORDER_CANCELLED' AND NOT "
     "COALESCE((b.user_id, b.request_id, b.reservation_id) = (o.user_id, o.request_id, "
     "o.reservation_id) AND (o.activity_id, o.sku_id) = ($1, $2) AND o.status IN ('CANCELLED', "
     "'CLOSED') AND b.reason = seckill_order_reason(o.status, o.closed_reason) AND "
     "b.state = seckill_state(b.reason) AND b.give_back, false)"},

    /* Money is taken once or given back once. */
    {PG_AUDIT_I4, "SELECT format('order %s is PAID by %s payments', o.order_id, (SELECT count(*) "
                  "FROM payments p WHERE p.order_id = o.order_id AND p.status = 'APPLIED')) FROM "
                  "orders o WHERE " OF_ITEM " AND o.status = 'PAID' AND (SELECT count(*) FROM "
                  "payments p WHERE p.order_id = o.order_id AND p.status = 'APPLIED') <> 1"},
    {PG_AUDIT_I4, "SELECT format('payment %s is APPLIED, order %s is not PAID', p.payment_id, "
                  "p.order_id) FROM payments p WHERE " OF_ITEM " AND p.status = 'APPLIED' AND NOT "
                  "EXISTS (SELECT 1 FROM orders o WHERE o.order_id = p.order_id AND o.status = "
                  "'PAID')"},
    {PG_AUDIT_I4, "SELECT format('payment %s is %s, with%s a refund', p.payment_id, p.status, CASE "
                  "WHEN r.payment_id IS NULL THEN 'out' ELSE '' END) FROM payments p LEFT JOIN "
                  "refunds r ON r.payment_id = p.payment_id WHERE " OF_ITEM
                  " AND (p.status = 'REFUNDED') <> (r.payment_id IS NOT NULL)"},

    {PG_AUDIT_I5,
     "SELECT format('the ledger says that %s are free, total_stock - sold_stock is %s', l.free, "
     "i.total_stock - i.sold_stock) FROM seckill_inventory i, (SELECT COALESCE(sum(delta), 0) AS "
     "free FROM stock_ledger WHERE " OF_ITEM ") l WHERE i." OF_ITEM
     " AND l.free <> i.total_stock - i.sold_stock"},
    /* There are no segments yet that units could be transferred between (rule 39). */
    {PG_AUDIT_I5, "SELECT format('reservation %s: %s units moved as %s, for nobody', "
                  "reservation_id, delta, kind) FROM stock_ledger WHERE " OF_ITEM
                  " AND kind NOT IN ('TOTAL', 'ORDER', 'CANCEL', 'EXPIRE', 'CLOSE')"},

    {PG_AUDIT_SEED_ONE_ORDER,
     "SELECT format('%s:%s user %s', activity_id, sku_id, user_id) FROM orders WHERE status IN "
     "('CREATED', 'PAYING', 'PAID') GROUP BY activity_id, sku_id, user_id HAVING COUNT(*) > 1",
     .global = true},
    {PG_AUDIT_SEED_OVERSOLD,
     "SELECT format('%s:%s sold %s of %s', activity_id, sku_id, sold_stock, total_stock) FROM "
     "seckill_inventory WHERE sold_stock > total_stock",
     .global = true},
    {PG_AUDIT_SEED_INBOX,
     "SELECT format('%s %s %s', consumer_group, message_id, status) FROM consumer_inbox WHERE "
     "status = 'PROCESSING' AND received_at < clock_timestamp() - INTERVAL '5 minutes'",
     .global = true},
};

static int check(struct pg_audit *a, const struct statement *s, int max,
                 void (*on_name)(void *arg, struct str name), void *arg, int64_t *unnamed)
{
    char sql[4096];
    PG_RESULT r = NULL;
    snprintf(sql, sizeof sql,
             "SELECT count(*) OVER (), name FROM (%s) AS bad (name) ORDER BY name LIMIT %d", s->sql,
             max);
    if (s->global)
        pg_args_init(&a->args, &a->conn.buf);
    else
        pg_audit_args(a);
    int rc = pg_audit_query(a, sql, "qt", &r);
    if (rc)
        return rc;
    int n = PQntuples(r);
    for (int i = 0; i < n; i++)
        on_name(arg, pg_str(r, i, 1));
    if (n > 0)
        *unnamed += pg_i64(r, 0, 0) - n;
    return 0;
}

int pg_audit_offenders(struct pg_audit *a, enum pg_audit_rule rule, int max,
                       void (*on_name)(void *arg, struct str name), void *arg, int64_t *unnamed)
{
    int rc = 0;
    *unnamed = 0;
    for (size_t i = 0; rc == 0 && i < sizeof statements / sizeof statements[0]; i++) {
        if (statements[i].rule == rule)
            rc = check(a, &statements[i], max, on_name, arg, unnamed);
    }
    return rc;
}
