/* One row of a round: does what Redis holds agree with what PostgreSQL knows? Pure but for the
 * findings that it notes. Loop thread. */
#pragma once

#include "port/orders.h"
#include "port/stock.h"

struct worker;

/* Of the item itself, at one moment of each store. */
void judge_item(struct worker *w, const struct stock_item_info *info,
                const struct orders_books *books);
/* A buyer: a unit that Redis holds. True: PostgreSQL does not have this order (any more). */
bool judge_buyer(struct worker *w, const struct stock_held_row *held,
                 const struct orders_look *look);
/* An active order of PostgreSQL. */
void judge_order(struct worker *w, const struct orders_active *order,
                 const struct stock_held_row *held);
/* An unsettled reservation. */
void judge_waiting(struct worker *w, const struct stock_held_row *held);
