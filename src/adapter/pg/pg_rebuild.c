/* Items that Redis may have lost, and their rebuild: sql/…_rebuild.sql. */
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"

static struct pg_conn *begin(struct orders *o, struct pg_args *a, struct item item, int64_t epoch)
{
    struct pg_conn *c = pg_orders_conn(o);
    pg_args_init(a, &c->buf);
    pg_add_i64(a, item.activity_id);
    pg_add_i64(a, item.sku_id);
    pg_add_i64(a, epoch);
    return c;
}

int pg_watch(struct orders *o, const struct ctx *ctx, struct orders_watched *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, PG_READS,
        "SELECT i.activity_id, i.sku_id, i.epoch, i.seq, (extract(epoch FROM clock_timestamp() - "
        "i.epoch_at) * 1000)::bigint, a.opened_at IS NOT NULL, i.rebuild_asked_at IS NOT NULL, "
        "r.epoch IS NOT NULL FROM seckill_inventory i JOIN activities a USING (activity_id, "
        "sku_id) LEFT JOIN rebuilds r ON r.activity_id = i.activity_id AND r.sku_id = i.sku_id AND "
        "r.epoch = i.epoch AND r.finished_at IS NULL WHERE i.warmed_at IS NOT NULL AND "
        "a.expires_at > clock_timestamp() + interval '60 seconds' ORDER BY 1, 2 LIMIT $1",
        &a, "qqqqqbbb", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++)
        rows[i] = (struct orders_watched){.item = {pg_i64(r, i, 0), pg_i64(r, i, 1)},
                                          .version = {pg_i64(r, i, 2), pg_i64(r, i, 3)},
                                          .epoch_age_ms = pg_i64(r, i, 4),
                                          .opened = pg_bool(r, i, 5),
                                          .asked = pg_bool(r, i, 6),
                                          .unfinished = pg_bool(r, i, 7)};
    *n = PQntuples(r);
    return 0;
}

int pg_rebuild_take(struct orders *o, const struct ctx *ctx, struct item item, int64_t from_epoch,
                    struct str life, struct str reason, int64_t max_hold_ms,
                    struct orders_rebuild *out)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, from_epoch);
    pg_add_text(&a, life);
    pg_add_text(&a, reason);
    pg_add_i64(&a, max_hold_ms);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT result, epoch, total, starts_ms, ends_ms, expires_ms, state "
                           "FROM seckill_rebuild_take($1, $2, $3, $4, $5, $6)",
                           &a, "tqqqqqt", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    if (str_eq(pg_str(r, 0, 0), STR("MOVED")))
        return 1;
    if (str_eq(pg_str(r, 0, 0), STR("BUSY")))
        return 2;
    *out = (struct orders_rebuild){.epoch = pg_i64(r, 0, 1),
                                   .total = pg_i64(r, 0, 2),
                                   .starts_ms = pg_i64(r, 0, 3),
                                   .ends_ms = pg_i64(r, 0, 4),
                                   .expires_ms = pg_i64(r, 0, 5)};
    str_copy(out->state, sizeof out->state, pg_str(r, 0, 6));
    return 0;
}

static int accepted(int rc, const PGresult *r)
{
    return rc ? rc : pg_bool(r, 0, 0) ? 0 : 1;
}

int pg_rebuild_keep(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                    const struct orders_hold *rows, int n)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, epoch);
    pg_add_uuids(&a, &rows->reservation_id, sizeof *rows, n);
    pg_add_uuids(&a, &rows->message_id, sizeof *rows, n);
    pg_add_uuids(&a, &rows->request_id, sizeof *rows, n);
    pg_add_i64s(&a, &rows->user_id, sizeof *rows, n);
    pg_add_i64s(&a, &rows->order_id, sizeof *rows, n);
    pg_add_i64s(&a, &rows->created_at_ms, sizeof *rows, n);
    pg_add_i64s(&a, &rows->epoch, sizeof *rows, n);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT seckill_rebuild_keep($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                           &a, "b", &r);
    return accepted(rc, r);
}

int pg_rebuild_count(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                     struct orders_held *held)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, epoch);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT total, ordered, live FROM seckill_rebuild_count($1, $2, $3)", &a,
                           "qqq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *held = (struct orders_held){pg_i64(r, 0, 0), pg_i64(r, 0, 1), pg_i64(r, 0, 2)};
    return 0;
}

int pg_rebuild_page(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                    const struct uuid *after, struct orders_hold *rows, int *n)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, epoch);
    int max = *n;
    pg_add_uuid(&a, after);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT reservation_id, message_id, request_id, user_id, order_id, "
                           "created_ms, ordered FROM seckill_rebuild_page($1, $2, $3, $4, $5)",
                           &a, "uuuqqqb", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++)
        rows[i] = (struct orders_hold){.reservation_id = pg_uuid(r, i, 0),
                                       .message_id = pg_uuid(r, i, 1),
                                       .request_id = pg_uuid(r, i, 2),
                                       .user_id = pg_i64(r, i, 3),
                                       .order_id = pg_i64(r, i, 4),
                                       .created_at_ms = pg_i64(r, i, 5),
                                       .ordered = pg_bool(r, i, 6)};
    *n = PQntuples(r);
    return 0;
}

int pg_rebuild_resettle(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch,
                        int64_t *from)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, epoch);
    pg_add_i64(&a, *from);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_rebuild_resettle($1, $2, $3, $4)", &a,
                           "q", &r);
    if (rc)
        return rc;
    *from = pg_i64(r, 0, 0);
    return *from < 0 ? 1 : 0;
}

int pg_rebuild_finish(struct orders *o, const struct ctx *ctx, struct item item, int64_t epoch)
{
    struct pg_args a;
    struct pg_conn *c = begin(o, &a, item, epoch);
    PG_RESULT r = NULL;
    int rc =
        pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_rebuild_finish($1, $2, $3)", &a, "b", &r);
    return accepted(rc, r);
}
