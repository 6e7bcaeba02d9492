/* Whether the catalogue of items is missing: then the store lost something, and nothing is sold
 * there, however whole a single item looks (rule 34). Asked for every CATALOGUE_EVERY_US, and while
 * it is missing every CATALOGUE_AGAIN_US, since the first item of all is on sale right after it was
 * listed. A question that fails leaves the answer of before.
 *
 * One a process, on its control loop; catalogue_missing is for any thread. */
#pragma once

#include "base/metric.h"
#include "base/sched.h"
#include "port/stock.h"
#include <stdatomic.h>

#define CATALOGUE_EVERY_US 1000000
#define CATALOGUE_AGAIN_US 20000

struct catalogue_watch {
    /* set by the owner before catalogue_watch_start; borrowed */
    struct stock *stock;
    struct sched *sched;
    int64_t call_us; /* one question */
    /* internal */
    atomic_bool missing;
    bool stopped;
    struct timer timer;
    struct stock_items call;
    struct item page[STOCK_ITEMS_PAGE];
    struct metric *gauge;
};

void catalogue_watch_start(struct catalogue_watch *w);
/* Nothing is asked any more; what is under way ends with the stock port. */
void catalogue_watch_stop(struct catalogue_watch *w);
static inline bool catalogue_missing(const struct catalogue_watch *w)
{
    return atomic_load_explicit(&w->missing, memory_order_relaxed);
}
