/* Retention: seckill_retain and seckill_retain_strays of sql/. */
#include "adapter/pg/pg_orders.h"

/* A table that only a newer schema knows is not counted: workers of the version before go on beside
 * it. */
static void add(const PGresult *r, struct orders_retained *taken)
{
    taken->more |= PQntuples(r) > 0;
    for (int i = 0; i < PQntuples(r); i++) {
        int t = 0;
        while (t < ORDERS_TABLES &&
               !str_eq(pg_str(r, i, 0), str_of(orders_table_name((enum orders_table)t))))
            t++;
        if (t < ORDERS_TABLES)
            taken->rows[t] += pg_i64(r, i, 1);
    }
}

/* What nobody can need goes twice as well as once: a lost answer is no unknown write. */
int pg_retain(struct orders *o, const struct ctx *ctx, const struct orders_retention *what,
              struct orders_retained *taken)
{
    struct pg_conn *c = pg_orders_conn(o);
    struct pg_args a;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, what->after_ms);
    pg_add_i32(&a, what->max);
    pg_add_bool(&a, what->results);
    PG_RESULT r = NULL;
    PG_RESULT strays = NULL;
    int rc =
        pg_conn_query(c, ctx, PG_READS,
                      "SELECT table_name, deleted FROM seckill_retain($1, $2, $3)", &a, "tq", &r);
    if (rc == 0)
        add(r, taken);
    /* These are few: only when no item is due. */
    if (rc || PQntuples(r) > 0)
        return rc;
    pg_args_init(&a, &c->buf);
    pg_add_i64(&a, what->strays_ms);
    pg_add_i32(&a, what->max);
    rc = pg_conn_query(c, ctx, PG_READS,
                       "SELECT table_name, deleted FROM seckill_retain_strays($1, $2)", &a, "tq",
                       &strays);
    if (rc == 0)
        add(strays, taken);
    return rc;
}
