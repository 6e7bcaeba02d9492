/* The order function's call: sql/0002_place.sql. */
#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_orders.h"
#include "adapter/pg/pg_rows.h"
#include "base/clock.h"

/* Columns of seckill_place. */
enum {
    ORD,
    OUTCOME,
    STATE,
    REASON,
    GIVE_BACK,
    OTHER_ORDER,
    OTHER_RESERVATION,
    OTHER_REQUEST,
    OUTBOX,
    STEPS,
    NOW
};
enum { STEP_COUNT = 4 };

static int read_row(const PGresult *r, int i, struct orders_row *row)
{
    int outcome = pg_i32(r, i, OUTCOME);
    if (outcome < ORDERS_CREATED || outcome > ORDERS_QUARANTINED)
        return ERR_INTERNAL;
    row->outcome = (enum orders_outcome)outcome;
    row->give_back = pg_bool(r, i, GIVE_BACK);
    row->other_order_id = pg_i64(r, i, OTHER_ORDER);
    row->other_reservation_id = pg_uuid(r, i, OTHER_RESERVATION);
    row->other_request_id = pg_uuid(r, i, OTHER_REQUEST);
    row->outbox_id = pg_i64(r, i, OUTBOX);
    row->decided_at_ms = pg_i64(r, i, NOW);
    if (pg_verdict(r, i, STATE, &row->verdict) == 0)
        return 0;
    /* It has an outcome, and the one who knows it settles it: nothing more to do here. The others
     * of the batch are not harmed. */
    pg_metrics_unreadable("consumer_inbox", pg_str(r, i, STATE), pg_str(r, i, REASON));
    row->outcome = ORDERS_QUARANTINED;
    row->verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    row->give_back = false;
    return 0;
}

static void read_steps(const int64_t us[STEP_COUNT], struct orders_timing *timing)
{
    *timing = (struct orders_timing){
        .inbox_us = us[0], .orders_us = us[1], .finish_us = us[2], .inventory_us = us[3]};
}

/* One row for all: each became its own order. */
static int read_all_created(const PGresult *r, struct orders_row *rows, int n,
                            struct orders_timing *timing)
{
    int64_t us[STEP_COUNT];
    struct orders_row all;
    if (pg_i64_array(r, 0, STEPS, 0, us, STEP_COUNT) != STEP_COUNT)
        return ERR_INTERNAL;
    int rc = read_row(r, 0, &all);
    if (rc || all.outcome != ORDERS_CREATED)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++) {
        rows[i].outcome = all.outcome;
        rows[i].verdict = all.verdict;
        rows[i].decided_at_ms = all.decided_at_ms;
        rows[i].give_back = false;
        rows[i].other_order_id = 0;
        rows[i].other_reservation_id = rows[i].other_request_id = all.other_request_id;
        if (pg_i64_array(r, 0, STEPS, STEP_COUNT + i, &rows[i].outbox_id, 1) != 1)
            return ERR_INTERNAL;
    }
    read_steps(us, timing);
    return 0;
}

static int read_rows(const PGresult *r, struct orders_row *rows, int n,
                     struct orders_timing *timing)
{
    if (n > 0 && PQntuples(r) == 1 && pg_i32(r, 0, ORD) == 0)
        return read_all_created(r, rows, n, timing);
    if (PQntuples(r) != n)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++)
        rows[i].outbox_id = -1;
    for (int i = 0; i < n; i++) {
        int ord = pg_i32(r, i, ORD);
        if (ord < 1 || ord > n || rows[ord - 1].outbox_id != -1)
            return ERR_INTERNAL;
        int rc = read_row(r, i, &rows[ord - 1]);
        if (rc)
            return rc;
        int64_t us[STEP_COUNT];
        if (ord == 1 && pg_i64_array(r, i, STEPS, 0, us, STEP_COUNT) == STEP_COUNT)
            read_steps(us, timing);
    }
    return 0;
}

int pg_place(struct orders *o, const struct ctx *ctx, struct item item, struct orders_row *rows,
             int n, struct orders_timing *timing)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct orders_row none;
    const struct orders_row *f = n > 0 ? rows : &none; /* the probe's columns are empty */
    const size_t stride = sizeof *rows;
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, item.activity_id);
    pg_add_i64(&a, item.sku_id);
    pg_add_uuids(&a, &f->message_id, stride, n);
    pg_add_uuids(&a, &f->request_id, stride, n);
    pg_add_uuids(&a, &f->reservation_id, stride, n);
    pg_add_i64s(&a, &f->user_id, stride, n);
    pg_add_i64s(&a, &f->order_id, stride, n);
    pg_add_i64s(&a, &f->created_at_ms, stride, n);
    pg_add_i64s(&a, &f->version.epoch, stride, n);
    pg_add_i64s(&a, &f->version.seq, stride, n);
    *timing = (struct orders_timing){0};
    int64_t begin = clock_mono_us();
    PG_RESULT r = NULL;
    int rc = pg_conn_query(
        c, ctx, n > 0 ? PG_WRITES : PG_READS,
        "SELECT *, " PG_MS(
            "statement_timestamp()") " FROM "
                                     "seckill_place($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &a, "iittbquuqQq", &r);
    if (rc == 0)
        rc = read_rows(r, rows, n, timing);
    if (rc == 0 && n > 0)
        pg_metrics_steps(timing);
    if (n > 0)
        pg_metrics_tx(rc, clock_mono_us() - begin);
    return rc;
}

int pg_probe(struct orders *o, const struct ctx *ctx)
{
    struct orders_timing timing;
    return pg_place(o, ctx, (struct item){0, 0}, NULL, 0, &timing);
}
