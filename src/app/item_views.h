/* What an item looks like from outside, read from the store at most every 200 ms however many ask:
 * a bounded cache, whose loads are shared. Of one loop.
 *
 * Bounded: ITEM_VIEWS_MAX items; the one that was asked for longest ago makes room; when every one
 * is being loaded, ERR_OVERLOAD. Items that do not exist are remembered as such. Failures are not
 * remembered. */
#pragma once

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/sched.h"
#include "port/stock.h"

#define ITEM_VIEWS_MAX 1024
#define ITEM_VIEWS_FRESH_US 200000

struct item_view {
    int rc; /* of stock->item: 0 found, 1 not there, or an error */
    bool listed;
    struct stock_item_info info;
    int64_t asked_us, loaded_us; /* monotonic: when the store was asked, when the answer came */
};

struct item_entry;
struct item_waiter {
    /* Once, never inside item_views_ask. */
    void (*on_view)(struct item_waiter *w, const struct item_view *v);
    struct item_entry *entry; /* internal; NULL: does not wait */
    struct list link;
};

struct item_views {
    /* set by the owner before item_views_init; borrowed */
    struct stock *stock;
    struct sched *sched;
    int64_t call_us; /* one load */
    /* internal */
    struct item_entry *all;
    int used;        /* of all */
    struct list lru; /* the one asked for last in front; loading ones are not in it */
    struct map by_item;
    struct hash_key secret;
    int loading;
    struct {
        struct metric *cached, *coalesced;
    } count;
};

int item_views_init(struct item_views *v);    /* 0, or ERR_OVERLOAD without memory */
void item_views_deinit(struct item_views *v); /* nothing may be under way */

enum { ITEM_VIEW_NOW = 0, ITEM_VIEW_LATER = 1 };
/* A view that was asked for before since_us is not good enough, however fresh (0: any fresh one):
 * what it says may not speak about something that was seen later. A view that was under way already
 * comes all the same: whoever cares looks at asked_us and asks again. ITEM_VIEW_NOW: *now is it,
 * until the next call; ITEM_VIEW_LATER: on_view comes; ERR_OVERLOAD: neither. w->on_view is set. */
int item_views_ask(struct item_views *v, struct item item, int64_t since_us, struct item_waiter *w,
                   const struct item_view **now);
void item_views_leave(struct item_waiter *w); /* on_view will not come; harmless when not waiting */

/* What a buyer would hear now, in the order in which the reserve script asks. */
enum item_state {
    ITEM_NOT_OPEN,
    ITEM_OPEN,
    ITEM_PAUSED,
    ITEM_ENDED,
    ITEM_SOLD_OUT,
};
enum item_state item_view_state(const struct stock_item_info *i, int64_t now_ms);
struct str item_view_state_name(enum item_state s);
/* The free units, rounded up to a whole tenth of the total: 0 only if nothing is left. */
int64_t item_view_free_about(const struct stock_item_info *i);
