/* The item's rows, page by page along the primary keys. */
#include "adapter/pg/pg_audit.h"

#include "adapter/pg/pg_audit_query.h"
#include "adapter/pg/pg_rows.h"
#include "base/clock.h"
#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

#define STATEMENT_US (INT64_C(120) * 1000 * 1000)
#define PAGE 20000

struct pg_audit *pg_audit_new(const char *conninfo, int64_t connect_us, struct item item)
{
    struct pg_audit *a = calloc(1, sizeof *a);
    if (!a)
        panic("pg: no memory");
    pg_conn_init(&a->conn, &(struct pg_config){.conninfo = conninfo,
                                               .connect_us = connect_us,
                                               .lifetime_us = INT64_C(3600) * 1000000,
                                               .application = "seckillctl audit"});
    a->item = item;
    return a;
}

void pg_audit_free(struct pg_audit *a)
{
    if (!a)
        return;
    pg_conn_deinit(&a->conn);
    free(a);
}

const char *pg_audit_error(const struct pg_audit *a)
{
    return a->err;
}

static int fail(struct pg_audit *a, int rc, const char *why)
{
    str_copy(a->err, sizeof a->err, str_of(why));
    return rc;
}

void pg_audit_args(struct pg_audit *a)
{
    pg_args_init(&a->args, &a->conn.buf);
    pg_add_i64(&a->args, a->item.activity_id);
    pg_add_i64(&a->args, a->item.sku_id);
}

int pg_audit_query(struct pg_audit *a, const char *sql, const char *kinds, PGresult **out)
{
    struct ctx ctx;
    ctx_init(&ctx, NULL, clock_mono_us() + STATEMENT_US);
    int rc = pg_conn_query(&a->conn, &ctx, PG_READS, sql, &a->args, kinds, out);
    return rc ? fail(a, rc, a->conn.detail[0] ? a->conn.detail : err_name(rc)) : 0;
}

int pg_audit_inventory(struct pg_audit *a, struct pg_audit_inventory *out)
{
    PG_RESULT r = NULL;
    pg_audit_args(a);
    int rc = pg_audit_query(
        a,
        "SELECT i.total_stock::bigint, i.sold_stock::bigint, i.epoch, "
        "i.seq, " PG_MS("i.epoch_at") ", " PG_MS("a.starts_at") ", " PG_MS("a.ends_at") ", " PG_MS(
            "a.expires_at") ", " PG_MS("a.closed_at") ", " PG_MS("a.paused_at") ", "
                                                                                "a.opened_at IS "
                                                                                "NOT NULL, (SELECT "
                                                                                "count(*) FROM "
                                                                                "dead_letters "
                                                                                "WHERE replayed_at "
                                                                                "IS NULL AND "
                                                                                "voided_at IS NULL "
                                                                                "AND (activity_id, "
                                                                                "sku_id) IN (($1, "
                                                                                "$2), (0, 0))) "
                                                                                "FROM "
                                                                                "seckill_inventory "
                                                                                "i "
                                                                                "JOIN activities a "
                                                                                "USING "
                                                                                "(activity_id, "
                                                                                "sku_id) "
                                                                                "WHERE"
                                                                                " " PG_AUDIT_OF_ITEM,
        "qqqqqqqqqqbq", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1) {
        snprintf(a->err, sizeof a->err, "there is no item %lld:%lld",
                 (long long)a->item.activity_id, (long long)a->item.sku_id);
        return ERR_NOTFOUND;
    }
    *out = (struct pg_audit_inventory){.total = pg_i64(r, 0, 0),
                                       .sold = pg_i64(r, 0, 1),
                                       .epoch = pg_i64(r, 0, 2),
                                       .seq = pg_i64(r, 0, 3),
                                       .epoch_ms = pg_i64(r, 0, 4),
                                       .starts_ms = pg_i64(r, 0, 5),
                                       .ends_ms = pg_i64(r, 0, 6),
                                       .expires_ms = pg_i64(r, 0, 7),
                                       .closed_ms = pg_i64(r, 0, 8),
                                       .paused_ms = pg_i64(r, 0, 9),
                                       .opened = pg_bool(r, 0, 10),
                                       .dead_letters = pg_i64(r, 0, 11)};
    return 0;
}

