/* After the commit: settle in Redis at once and ack at the same time (rule 9: the ack depends on
 * the commit alone), and remember which outbox rows are settled. What Redis did not take is swept
 * by the relay. Loop thread. */
#pragma once

#include "core/item.h"
#include "port/orders.h"
#include "port/stock.h"

struct worker;
struct work;

/* Takes n committed works over; rows[i] says what became of works[i]. */
void finish_start(struct worker *w, struct item item, struct work **works,
                  const struct orders_row *rows, int n);
