/* Cancels, payments, parked commands, expiry: sql/0007_commands.sql and what came after it. */
#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"
#include "base/clock.h"

/* Columns of seckill_cancel; seckill_pay has the first four, and the order. */
enum { ORD, RESULT, REASON, FRESH, ORDER, RESERVATION, OUTBOX };

static int read_outcome(struct str name, enum orders_command_outcome *out)
{
    for (int i = 0; i < ORDERS_COMMAND_OUTCOMES; i++) {
        if (str_eq(name, str_of(orders_command_name((enum orders_command_outcome)i)))) {
            *out = (enum orders_command_outcome)i;
            return 0;
        }
    }
    return ERR_INTERNAL;
}

static int read_rows(const PGresult *r, struct orders_command *rows, int n, bool settles)
{
    if (PQntuples(r) != n)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++)
        rows[i].outbox_id = -1;
    for (int i = 0; i < n; i++) {
        int ord = pg_i32(r, i, ORD);
        if (ord < 1 || ord > n || rows[ord - 1].outbox_id != -1)
            return ERR_INTERNAL;
        struct orders_command *row = &rows[ord - 1];
        if (read_outcome(pg_str(r, i, RESULT), &row->outcome))
            return ERR_INTERNAL;
        str_copy(row->reason, sizeof row->reason, pg_str(r, i, REASON));
        row->fresh = pg_bool(r, i, FRESH);
        row->outbox_id = settles ? pg_i64(r, i, OUTBOX) : 0;
        row->settle_reservation_id = settles ? pg_uuid(r, i, RESERVATION) : (struct uuid){{0}};
    }
    return 0;
}

static void add_rows(struct pg_args *a, struct item item, const struct orders_command *rows, int n)
{
    const size_t stride = sizeof *rows;
    pg_add_i64(a, item.activity_id);
    pg_add_i64(a, item.sku_id);
    pg_add_uuids(a, &rows->message_id, stride, n);
    pg_add_i64s(a, &rows->user_id, stride, n);
    pg_add_uuids(a, &rows->request_id, stride, n);
    pg_add_uuids(a, &rows->reservation_id, stride, n);
    pg_add_i64s(a, &rows->order_id, stride, n);
    pg_add_byteas(a, &rows->body, stride, n);
}

static int run(struct pg_conn *c, const struct ctx *ctx, const char *sql, struct pg_args *a,
               const char *kinds, struct orders_command *rows, int n, bool settles)
{
    int64_t begin = clock_mono_us();
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES, sql, a, kinds, &r);
    if (rc == 0)
        rc = read_rows(r, rows, n, settles);
    pg_metrics_tx(rc, clock_mono_us() - begin);
    return rc;
}

int pg_cancel_orders(struct orders *o, const struct ctx *ctx, struct item item,
                     struct orders_command *rows, int n, bool give_up)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    add_rows(&a, item, rows, n);
    pg_add_bool(&a, give_up);
    return run(c, ctx,
               "SELECT ord, result, reason, fresh, order_id, reservation_id, outbox_id "
               "FROM seckill_cancel($1, $2, $3, $4, $5, $6, $7, $8, $9)",
               &a, "ittbquq", rows, n, true);
}

int pg_pay_orders(struct orders *o, const struct ctx *ctx, struct item item,
                  struct orders_command *rows, int n, bool give_up)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    add_rows(&a, item, rows, n);
    pg_add_texts(&a, &rows->payment_id, sizeof *rows, n);
    pg_add_i64s(&a, &rows->accepted_at_ms, sizeof *rows, n);
    pg_add_bool(&a, give_up);
    return run(c, ctx,
               "SELECT ord, result, reason, fresh, order_id "
               "FROM seckill_pay($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
               &a, "ittbq", rows, n, false);
}

int pg_park(struct orders *o, const struct ctx *ctx, struct item item, enum event_command kind,
            const struct orders_command *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    add_rows(&a, item, rows, max);
    pg_add_texts(&a, &rows->payment_id, sizeof *rows, max);
    pg_add_i64s(&a, &rows->accepted_at_ms, sizeof *rows, max);
    pg_add_text(&a, str_of(event_command_name(kind)));
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT seckill_park($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", &a,
                           "i", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    *n = pg_i32(r, 0, 0);
    return 0;
}

int pg_parked(struct orders *o, const struct ctx *ctx, int64_t give_up_ms,
              struct orders_parked *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i32(&a, max);
    pg_add_i64(&a, give_up_ms);
    *n = 0;
    PG_RESULT r = NULL;
    /* It claims rows, but a claim whose answer is lost only ends after a second. */
    int rc = pg_conn_query(c, ctx, PG_READS,
                           "SELECT message_id, body, given_up FROM seckill_parked($1, $2)", &a,
                           "uyb", &r);
    if (rc)
        return rc;
    if (PQntuples(r) > max)
        return ERR_INTERNAL;
    for (int i = 0; i < PQntuples(r); i++) {
        struct str body = pg_str(r, i, 1);
        struct orders_parked *row = &rows[(*n)++];
        row->message_id = pg_uuid(r, i, 0);
        row->given_up = pg_bool(r, i, 2);
        row->body_len = body.len <= sizeof row->body ? body.len : 0;
        if (row->body_len > 0)
            memcpy(row->body, body.ptr, row->body_len);
    }
    return 0;
}

int pg_parked_failed(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids, int n,
                     const char *error_kind, int max_attempts, int *quarantined)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, message_ids, sizeof *message_ids, n);
    pg_add_text(&a, str_of(error_kind));
    pg_add_i32(&a, max_attempts);
    PG_RESULT r = NULL;
    int rc =
        pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_parked_failed($1, $2, $3)", &a, "i", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    *quarantined = pg_i32(r, 0, 0);
    return 0;
}

int pg_expire(struct orders *o, const struct ctx *ctx, struct item item, int64_t created_before_ms,
              int64_t pay_within_ms, struct orders_unsettled *rows, int *n)
{
    struct pg_conn *c = pg_orders_conn(o);
    int max = *n;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_i64(&a, created_before_ms);
    pg_add_i64(&a, pay_within_ms);
    pg_add_i32(&a, max);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES,
                           "SELECT " PG_OUTBOX_COLUMNS " FROM seckill_expire($1, $2, $3, $4, $5)",
                           &a, PG_OUTBOX_KINDS, &r);
    return rc ? rc : pg_outbox_rows(r, rows, max, n);
}
