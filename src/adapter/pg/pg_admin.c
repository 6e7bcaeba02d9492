#include "adapter/pg/pg_admin.h"

#include "adapter/pg/pg_admin_query.h"

#define MS_TO_TIME(param) "to_timestamp(" param " / 1000.0)"
#define MARK_US(column) "(extract(epoch FROM " column ") * 1000000)::bigint"
#define ACTIVITY_COLUMNS                                                                           \
    "a.activity_id, a.sku_id, " PG_MS("a.starts_at") ", " PG_MS("a.ends_at") ", " PG_MS(           \
        "a.expires_at") ", i.total_stock::bigint, i.sold_stock::bigint, "                          \
                        "i.epoch, " MARK_US("i.warmed_at") ", " PG_MS(                             \
                            "a."                                                                   \
                            "op"                                                                   \
                            "en"                                                                   \
                            "ed"                                                                   \
                            "_a"                                                                   \
                            "t") ", " PG_MS("a.closed_at")
#define ACTIVITY_KINDS "qqqqqqqqqqq"
#define ACTIVITY_FROM " FROM activities a JOIN seckill_inventory i USING (activity_id, sku_id)"

static void add_item(struct pg_admin *a, struct item item)
{
    pg_add_i64(&a->args, item.activity_id);
    pg_add_i64(&a->args, item.sku_id);
}

int pg_activity_create(const char *conninfo, const struct pg_activity *x, char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, x->item);
    pg_add_i64(&a.args, x->starts_ms);
    pg_add_i64(&a.args, x->ends_ms);
    pg_add_i64(&a.args, x->expires_ms);
    pg_add_i64(&a.args, x->total);
    PG_RESULT r = NULL;
    /* The ledger begins with the total: its sum is what is free. */
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH made AS (INSERT INTO activities (activity_id, sku_id, starts_at, ends_at, "
        "expires_at) VALUES ($1, $2, " MS_TO_TIME("$3") ", " MS_TO_TIME("$4") ", " MS_TO_TIME(
            "$5") ") ON CONFLICT DO NOTHING RETURNING 1), "
                  "stocked AS (INSERT INTO seckill_inventory (activity_id, sku_id, total_stock) "
                  "SELECT $1, $2, $6::bigint::integer FROM made RETURNING 1), "
                  "booked AS (INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, "
                  "delta, kind) "
                  "SELECT gen_random_uuid(), $1, $2, $6::bigint::integer, 'TOTAL' FROM made WHERE "
                  "$6 <> 0), "
                  "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id, detail) "
                  "SELECT 'activity create', $1, $2, jsonb_build_object('total', $6) FROM made) "
                  "SELECT count(*) FROM stocked",
        "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 1 ? 0 : 1;
}

static void read_activity(const PGresult *r, int i, struct pg_activity *out)
{
    *out = (struct pg_activity){
        .item = {pg_i64(r, i, 0), pg_i64(r, i, 1)},
        .starts_ms = pg_i64(r, i, 2),
        .ends_ms = pg_i64(r, i, 3),
        .expires_ms = pg_i64(r, i, 4),
        .total = pg_i64(r, i, 5),
        .sold = pg_i64(r, i, 6),
        .epoch = pg_i64(r, i, 7),
        .warmed_us = pg_i64(r, i, 8),
        .opened_ms = pg_i64(r, i, 9),
        .closed_ms = pg_i64(r, i, 10),
    };
}

int pg_activity_get(const char *conninfo, struct item item, struct pg_activity *out, char *err,
                    size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT " ACTIVITY_COLUMNS ACTIVITY_FROM
                            " WHERE a.activity_id = $1 AND a.sku_id = $2",
                            ACTIVITY_KINDS, &r, err, err_cap);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    read_activity(r, 0, out);
    return 0;
}

int pg_activity_list(const char *conninfo, struct pg_activity *rows, int *n, char *err,
                     size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, *n);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT " ACTIVITY_COLUMNS ACTIVITY_FROM
                            " ORDER BY a.activity_id, a.sku_id LIMIT $1",
                            ACTIVITY_KINDS, &r, err, err_cap);
    if (rc)
        return rc;
    *n = PQntuples(r);
    for (int i = 0; i < *n; i++)
        read_activity(r, i, &rows[i]);
    return 0;
}

/* A statement on one item that counts what it changed: 0 when it did, 1 when there was nothing left
 * to change. */
static int change_once(const char *conninfo, struct item item, const char *sql, char *err,
                       size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_WRITES, sql, "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 1 ? 0 : 1;
}

int pg_activity_close(const char *conninfo, struct item item, char *err, size_t err_cap)
{
    return change_once(conninfo, item,
                       "WITH closed AS (UPDATE activities SET closed_at = clock_timestamp() "
                       "WHERE activity_id = $1 AND sku_id = $2 AND closed_at IS NULL RETURNING 1), "
                       "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                       "SELECT 'activity close', $1, $2 FROM closed) SELECT count(*) FROM closed",
                       err, err_cap);
}

