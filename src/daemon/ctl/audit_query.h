/* The audit's statements: one connection for all of them, two minutes for each. */
#pragma once

#include "adapter/pg/pg_conn.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/audit.h"
#include <stdio.h>

#define AUDIT_STATEMENT_US (INT64_C(120) * 1000 * 1000)

struct audit_query {
    struct pg_conn conn;
    struct pg_args args;
    char err[512];
};

static inline void audit_query_begin(struct audit_query *q, const struct ctl *c)
{
    pg_conn_init(&q->conn, &(struct pg_config){.conninfo = c->settings.pg.conninfo,
                                               .connect_us = c->settings.pg.connect_us,
                                               .lifetime_us = INT64_C(3600) * 1000000,
                                               .application = "seckillctl audit"});
    q->err[0] = 0;
}
static inline void audit_query_end(struct audit_query *q)
{
    pg_conn_deinit(&q->conn);
}
#define AUDIT_QUERY __attribute__((cleanup(audit_query_end))) struct audit_query

/* $1 and $2. */
static inline void audit_query_args(struct audit_query *q, struct item item)
{
    pg_args_init(&q->args, &q->conn.buf);
    pg_add_i64(&q->args, item.activity_id);
    pg_add_i64(&q->args, item.sku_id);
}

static inline int audit_query(struct audit_query *q, const char *sql, const char *kinds,
                              PGresult **out)
{
    struct ctx ctx;
    ctx_init(&ctx, NULL, clock_mono_us() + AUDIT_STATEMENT_US);
    int rc = pg_conn_query(&q->conn, &ctx, PG_READS, sql, &q->args, kinds, out);
    if (rc != 0)
        snprintf(q->err, sizeof(q->err), "%s", q->conn.detail[0] ? q->conn.detail : err_name(rc));
    return rc;
}
