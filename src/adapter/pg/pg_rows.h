/* Reading what several statements return alike. */
#pragma once

#include "adapter/pg/pg_args.h"
#include "core/verdict.h"

/* Verdict from two text columns, state and reason. NULL state: QUEUED. 0, or ERR_INTERNAL for a
 * name nobody knows. */
int pg_verdict(const PGresult *r, int row, int state_col, struct verdict *out);
/* Milliseconds since 1970 of a timestamptz column, as SQL. */
#define PG_MS(column) "(extract(epoch FROM " column ") * 1000)::bigint"
