/* Reads of query-api, and of items. */
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"

int pg_find_request(struct orders *o, const struct ctx *ctx, struct item item, int64_t user_id,
                    const struct uuid *request_id, struct orders_inbox *row,
                    struct orders_order *order)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_i64(&a, user_id);
    pg_add_uuid(&a, request_id);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT message_id, status, state, reason, inbox_order_id, give_back, other_order_id, "
        "other_reservation_id, other_request_id, order_id, reservation_id, created_ms, updated_ms, "
        "order_status, cancel FROM seckill_find_request($1, $2, $3, $4)",
        &a, "u" PG_INBOX_KINDS "quqqtt", &r);
    if (rc)
        return rc;
    *row = (struct orders_inbox){0};
    *order = (struct orders_order){0};
    if (PQntuples(r) == 0)
        return 1;
    if (!PQgetisnull(r, 0, 0)) {
        struct uuid message_id = pg_uuid(r, 0, 0);
        rc = pg_inbox_row(r, 0, 1, &message_id, row);
        if (rc)
            return rc;
    }
    str_copy(row->cancel, sizeof row->cancel, pg_str(r, 0, 14));
    if (!PQgetisnull(r, 0, 9)) {
        *order = (struct orders_order){
            .item = item,
            .order_id = pg_i64(r, 0, 9),
            .user_id = user_id,
            .request_id = *request_id,
            .reservation_id = pg_uuid(r, 0, 10),
            .created_at_ms = pg_i64(r, 0, 11),
            .updated_at_ms = pg_i64(r, 0, 12),
        };
        str_copy(order->status, sizeof order->status, pg_str(r, 0, 13));
    }
    return 0;
}

int pg_find_order(struct orders *o, const struct ctx *ctx, int64_t order_id,
                  struct orders_order *order)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, order_id);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT activity_id, sku_id, user_id, request_id, reservation_id, " PG_MS(
            "created_at") ", " PG_MS("updated_at") ", status FROM orders WHERE order_id = $1",
        &a, "qqquuqqt", &r);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *order = (struct orders_order){
        .item = {pg_i64(r, 0, 0), pg_i64(r, 0, 1)},
        .order_id = order_id,
        .user_id = pg_i64(r, 0, 2),
        .request_id = pg_uuid(r, 0, 3),
        .reservation_id = pg_uuid(r, 0, 4),
        .created_at_ms = pg_i64(r, 0, 5),
        .updated_at_ms = pg_i64(r, 0, 6),
    };
    str_copy(order->status, sizeof order->status, pg_str(r, 0, 7));
    return 0;
}

int pg_inventory(struct orders *o, const struct ctx *ctx, struct item item,
                 struct orders_inventory *inv)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT i.total_stock::bigint, i.sold_stock::bigint, i.epoch, i.warmed_at IS NOT "
        "NULL, " PG_MS("a.expires_at") ", " PG_MS(
            "clock_timestamp()") ", seckill_lost_epoch($1, $2, true) FROM seckill_inventory i JOIN "
                                 "activities a USING (activity_id, sku_id) WHERE i.activity_id = "
                                 "$1 AND i.sku_id = $2",
        &a, "qqqbqqq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *inv = (struct orders_inventory){.total = pg_i64(r, 0, 0),
                                     .sold = pg_i64(r, 0, 1),
                                     .epoch = pg_i64(r, 0, 2),
                                     .warmed = pg_bool(r, 0, 3),
                                     .expires_ms = pg_i64(r, 0, 4),
                                     .now_ms = pg_i64(r, 0, 5),
                                     .lost_epoch = pg_i64(r, 0, 6)};
    return 0;
}

int pg_warmed(struct orders *o, const struct ctx *ctx, struct item *items, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    int max = *n;
    pg_args_init(&a, &c->buf);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT i.activity_id, i.sku_id FROM seckill_inventory i JOIN activities a USING "
        "(activity_id, sku_id) WHERE i.warmed_at IS NOT NULL AND a.expires_at > clock_timestamp() "
        "ORDER BY 1, 2 LIMIT $1",
        &a, "qq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++)
        items[i] = (struct item){pg_i64(r, i, 0), pg_i64(r, i, 1)};
    *n = PQntuples(r);
    return 0;
}
