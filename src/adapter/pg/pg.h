/* The orders port on PostgreSQL (libpq): one connection per port, blocking with every wait bounded
 * by the ctx. The order function lives in sql/. Works behind PgBouncer in transaction mode: unnamed
 * statements, no SET, no session locks. */
#pragma once

#include "port/orders.h"

struct pg_config {
    const char *conninfo;
    int64_t connect_us;                      /* 2 s */
    int64_t lifetime_us, lifetime_jitter_us; /* 30 ± 3 min */
    const char *application;                 /* application_name, where neither
                                                 conninfo nor PGAPPNAME says another */
};
struct orders *pg_orders_new(const struct pg_config *c); /* connects on first use */
void pg_orders_free(struct orders *o);

/* Applies the numbered migrations that are missing, each in its transaction, under an advisory
 * lock. The number applied, or an error with a message; ERR_DENIED: the connection goes through a
 * pooler. */
int pg_migrate(const char *conninfo, char *err, size_t err_cap);
/* 0 if the schema is this build's; ERR_CONFLICT with a message that names the command if not. */
int pg_check_schema(const char *conninfo, char *err, size_t err_cap);
