/* After the commit: settle in Redis at once and ack at the same time (rule 9: the ack depends on
 * the commit alone), and remember which outbox rows are settled. What Redis did not take is swept
 * by the relay. Loop thread. */
#pragma once

#include "core/item.h"
#include "port/orders.h"
#include "port/stock.h"

struct worker;
struct work;
struct finish;
struct result;

/* The same for any message: new, add up to max works (row NULL: nothing to settle; result NULL:
 * told by project), go. */
struct finish *finish_new(struct worker *w, struct item item, int max);
void finish_add(struct finish *f, struct work *k, const struct stock_settle_row *row,
                int64_t outbox_id, const struct result *result);
void finish_go(struct finish *f);
/* The call said AGAIN: to its lane, or after a few times back to the queue. */
void finish_again(struct worker *w, struct work *k);
/* Takes n committed works over; rows[i] says what became of works[i]. */
void finish_start(struct worker *w, struct item item, struct work **works,
                  const struct orders_row *rows, int n);
