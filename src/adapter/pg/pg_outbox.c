#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"

int pg_mark_settled(struct orders *o, const struct ctx *ctx, const int64_t *outbox_ids, int n,
                    bool tell)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64s(&a, outbox_ids, sizeof *outbox_ids, n);
    pg_add_bool(&a, tell);
    PG_RESULT r = NULL;
    return pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_mark_settled($1, $2)", &a, "i", &r);
}

int pg_mark_published(struct orders *o, const struct ctx *ctx, const int64_t *outbox_ids, int n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64s(&a, outbox_ids, sizeof *outbox_ids, n);
    PG_RESULT r = NULL;
    return pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_mark_published($1)", &a, "i", &r);
}

int pg_outbox_rows(const PGresult *r, struct orders_unsettled *rows, int max, int *n)
{
    *n = 0;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++) {
        struct orders_unsettled *row = &rows[*n];
        *row = (struct orders_unsettled){
            .outbox_id = pg_i64(r, i, 0),
            .item = {pg_i64(r, i, 1), pg_i64(r, i, 2)},
            .user_id = pg_i64(r, i, 3),
            .request_id = pg_uuid(r, i, 4),
            .reservation_id = pg_uuid(r, i, 5),
            .give_back = pg_bool(r, i, 8),
            .other_order_id = pg_i64(r, i, 9),
            .other_reservation_id = pg_uuid(r, i, 10),
            .other_request_id = pg_uuid(r, i, 11),
        };
        if (pg_verdict(r, i, 6, &row->verdict))
            pg_metrics_unreadable("outbox", pg_str(r, i, 6), pg_str(r, i, 7));
        else
            ++*n;
    }
    return 0;
}

int pg_unsettled(struct orders *o, const struct ctx *ctx, int64_t min_age_ms,
                 struct orders_unsettled *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, min_age_ms);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    /* It claims rows, but a claim whose answer is lost only ends after half a second. */
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT " PG_OUTBOX_COLUMNS " FROM seckill_unsettled($1, $2)", &a,
                           PG_OUTBOX_KINDS, &r);
    return rc ? rc : pg_outbox_rows(r, rows, max, n);
}

int pg_unpublished(struct orders *o, const struct ctx *ctx, int64_t claim_ms, struct result *rows,
                   int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, claim_ms);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    /* As in pg_unsettled. */
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT outbox_id, event_type, message_id, request_id, reservation_id, "
        "activity_id, sku_id, user_id, order_id, other_order_id, state, reason, " PG_MS(
            "created_at") " FROM seckill_unpublished($1, $2)",
        &a, "qtuuuqqqqqttq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++) {
        struct result *row = &rows[*n];
        *row = (struct result){
            .id = pg_i64(r, i, 0),
            .message_id = pg_uuid(r, i, 2),
            .request_id = pg_uuid(r, i, 3),
            .reservation_id = pg_uuid(r, i, 4),
            .item = {pg_i64(r, i, 5), pg_i64(r, i, 6)},
            .user_id = pg_i64(r, i, 7),
            .decided_at_ms = pg_i64(r, i, 12),
        };
        str_copy(row->event, sizeof row->event, pg_str(r, i, 1));
        if (pg_verdict(r, i, 10, &row->verdict)) {
            pg_metrics_unreadable("outbox", pg_str(r, i, 10), pg_str(r, i, 11));
            continue;
        }
        row->order_id = result_order(row->verdict, pg_i64(r, i, 8), pg_i64(r, i, 9));
        ++*n;
    }
    return 0;
}

int pg_unpublished_backlog(struct orders *o, const struct ctx *ctx, int max,
                           struct orders_unpublished *backlog)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i32(&a, max);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT waiting, oldest_ms FROM seckill_unpublished_backlog($1)", &a,
                           "qq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    *backlog = (struct orders_unpublished){pg_i64(r, 0, 0), pg_i64(r, 0, 1)};
    return 0;
}
