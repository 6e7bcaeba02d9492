/* Whether Redis still has what it had (rule 34): once a second each warmed item of PostgreSQL's
 * list is looked at in Redis, and what was lost or rolled back is rebuilt (rebuild.h), one item
 * after the other.
 *
 *   IDLE → READ → REPORTS → LOOK (at most 32 under way) → RELIST → REBUILD … → IDLE
 *
 * PostgreSQL is read first: whatever it knows Redis had known before, so that a lower (epoch, seq)
 * is a loss and never a race. What is compared is meta's seq, never an event's. What the APIs and
 * query-api saw comes as reports (`sec:suspect`); they know of reservations that PostgreSQL never
 * heard of, so a report is believed, but not more often than once in EPOCH_REPORT_REST_MS for an
 * item.
 *
 * Redis at a higher epoch than PostgreSQL: then PostgreSQL has lost something, and no rebuild can
 * bring that back; it is told and left alone. So is an item that was never opened: nothing of it
 * can be lost (rule 33). While PostgreSQL is not usable nothing is looked at. Several workers look
 * side by side; the compare-and-set of the epoch decides. At most worker.max_items. Loop thread. */
#pragma once

#include "app/epoch_judge.h"
#include "app/rebuild.h"

#define EPOCH_WATCH_US 1000000
#define EPOCH_WATCH_UNDER_WAY 32

struct epoch_watch_item {
    struct orders_watched pg;
    struct item_version seen; /* the highest in Redis, by this process */
    bool reported;
    enum epoch_finding finding;
};
struct epoch_watch_ask {
    struct stock_item_get op;
    struct worker *w;
    int at; /* whose; -1: nobody's */
};

struct epoch_watch {
    struct flow flow;
    struct timer timer;
    bool stopped, looked;
    struct share_job job;
    struct ctx ctx;
    struct orders_watched *read;           /* [max] */
    struct epoch_watch_item *items, *next; /* [max], by id */
    int n, n_read, max;
    struct stock_reports reports;
    struct epoch_watch_ask asks[EPOCH_WATCH_UNDER_WAY];
    int asked, under_way;
    struct stock_relist relist;
    struct item *listed; /* [max] */
    int at;              /* the one being rebuilt */
};

void epoch_watch_start(struct worker *w);
void epoch_watch_stop(struct worker *w);
void epoch_watch_deinit(struct worker *w);
bool epoch_watch_idle(const struct worker *w);
