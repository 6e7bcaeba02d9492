/* Messages' own failures, and suspects of killing the process (rules 20, 23). */
#include "adapter/pg/pg_orders.h"

static int read_counts(const PGresult *r, int *counts, int n)
{
    if (PQntuples(r) != n)
        return ERR_INTERNAL;
    for (int i = 0; i < n; i++) {
        int ord = pg_i32(r, i, 0);
        if (ord < 1 || ord > n)
            return ERR_INTERNAL;
        counts[ord - 1] = pg_i32(r, i, 1);
    }
    return 0;
}

int pg_count_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
                      const char *error_kind, int *counts, int n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, message_ids, sizeof *message_ids, n);
    pg_add_text(&a, str_of(error_kind));
    PG_RESULT r = NULL;
    int rc =
        pg_conn_query(c, ctx, PG_WRITES, "SELECT ord, attempts FROM seckill_count_attempts($1, $2)",
                      &a, "ii", &r);
    return rc ? rc : read_counts(r, counts, n);
}

int pg_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids,
                int *counts, int n)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, message_ids, sizeof *message_ids, n);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_READS, "SELECT ord, attempts FROM seckill_attempts($1)", &a,
                           "ii", &r);
    return rc ? rc : read_counts(r, counts, n);
}

int pg_suspect_begin(struct orders *o, const struct ctx *ctx, const struct uuid *message_id,
                     struct str life, int *dead_alone)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuid(&a, message_id);
    pg_add_text(&a, life);
    PG_RESULT r = NULL;
    int rc = pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_suspect_begin($1, $2)", &a, "i", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    *dead_alone = pg_i32(r, 0, 0);
    return 0;
}

int pg_suspect_clear(struct orders *o, const struct ctx *ctx, const struct uuid *message_ids, int n,
                     struct str life)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_uuids(&a, message_ids, sizeof *message_ids, n);
    pg_add_text(&a, life);
    PG_RESULT r = NULL;
    return pg_conn_query(c, ctx, PG_WRITES, "SELECT seckill_suspect_clear($1, $2)", &a, "i", &r);
}

int pg_beat(struct orders *o, const struct ctx *ctx, struct str life, int64_t age_ms,
            int64_t *fleet_age_ms)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_text(&a, life);
    pg_add_i64(&a, age_ms);
    PG_RESULT r = NULL;
    /* Doing it twice is harmless, so a lost answer is no unknown write. */
    int rc = pg_conn_query(c, ctx, PG_READS, "SELECT seckill_beat($1, $2)", &a, "q", &r);
    if (rc)
        return rc;
    if (PQntuples(r) != 1)
        return ERR_INTERNAL;
    *fleet_age_ms = pg_i64(r, 0, 0);
    return 0;
}
