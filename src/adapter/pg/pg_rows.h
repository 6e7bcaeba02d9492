/* Reading what several statements return alike. */
#pragma once

#include "adapter/pg/pg_args.h"
#include "core/verdict.h"
#include "port/orders.h"

/* Verdict from two text columns, state and reason. NULL state: QUEUED. 0, or ERR_INTERNAL for a
 * name nobody knows. */
int pg_verdict(const PGresult *r, int row, int state_col, struct verdict *out);
/* What the functions of sql/ tell of an inbox row, in this order from first_col on: status, state,
 * reason, order_id, give_back, other_order_id, other_reservation_id, other_request_id. 0, or
 * ERR_INTERNAL as above. */
#define PG_INBOX_KINDS "tttqbquu"
int pg_inbox_row(const PGresult *r, int row, int first_col, const struct uuid *message_id,
                 struct orders_inbox *out);
/* Milliseconds since 1970 of a timestamptz column, as SQL. */
#define PG_MS(column) "(extract(epoch FROM " column ") * 1000)::bigint"
