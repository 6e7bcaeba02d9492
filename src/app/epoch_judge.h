/* What a look at an item in Redis says, against what PostgreSQL had said just before (rule 34).
 * Pure. */
#pragma once

#include "port/orders.h"
#include "port/stock.h"

#define EPOCH_REPORT_REST_MS 30000 /* a report is believed once in so long, for an item */

enum epoch_finding {
    EPOCH_GOOD,
    EPOCH_UNKNOWN,     /* Redis did not answer */
    EPOCH_LOST,        /* no meta, or no stock */
    EPOCH_BEHIND,      /* at an older epoch */
    EPOCH_INTERRUPTED, /* a rebuild's, that did not come to its end */
    EPOCH_ROLLED_BACK, /* at a lower seq than PostgreSQL knows, or this process saw */
    EPOCH_REPORTED,    /* by an API or query-api */
    EPOCH_ASKED,       /* by an operator */
    EPOCH_UNFINISHED,  /* only PostgreSQL does not know that it came to its end */
    EPOCH_AHEAD,       /* at a newer epoch than PostgreSQL */
    EPOCH_FINDINGS
};
const char *epoch_finding_name(enum epoch_finding f);

/* pg was read first: whatever it knows Redis had known before, so a lower (epoch, seq) is a loss
 * and never a race. seen: the highest in Redis that the caller knows of, {0, 0}: none. rc and info:
 * of the stock's `item`. */
enum epoch_finding epoch_judge(const struct orders_watched *pg, struct item_version seen,
                               bool reported, int rc, const struct stock_item_info *info);