int pg_audit_waiting(struct pg_audit *a, int64_t *unsettled, int64_t *quarantined)
{
    PG_RESULT r = NULL;
    pg_audit_args(a);
    int rc =
        pg_audit_query(a,
                       "SELECT (SELECT count(*) FROM outbox WHERE settled_at IS NULL AND "
                       "activity_id = $1 AND sku_id = $2), (SELECT count(*) FROM dead_letters d "
                       "JOIN consumer_inbox i ON i.message_id = d.message_id AND i.status = "
                       "'QUARANTINED' WHERE d.replayed_at IS NULL AND d.activity_id = $1 AND "
                       "d.sku_id = $2)",
                       "qq", &r);
    if (rc)
        return rc;
    *unsettled = pg_i64(r, 0, 0);
    *quarantined = pg_i64(r, 0, 1);
    return 0;
}

int pg_audit_orders(struct pg_audit *a, int (*on_order)(void *arg, const struct pg_audit_order *o),
                    void *arg)
{
    int64_t last = INT64_MIN;
    for (int n = PAGE; n == PAGE;) {
        PG_RESULT r = NULL;
        pg_audit_args(a);
        pg_add_i64(&a->args, last);
        pg_add_i64(&a->args, PAGE);
        int rc = pg_audit_query(a,
                                "SELECT order_id, request_id, user_id, reservation_id, "
                                "status IN " PG_AUDIT_ACTIVE " FROM orders WHERE " PG_AUDIT_OF_ITEM
                                " AND order_id > $3 ORDER BY order_id LIMIT $4",
                                "ququb", &r);
        if (rc)
            return rc;
        n = PQntuples(r);
        for (int i = 0; i < n; i++) {
            struct pg_audit_order o = {.order_id = pg_i64(r, i, 0),
                                       .request_id = pg_uuid(r, i, 1),
                                       .user_id = pg_i64(r, i, 2),
                                       .reservation_id = pg_uuid(r, i, 3),
                                       .active = pg_bool(r, i, 4)};
            last = o.order_id;
            if ((rc = on_order(arg, &o)) < 0)
                return fail(a, rc, err_name(rc));
        }
    }
    return 0;
}

int pg_audit_orders_of_all(struct pg_audit *a, int64_t *orders)
{
    PG_RESULT r = NULL;
    pg_args_init(&a->args, &a->conn.buf);
    int rc = pg_audit_query(a, "SELECT count(*) FROM orders", "q", &r);
    if (rc == 0)
        *orders = pg_i64(r, 0, 0);
    return rc;
}

int pg_audit_inbox(struct pg_audit *a,
                   int (*on_message)(void *arg, const struct pg_audit_message *m), void *arg)
{
    struct uuid last = {{0}};
    for (int n = PAGE; n == PAGE;) {
        PG_RESULT r = NULL;
        pg_audit_args(a);
        pg_add_uuid(&a->args, &last);
        pg_add_i64(&a->args, PAGE);
        int rc = pg_audit_query(
            a,
            "SELECT message_id, request_id, reservation_id, user_id, status, state, reason "
            "FROM inbox_verdict WHERE consumer_group = " PG_AUDIT_GROUP " AND " PG_AUDIT_OF_ITEM
            " AND message_id > $3 ORDER BY message_id LIMIT $4",
            "uuuqttt", &r);
        if (rc)
            return rc;
        n = PQntuples(r);
        for (int i = 0; i < n; i++) {
            struct pg_audit_message m = {.message_id = pg_uuid(r, i, 0),
                                         .request_id = pg_uuid(r, i, 1),
                                         .reservation_id = pg_uuid(r, i, 2),
                                         .user_id = pg_i64(r, i, 3),
                                         .status = pg_str(r, i, 4)};
            last = m.message_id;
            rc = pg_verdict(r, i, 5, &m.verdict);
            if (rc == 0)
                rc = on_message(arg, &m);
            if (rc < 0)
                return fail(a, rc, err_name(rc));
        }
    }
    return 0;
}

int pg_audit_unsettled(struct pg_audit *a,
                       int (*on_row)(void *arg, const struct pg_audit_unsettled *u), void *arg)
{
    PG_RESULT r = NULL;
    pg_audit_args(a);
    int rc = pg_audit_query(
        a,
        "SELECT user_id, request_id, give_back, message_id, " PG_MS(
            "clock_timestamp() - created_at") " FROM outbox "
                                              "WHERE settled_at IS NULL AND " PG_AUDIT_OF_ITEM,
        "qubuq", &r);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct pg_audit_unsettled u = {.user_id = pg_i64(r, i, 0),
                                       .request_id = pg_uuid(r, i, 1),
                                       .give_back = pg_bool(r, i, 2),
                                       .message_id = pg_uuid(r, i, 3),
                                       .age_ms = pg_i64(r, i, 4)};
        if ((rc = on_row(arg, &u)) < 0)
            fail(a, rc, err_name(rc));
    }
    return rc;
}
