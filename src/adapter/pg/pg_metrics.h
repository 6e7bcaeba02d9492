/* The seed's metrics of PostgreSQL (000 §12.2), as far as one connection knows them; how long
 * batches wait for a connection is known to the worker's lanes. Any thread. */
#pragma once

#include <stdint.h>

void pg_metrics_init(void);
void pg_metrics_connections(int change); /* open ones */
void pg_metrics_busy(int change);        /* those in a call */
/* How a statement ended, with the last failure's SQLSTATE and, of a wrong row count, the operation.
 */
void pg_metrics_result(int rc, const char *sqlstate, const char *operation);
/* How long an order or void transaction took, connecting included. */
void pg_metrics_tx(int rc, int64_t us);
