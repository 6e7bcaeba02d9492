/* One statement of an operator: a connection for it alone, and an error told to people. */
#pragma once

#include "adapter/pg/pg_conn.h"
#include "adapter/pg/pg_rows.h"
#include "base/clock.h"
#include <stdio.h>

struct pg_admin {
    struct pg_conn conn;
    struct pg_args args;
    struct ctx ctx;
};

static inline void pg_admin_begin(struct pg_admin *a, const char *conninfo)
{
    pg_conn_init(&a->conn, &(struct pg_config){.conninfo = conninfo,
                                               .connect_us = 5000000,
                                               .lifetime_us = 60000000,
                                               .application = "seckillctl"});
    pg_args_init(&a->args, &a->conn.buf);
    ctx_init(&a->ctx, NULL, clock_mono_us() + 10000000);
}
static inline void pg_admin_end(struct pg_admin *a)
{
    pg_conn_deinit(&a->conn);
}
#define PG_ADMIN __attribute__((cleanup(pg_admin_end))) struct pg_admin

static inline int pg_admin_query(struct pg_admin *a, enum pg_effect effect, const char *sql,
                                 const char *kinds, PGresult **out, char *err, size_t err_cap)
{
    int rc = pg_conn_query(&a->conn, &a->ctx, effect, sql, &a->args, kinds, out);
    if (err_cap)
        err[0] = 0;
    if (rc)
        snprintf(err, err_cap, "PostgreSQL: %s", a->conn.detail[0] ? a->conn.detail : err_name(rc));
    return rc;
}
