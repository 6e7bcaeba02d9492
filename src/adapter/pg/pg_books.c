#include "adapter/pg/pg_books.h"

#include "adapter/pg/pg_admin_query.h"

static void begin(struct pg_admin *a, const char *conninfo, struct item item)
{
    pg_admin_begin(a, conninfo);
    pg_add_i64(&a->args, item.activity_id);
    pg_add_i64(&a->args, item.sku_id);
}

int pg_set_total(const char *conninfo, struct item item, int64_t epoch, int64_t to, int64_t *total,
                 int64_t *sold, char *err, size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    pg_add_i64(&a.args, epoch);
    pg_add_i64(&a.args, *total);
    pg_add_i64(&a.args, to);
    PG_RESULT r = NULL;
    int rc =
        pg_admin_query(&a, PG_WRITES,
                       "SELECT result, total_stock::bigint, sold_stock::bigint FROM "
                       "seckill_set_total($1, $2, $3, $4::bigint::integer, $5::bigint::integer)",
                       "tqq", &r, err, err_cap);
    if (rc)
        return rc;
    *total = pg_i64(r, 0, 1);
    *sold = pg_i64(r, 0, 2);
    return str_eq(pg_str(r, 0, 0), STR("BELOW_SOLD")) ? 1
           : str_eq(pg_str(r, 0, 0), STR("ANOTHER"))  ? 2
                                                      : 0;
}

int pg_reconcile_ask(const char *conninfo, struct item item, char *err, size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    PG_RESULT r = NULL;
    return pg_admin_query(
        &a, PG_WRITES,
        "WITH asked AS (INSERT INTO reconcile_items AS r (activity_id, sku_id, asked_at) VALUES "
        "($1, $2, clock_timestamp()) ON CONFLICT (activity_id, sku_id) DO UPDATE SET asked_at = "
        "EXCLUDED.asked_at RETURNING 1) SELECT count(*) FROM asked",
        "q", &r, err, err_cap);
}

int pg_reconcile_answered(const char *conninfo, struct item item, char *err, size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT count(*) FROM reconcile_items WHERE activity_id = $1 AND "
                            "sku_id = $2 AND asked_at IS NOT NULL",
                            "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 0 ? 1 : 0;
}

int pg_reconcile_show(const char *conninfo, struct item item, struct pg_finding *rows, int *n,
                      char *err, size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    pg_add_i64(&a.args, *n);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_READS,
        "SELECT r.outcome, " PG_MS("r.started_at") ", " PG_MS(
            "r.finished_at") ", COALESCE((r.detail->>'rounds')::bigint, 1), COALESCE(f->>'kind', "
                             "''), COALESCE((f->>'units')::bigint, 0), "
                             "(f->>'user_id')::bigint, (f->>'order_id')::bigint, "
                             "(f->>'reservation_id')::uuid, COALESCE(f->>'mended', '') "
                             "FROM (SELECT * FROM reconciliation_runs WHERE activity_id = $1 AND "
                             "sku_id = $2 ORDER BY started_at DESC, run_id DESC LIMIT 1) r "
                             "LEFT JOIN LATERAL jsonb_array_elements(r.detail->'findings') f ON "
                             "true LIMIT $3",
        "tqqqtqqqut", &r, err, err_cap);
    if (rc)
        return rc;
    *n = PQntuples(r);
    for (int i = 0; i < *n; i++) {
        rows[i] = (struct pg_finding){.since_ms = pg_i64(r, i, 1),
                                      .until_ms = pg_i64(r, i, 2),
                                      .rounds = pg_i64(r, i, 3),
                                      .units = pg_i64(r, i, 5),
                                      .user_id = pg_i64(r, i, 6),
                                      .order_id = pg_i64(r, i, 7),
                                      .reservation_id = pg_uuid(r, i, 8)};
        str_copy(rows[i].outcome, sizeof(rows[i].outcome), pg_str(r, i, 0));
        str_copy(rows[i].kind, sizeof(rows[i].kind), pg_str(r, i, 4));
        str_copy(rows[i].mended, sizeof(rows[i].mended), pg_str(r, i, 9));
    }
    return 0;
}

/* --- the rebuild --- */

int pg_rebuild_ask(const char *conninfo, struct item item, char *err, size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH asked AS (UPDATE seckill_inventory SET rebuild_asked_at = clock_timestamp() WHERE "
        "activity_id = $1 AND sku_id = $2 RETURNING 1) SELECT count(*) FROM asked",
        "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 1 ? 0 : 1;
}

int pg_rebuild_last(const char *conninfo, struct item item, struct pg_rebuild *out, char *err,
                    size_t err_cap)
{
    PG_ADMIN a;
    begin(&a, conninfo, item);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_READS,
        "SELECT epoch, " PG_MS("started_at") ", " PG_MS(
            "finished_at") ", ordered::bigint, live::bigint, reason FROM rebuilds WHERE "
                           "activity_id = $1 AND sku_id = $2 ORDER BY epoch DESC LIMIT 1",
        "qqqqqt", &r, err, err_cap);
    if (rc)
        return rc;
    *out = (struct pg_rebuild){0};
    if (PQntuples(r) == 0)
        return 1;
    *out = (struct pg_rebuild){pg_i64(r, 0, 0), pg_i64(r, 0, 1), pg_i64(r, 0, 2),
                               pg_i64(r, 0, 3), pg_i64(r, 0, 4), ""};
    str_copy(out->reason, sizeof(out->reason), pg_str(r, 0, 5));
    return 0;
}
