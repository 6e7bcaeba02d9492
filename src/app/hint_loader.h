/* Loads the buyers of sold-out items, once per process, for the hints of all loops (rules 10, 11).
 *
 *   sold_out(item) ──(jitter; at most one a second per item; one load at a time)──► READ
 *
 *   READ ─ sold out at v ─► PAGE ─⟲─► CHECK ─ still v, nothing newer heard ─► INSTALL: on_set
 *     │                      │          │
 *     └── on sale, too many buyers, moved, an error, the subscription down ──► DROP
 *
 * A dropped load is not repeated by itself: while the item is sold out, the next answer that says
 * so asks again. Invariant: a load is under way exactly while it is in READ, PAGE or CHECK, and
 * then one operation of the stock port is.
 *
 * While the subscription is down nothing is loaded and on_off has been called. At most
 * HINT_ITEMS_MAX items are known at once; when that is full, those without news for
 * HINT_LOADER_IDLE_US make room, else the item is not loaded. The control loop's thread only. */
#pragma once

#include "app/hint_index.h"
#include "base/flow.h"
#include "base/metric.h"
#include "base/rng.h"
#include "base/sched.h"
#include "core/hint.h"
#include "port/stock.h"

#define HINT_LOAD_EVERY_US 1000000
#define HINT_LOAD_JITTER_US 50000
#define HINT_LOADER_IDLE_US INT64_C(60000000)
#define HINT_PAGE_MAX 4096

enum hint_load_state {
    HINT_LOAD_READ,
    HINT_LOAD_PAGE,
    HINT_LOAD_CHECK,
    HINT_LOAD_INSTALL,
    HINT_LOAD_DROP,
    HINT_LOAD_STATES
};
extern const struct flow_kind hint_load_kind;

struct hint_loader_item {
    struct item_version seen; /* the newest heard of, by PUBLISH or by an answer */
    int64_t heard_us;
    int64_t start_us; /* when the load that was asked for may start; 0: none is */
    int64_t next_us;  /* not before this */
};

struct hint_loader {
    /* set by the owner before hint_loader_init */
    struct stock *stock;
    struct sched *sched;
    struct rng *rng;
    int64_t call_us;    /* one operation of the stock port */
    int64_t max_buyers; /* above: no hint for the item */
    void (*on_set)(struct hint_loader *l, struct hint_set *set); /* takes the set over */
    /* PUBLISH said so: for hints_heard of every loop. */
    void (*on_news)(struct hint_loader *l, struct item item, struct item_version v);
    void (*on_off)(struct hint_loader *l); /* hints_off on every loop */
    /* for the subscription: redis_stock_news_start(…, &loader->news) */
    struct stock_news news;

    /* internal */
    struct hint_index index;
    struct hint_loader_item items[HINT_ITEMS_MAX];
    struct timer timer;
    bool up, stopped;
    struct flow flow;
    bool loading, abort;
    int at;                      /* whose load is under way */
    struct item item;            /* … */
    struct item_version version; /* where its first reading stood */
    struct hint_set *set;
    union {
        struct stock_item_get get;
        struct stock_buyers page;
    } call;
    char cursor[24];
    int64_t users[HINT_PAGE_MAX];
    struct metric *installed, *moved, *on_sale, *over_bound, *failed, *link, *untracked;
};

void hint_loader_init(struct hint_loader *l);
/* A buyer's answer said that the item is sold out at v. */
void hint_loader_sold_out(struct hint_loader *l, struct item item, struct item_version v);
/* Nothing is started any more and what is under way is cancelled; its end still comes, at the
 * latest when the stock port is freed. */
void hint_loader_stop(struct hint_loader *l);
void hint_loader_deinit(struct hint_loader *l); /* stopped, and nothing under way */
