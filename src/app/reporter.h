/* Reports items of which the store may have lost something (rule 34); what is to be done about it
 * is the workers'. Of one loop, never waits.
 *
 * Bounded: REPORTER_ITEMS items are remembered, each is reported at most once in REPORTER_EVERY_US,
 * a failed report may be repeated at once; with no place left a report is dropped: whoever saw it
 * sees it again. */
#pragma once

#include "base/metric.h"
#include "base/sched.h"
#include "port/stock.h"

#define REPORTER_ITEMS 64
#define REPORTER_EVERY_US 1000000

enum report_why {
    REPORT_NOWHERE, /* a request that was accepted in this epoch is nowhere (34c) */
    REPORT_BEHIND,  /* the store's version is below what it said before (34a) */
    REPORT_WHYS
};

struct reporter {
    /* set by the owner before reporter_init; borrowed */
    struct stock *stock;
    struct sched *sched;
    int64_t call_us;
    /* internal */
    struct reporter_slot {
        struct reporter *owner;
        struct item item;
        int64_t next_us; /* not before this; 0: free */
        bool busy;
        struct stock_report call;
    } slots[REPORTER_ITEMS];
    struct {
        struct metric *sent[REPORT_WHYS], *failed, *dropped;
    } count;
};

void reporter_init(struct reporter *r);
/* Its operation may still be under way when the owner ends: it does with the stock port. */
void reporter_report(struct reporter *r, struct item item, enum report_why why);
