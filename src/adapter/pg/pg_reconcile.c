/* Reconciliation (rule 40): the functions of sql/, one call each. */
#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"

int pg_reconcile_begin(struct orders *o, const struct ctx *ctx, struct item item, struct str life,
                       int64_t lease_ms, struct orders_books *books)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_text(&a, life);
    pg_add_i64(&a, lease_ms);
    PG_RESULT r = NULL;
    /* A lease taken and not known to be is taken again, or ends: no unknown write. */
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT total_stock, sold_stock, epoch, timeline, walked, asked FROM "
                           "seckill_reconcile_begin($1, $2, $3, $4)",
                           &a, "iiqqqb", &r);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *books = (struct orders_books){pg_i32(r, 0, 0), pg_i32(r, 0, 1), pg_i64(r, 0, 2),
                                   pg_i64(r, 0, 3), pg_i64(r, 0, 4), pg_bool(r, 0, 5)};
    return 0;
}

int pg_reconcile_asked(struct orders *o, const struct ctx *ctx, struct str life, int64_t lease_ms,
                       struct item *item)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_text(&a, life);
    pg_add_i64(&a, lease_ms);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT activity_id, sku_id FROM seckill_reconcile_asked($1, $2)", &a,
                           "qq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *item = (struct item){pg_i64(r, 0, 0), pg_i64(r, 0, 1)};
    return 0;
}

/* ord, found, then as seckill_inbox from column 2 on, then the order, the outbox, the ledger. */
static void take_look(const PGresult *r, int i, struct orders_look *row)
{
    row->inbox = (struct orders_inbox){.message_id = row->message_id};
    if (pg_bool(r, i, 1) && pg_inbox_row(r, i, 2, &row->message_id, &row->inbox)) {
        pg_metrics_unreadable("consumer_inbox", pg_str(r, i, 3), pg_str(r, i, 4));
        row->inbox = (struct orders_inbox){
            .found = true, .message_id = row->message_id, .status = ORDERS_UNREADABLE};
    }
    row->order_status[0] = '\0';
    str_copy(row->order_status, sizeof row->order_status, pg_str(r, i, 10));
    row->unsettled = pg_bool(r, i, 11);
    row->ledger = pg_i64(r, i, 12);
}

int pg_reconcile_look(struct orders *o, const struct ctx *ctx, struct orders_look *rows, int n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, &rows[0].message_id, sizeof rows[0], n);
    pg_add_uuids(&a, &rows[0].reservation_id, sizeof rows[0], n);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT ord, found, status, state, reason, order_id, give_back, "
                           "other_order_id, other_reservation_id, other_request_id, order_status, "
                           "unsettled, ledger FROM seckill_reconcile_look($1, $2)",
                           &a, "ib" PG_INBOX_KINDS "tbq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != n)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++) {
        int ord = pg_i32(r, i, 0);
        if (ord < 1 || ord > n)
            return ERR_INTERNAL;
        take_look(r, i, &rows[ord - 1]);
    }
    return 0;
}

int pg_reconcile_orders(struct orders *o, const struct ctx *ctx, struct item item,
                        int64_t after_user, struct orders_active *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    int max = *n;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_i64(&a, after_user);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT user_id, request_id, reservation_id, message_id, order_id FROM "
                           "seckill_reconcile_orders($1, $2, $3, $4)",
                           &a, "quuuq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++)
        rows[i] = (struct orders_active){.user_id = pg_i64(r, i, 0),
                                         .request_id = pg_uuid(r, i, 1),
                                         .reservation_id = pg_uuid(r, i, 2),
                                         .message_id = pg_uuid(r, i, 3),
                                         .order_id = pg_i64(r, i, 4)};
    *n = PQntuples(r);
    return 0;
}

int pg_reconcile_end(struct orders *o, const struct ctx *ctx, struct str life,
                     const struct orders_reconciled *end)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, end->item.activity_id);
    pg_add_i64(&a, end->item.sku_id);
    pg_add_text(&a, life);
    pg_add_i64(&a, end->started_ms);
    pg_add_text(&a, str_of(end->outcome));
    pg_add_text(&a, end->detail);
    pg_add_i64(&a, end->walked);
    pg_add_bool(&a, end->answered);
    PG_RESULT r = NULL;
    return pg_conn_query(
        c, ctx, PG_WRITES,
        "SELECT seckill_reconcile_end($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8)", &a, "q", &r);
}
