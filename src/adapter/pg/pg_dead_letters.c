#include "adapter/pg/pg_admin.h"
#include "adapter/pg/pg_admin_query.h"

#define COLUMNS                                                                                    \
    "dead_letter_id, activity_id, sku_id, message_id, request_id, reservation_id, user_id, "       \
    "order_id, deliveries, " PG_MS("created_at") ", " PG_MS("replayed_at") ", " PG_MS(             \
        "voided_at") ", broker_id, reason, octet_length(body)"
#define KINDS "qqquuuqqiqqqtti"

static void read_row(const PGresult *r, int i, struct pg_dead_letter *out)
{
    *out = (struct pg_dead_letter){
        .id = pg_i64(r, i, 0),
        .item = {pg_i64(r, i, 1), pg_i64(r, i, 2)},
        .decoded = !PQgetisnull(r, i, 3),
        .message_id = pg_uuid(r, i, 3),
        .request_id = pg_uuid(r, i, 4),
        .reservation_id = pg_uuid(r, i, 5),
        .user_id = pg_i64(r, i, 6),
        .order_id = pg_i64(r, i, 7),
        .deliveries = pg_i32(r, i, 8),
        .created_ms = pg_i64(r, i, 9),
        .replayed_ms = pg_i64(r, i, 10),
        .voided_ms = pg_i64(r, i, 11),
        .body_len = (size_t)pg_i32(r, i, 14),
    };
    str_copy(out->broker_id, sizeof out->broker_id, pg_str(r, i, 12));
    str_copy(out->reason, sizeof out->reason, pg_str(r, i, 13));
}

int pg_dead_letters_list(const char *conninfo, int64_t before_id, struct pg_dead_letter *rows,
                         int *n, char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, before_id > 0 ? before_id : INT64_MAX);
    pg_add_i64(&a.args, *n);
    *n = 0;
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT " COLUMNS " FROM dead_letters WHERE dead_letter_id < $1 "
                            "ORDER BY dead_letter_id DESC LIMIT $2",
                            KINDS, &r, err, err_cap);
    if (rc)
        return rc;
    *n = PQntuples(r);
    for (int i = 0; i < *n; i++)
        read_row(r, i, &rows[i]);
    return 0;
}

int pg_dead_letters_show(const char *conninfo, int64_t id, struct pg_dead_letter *out,
                         struct strbuf *body, char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, id);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(&a, PG_READS,
                            "SELECT " COLUMNS ", body FROM dead_letters WHERE dead_letter_id = $1",
                            KINDS "y", &r, err, err_cap);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    read_row(r, 0, out);
    strbuf_add_str(body, pg_str(r, 0, 15));
    return 0;
}

int pg_dead_letters_replay(const char *conninfo, int64_t id, struct item *item, struct strbuf *body,
                           char *err, size_t err_cap)
{
    PG_ADMIN a;
    pg_admin_begin(&a, conninfo);
    pg_add_i64(&a.args, id);
    PG_RESULT r = NULL;
    int rc = pg_admin_query(
        &a, PG_WRITES,
        "WITH replayed AS MATERIALIZED (SELECT * FROM seckill_replay($1)), "
        "noted AS (INSERT INTO operator_actions (action, activity_id, sku_id, detail) "
        "SELECT 'dead-letters replay', activity_id, sku_id, jsonb_build_object('message_id', "
        "message_id) "
        "FROM replayed) SELECT activity_id, sku_id, body FROM replayed",
        "qqy", &r, err, err_cap);
    if (rc)
        return rc;
    if (PQntuples(r) == 0)
        return 1;
    *item = (struct item){pg_i64(r, 0, 0), pg_i64(r, 0, 1)};
    strbuf_add_str(body, pg_str(r, 0, 2));
    return 0;
}
