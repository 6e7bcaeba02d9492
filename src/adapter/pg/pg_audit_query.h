/* Between the audit's files: pg_audit.c has the rows, pg_audit_rules.c the checks. */
#pragma once

#include "adapter/pg/pg_audit.h"
#include "adapter/pg/pg_conn.h"

#define PG_AUDIT_ACTIVE "('CREATED', 'PAYING', 'PAID')"
#define PG_AUDIT_OF_ITEM "activity_id = $1 AND sku_id = $2"
#define PG_AUDIT_GROUP "'" EVENT_GROUP "'"

struct pg_audit {
    struct pg_conn conn;
    struct pg_args args;
    struct item item;
    char err[512];
};

/* $1 and $2 are the item. */
void pg_audit_args(struct pg_audit *a);
int pg_audit_query(struct pg_audit *a, const char *sql, const char *kinds, PGresult **out);
