/* The seed's metrics of PostgreSQL (000 §12.2), as far as one connection knows them; how long
 * batches wait for a connection is known to the worker's lanes. Any thread. */
#pragma once

#include "port/orders.h"
#include <stdint.h>

void pg_metrics_init(void);
void pg_metrics_connections(int change); /* open ones */
void pg_metrics_busy(int change);        /* those in a call */
/* How a statement ended, with the last failure's SQLSTATE and, of a wrong row count, the operation.
 */
void pg_metrics_result(int rc, const char *sqlstate, const char *operation);
/* A row whose state or reason nobody here knows (a newer version wrote it): told, at most once a
 * second, and passed over by the caller. */
void pg_metrics_unreadable(const char *what, struct str state, struct str reason);
/* The steps of the order function, by its own clock. */
void pg_metrics_steps(const struct orders_timing *t);
/* How long an order or void transaction took, connecting included. */
void pg_metrics_tx(int rc, int64_t us);
