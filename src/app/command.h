/* Cancels and payments (rule 27): what is special about a batch of them. They wait in their item's
 * lane and run through place like orders, in transactions of one kind; docs/decisions/0012 says
 * why. Each has its outcome when the call has: done, refused, or kept by PostgreSQL until its order
 * has an outcome (parked, sweep.h), and is acknowledged; an order that ended is settled in Redis at
 * once, so that its unit can be bought again. */
#pragma once

#include "base/ctx.h"
#include "core/event.h"
#include "port/orders.h"
#include "port/stock.h"

struct worker;
struct work;

/* body: kept while it is parked; borrowed like the event's payment_id. */
void command_fill(struct orders_command *row, const struct event *e, struct str body);
/* On a crew thread: the call of this kind (EVENT_CANCEL, EVENT_PAY). */
int command_run(struct orders *o, const struct ctx *ctx, struct item item, enum event_command kind,
                struct orders_command *rows, int n, bool give_up);
/* Takes n works over whose call was answered; rows[i] says what became of works[i]. */
void command_finish(struct worker *w, struct item item, struct work **works,
                    const struct orders_command *rows, int n);
/* Counts and logs an outcome of this call's. */
void command_note(struct worker *w, const struct event *e, const struct orders_command *row);
/* Writes a refused cancel into the buyer's record: fire and forget, one call each (bounded by what
 * is in hand). Nothing for any other outcome. */
void command_tell_refusal(struct worker *w, const struct event *e,
                          const struct orders_command *row);
/* The settle row of an order that was cancelled now. */
struct stock_settle_row command_settle_row(const struct orders_command *row);
