/* The items: those that the stock lists, read again and again, and those that PostgreSQL knows as
 * warmed (rule 34: the list may be lost while the streams are there); told to the queue. And the
 * backlog of each, for recovery and (inside the adapter) for the metrics (rules 26, 31). What is
 * not known is never taken for zero. A queue that carries all items in one is asked once, not once
 * per item, and its backlog is everybody's (queue_lag.of_all_items).
 *
 * At most cfg.max_items are served. Of more, those that are served already stay, then those with
 * the lowest ids come; the surplus is logged, counted, and told by catalog_complaint until items
 * leave the catalogue (retire.h). A read that fails leaves the items as they are, and is told too.
 * Loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/sched.h"
#include "port/queue.h"
#include "port/stock.h"

#define CATALOG_LAG_TICK_US 1000000
#define CATALOG_LAG_UNDER_WAY 32
#define CATALOG_LAG_FRESH_US 5000000
#define CATALOG_STALE_US 5000000  /* not read for so long: told */
#define CATALOG_WARMED_US 5000000 /* between reads of PostgreSQL's */

struct worker;

struct catalog_backlog {
    int64_t at_us; /* when it was known; 0: never */
    int64_t waiting, in_hand, oldest_age_ms;
};
struct catalog_item {
    struct item item;
    struct catalog_backlog backlog;
    int64_t pending; /* unsettled reservations, as recovery last saw them; -1: not known */
    /* Of the commands that were remembered before this (wall clock here) PostgreSQL knows each;
     * 0: not known. */
    int64_t commands_until_ms;
};
struct catalog_ask {
    struct queue_lag op;
    struct worker *w;
    bool busy;
};
struct catalog {
    struct catalog_item *items; /* [max], by id */
    int n, max;
    struct timer items_timer, lag_timer;

    bool reading;
    struct stock_items op;
    struct item page[STOCK_ITEMS_PAGE];
    bool *seen;         /* [max]: of items, in this reading */
    struct item *fresh; /* [max], by id: the first of those that are not among the items yet */
    int n_fresh;
    int64_t left_out; /* in this reading */
    bool warming, warmed_known;
    struct item *warmed; /* [max]: PostgreSQL's, as last read */
    int n_warmed;
    struct item *warmed_read; /* [max]: what the job under way reads */
    int n_warmed_read;
    int64_t warmed_at_us;
    struct share_job warmed_job;
    struct ctx warmed_ctx;
    int unlisted; /* warmed and not listed, at the last reading */

    int64_t surplus; /* listed and not served, at the last reading */
    int64_t read_at_us, changed_at_us;
    int failures; /* in a row */

    bool one_queue; /* the last answer was of all items: */
    struct catalog_backlog all;
    struct catalog_ask asks[CATALOG_LAG_UNDER_WAY];
    int next;   /* rotates */
    int to_ask; /* in this tick */
};

void catalog_init(struct worker *w);
void catalog_start(struct worker *w);
void catalog_stop(struct worker *w);
void catalog_deinit(struct worker *w);
/* The backlog that an item's messages are in, if it is known and fresh; NULL if not. */
const struct catalog_backlog *catalog_backlog(struct worker *w, struct item item);
/* -1: could not be found out. */
void catalog_saw_pending(struct worker *w, struct item item, int64_t pending);
/* Recovery has been through the item's remembered commands; as far as it ever was. */
void catalog_saw_commands(struct worker *w, struct item item, int64_t until_ms);
int64_t catalog_commands_until_ms(struct worker *w, struct item item);
/* Nobody looks at the moment: what was seen is not known any more. */
void catalog_forget_pending(struct worker *w);
/* What is wrong with it (a static string), for readiness; NULL: nothing. */
const char *catalog_complaint(const struct worker *w);
