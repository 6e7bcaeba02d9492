/* The books, for commands about one order or reservation: PostgreSQL decides, Redis is told. */
#pragma once

#include "daemon/ctl/ctl.h"
#include "port/orders.h"

/* Made at its first use, lives until ctl_deinit. */
struct orders *ctl_orders(struct ctl *c);
/* For one call of it: CTL_CALL_US from now. */
struct ctx ctl_ctx(void);
/* "PostgreSQL: … (ERR_UNAVAIL)" for an rc < 0 of the orders port; CTL_FAILED, or CTL_UNKNOWN when
 * it may have been done. */
int ctl_orders_failed(const char *what, int rc);

/* Tells Redis a verdict of PostgreSQL at once, so that the unit is on sale again at once. 0. Else
 * complained: what is in the outbox the worker's relay tells within a second. outbox_id: to be
 * marked then, 0: none that is known. */
int books_settle(struct ctl *c, const char *what, struct item item, struct stock_settle_row *row,
                 int64_t outbox_id);
