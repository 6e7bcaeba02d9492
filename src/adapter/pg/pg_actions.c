#include "adapter/pg/pg_actions.h"

#include "adapter/pg/pg_admin_query.h"

int pg_action_begin(const char *conninfo, struct str login, struct str action, struct item item,
                    struct str detail, int64_t *id, char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_text(&a.args, login);
    pg_add_text(&a.args, action);
    pg_add_i64(&a.args, item.activity_id);
    pg_add_i64(&a.args, item.sku_id);
    pg_add_text(&a.args, detail.len ? detail : STR("{}"));
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "INSERT INTO operator_actions (login, action, activity_id, sku_id, detail, outcome) "
        "VALUES ($1, $2, NULLIF($3, 0), NULLIF($4, 0), $5::text::jsonb, 'STARTED') "
        "RETURNING action_id",
        "q", &r, err, err_cap);
    if (rc)
        return rc;
    *id = pg_i64(r, 0, 0);
    return 0;
}

int pg_action_end(const char *conninfo, int64_t id, struct str outcome, struct str detail,
                  char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, id);
    pg_add_text(&a.args, outcome);
    pg_add_text(&a.args, detail.len ? detail : STR("{}"));
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH ended AS (UPDATE operator_actions SET outcome = $2, finished_at = "
        "clock_timestamp(), detail = COALESCE(detail, '{}') || $3::text::jsonb "
        "WHERE action_id = $1 AND outcome = 'STARTED' RETURNING 1) SELECT count(*) FROM ended",
        "q", &r, err, err_cap);
    if (rc)
        return rc;
    return pg_i64(r, 0, 0) == 1 ? 0 : 1;
}

int pg_actions_list(const char *conninfo, int64_t before_id, struct pg_action *rows, int *n,
                    char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, before_id > 0 ? before_id : INT64_MAX);
    pg_add_i64(&a.args, *n);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT action_id, " PG_MS("at") ", " PG_MS(
                                "finished_at") ", activity_id, sku_id, login, operator, action, "
                                               "outcome, detail::text FROM operator_actions WHERE "
                                               "action_id < $1 ORDER BY action_id DESC LIMIT $2",
                            "qqqqqttttt", &r, err, err_cap);
    if (rc)
        return rc;
    *n = PQntuples(r);
    for (int i = 0; i < *n; i++) {
        rows[i] = (struct pg_action){.id = pg_i64(r, i, 0),
                                     .at_ms = pg_i64(r, i, 1),
                                     .finished_ms = pg_i64(r, i, 2),
                                     .item = {pg_i64(r, i, 3), pg_i64(r, i, 4)}};
        str_copy(rows[i].login, sizeof(rows[i].login), pg_str(r, i, 5));
        str_copy(rows[i].operator_name, sizeof(rows[i].operator_name), pg_str(r, i, 6));
        str_copy(rows[i].action, sizeof(rows[i].action), pg_str(r, i, 7));
        str_copy(rows[i].outcome, sizeof(rows[i].outcome), pg_str(r, i, 8));
        str_copy(rows[i].detail, sizeof(rows[i].detail), pg_str(r, i, 9));
    }
    return 0;
}