int pg_mark_opened(const char *conninfo, struct item item, char *err, size_t err_cap)
{
    return change_once(conninfo, item,
                       "WITH opened AS (UPDATE activities SET opened_at = clock_timestamp() "
                       "WHERE activity_id = $1 AND sku_id = $2 AND opened_at IS NULL RETURNING 1), "
                       "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                       "SELECT 'activity open', $1, $2 FROM opened) SELECT count(*) FROM opened",
                       err, err_cap);
}

int pg_mark_paused(const char *conninfo, struct item item, bool paused, char *err, size_t err_cap)
{
    return change_once(
        conninfo, item,
        paused ? "WITH paused AS (UPDATE activities SET paused_at = clock_timestamp() "
                 "WHERE activity_id = $1 AND sku_id = $2 AND paused_at IS NULL RETURNING 1), "
                 "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                 "SELECT 'activity pause', $1, $2 FROM paused) SELECT count(*) FROM paused"
               : "WITH opened AS (UPDATE activities SET paused_at = NULL "
                 "WHERE activity_id = $1 AND sku_id = $2 AND paused_at IS NOT NULL RETURNING 1), "
                 "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                 "SELECT 'activity open again', $1, $2 FROM opened) SELECT count(*) FROM opened",
        err, err_cap);
}

/* --- rule 33 --- */

int pg_mark_warmed(const char *conninfo, struct item item, int64_t *mark_us, char *err,
                   size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH warmed AS (UPDATE seckill_inventory SET warmed_at = clock_timestamp() "
        "WHERE activity_id = $1 AND sku_id = $2 AND warmed_at IS NULL "
        "RETURNING " MARK_US(
            "warmed_at") " AS mark), "
                         "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                         "SELECT 'stock warm', $1, $2 FROM warmed) "
                         "SELECT (SELECT mark FROM warmed), "
                         "(SELECT count(*) FROM seckill_inventory WHERE activity_id = $1 AND "
                         "sku_id = $2)",
        "qq", &r, err, err_cap);
    if (rc)
        return rc;
    *mark_us = pg_i64(r, 0, 0);
    return *mark_us ? 0 : pg_i64(r, 0, 1) == 1 ? 1 : 2;
}

int pg_remark_warmed(const char *conninfo, struct item item, int64_t *mark_us, char *err,
                     size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, item);
    pg_add_i64(&a.args, *mark_us);
    PG_RESULT r = NULL;
#define NONE_IN(table, more)                                                                       \
    " AND NOT EXISTS (SELECT 1 FROM " table " WHERE activity_id = $1 AND sku_id = $2" more ")"
    /* The counters first: they are one row; the tables are read only for an item without a past. */
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH unsold AS MATERIALIZED (SELECT 1 FROM seckill_inventory i JOIN activities a USING "
        "(activity_id, sku_id) WHERE activity_id = $1 AND sku_id = $2 AND a.opened_at IS NULL AND "
        "i.sold_stock = 0 AND i.version = 0 AND i.seq = 0), "
        "unseen AS MATERIALIZED (SELECT 1 FROM unsold WHERE true" NONE_IN("orders", "")
            NONE_IN("consumer_inbox", "") NONE_IN("outbox", "") NONE_IN("dead_letters", "") NONE_IN(
                "stock_ledger",
                " AND kind <> 'TOTAL'") "), "
                                        "warmed AS (UPDATE seckill_inventory SET warmed_at = "
                                        "GREATEST(clock_timestamp(), warmed_at + INTERVAL '1 "
                                        "microsecond') "
                                        "WHERE activity_id = $1 AND sku_id = $2 AND " MARK_US(
                                            "warmed_at") " = $3 "
                                                         "AND EXISTS (SELECT 1 FROM unseen) "
                                                         "RETURNING " MARK_US(
                                                             "warmed_at") " AS mark), "
                                                                          "noted AS (INSERT INTO "
                                                                          "operator_actions "
                                                                          "(action, activity_id, "
                                                                          "sku_id) "
                                                                          "SELECT 'stock warm "
                                                                          "again', $1, $2 FROM "
                                                                          "warmed) "
                                                                          "SELECT (SELECT mark "
                                                                          "FROM warmed), (SELECT "
                                                                          "count(*) FROM unseen)",
        "qq", &r, err, err_cap);
#undef NONE_IN
    if (rc)
        return rc;
    if (!pg_i64(r, 0, 0))
        return pg_i64(r, 0, 1) == 0 ? 2 : 1;
    *mark_us = pg_i64(r, 0, 0);
    return 0;
}

int pg_unmark_warmed(const char *conninfo, struct item item, int64_t mark_us, char *err,
                     size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    add_item(&a, item);
    pg_add_i64(&a.args, mark_us);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH taken_back AS (UPDATE seckill_inventory SET warmed_at = NULL "
        "WHERE activity_id = $1 AND sku_id = $2 AND " MARK_US(
            "warmed_at") " = $3 RETURNING 1), "
                         "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id) "
                         "SELECT 'stock warm refused', $1, $2 FROM taken_back) SELECT count(*) "
                         "FROM taken_back",
        "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 1 ? 0 : 1;
}
